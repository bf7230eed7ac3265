"""The ledger of capacity that was promised and not yet seen in any status."""

from __future__ import annotations

from django.db import models

from apps.objects.models import Word


class Promise(models.Model):
    """Capacity promised to a Work; row-native (`controlplane.kinds.rows.Promise`)."""

    key = Word(primary_key=True)  # binding|cluster
    binding = Word()
    cluster = Word()
    replicas = models.BigIntegerField()
    request = models.TextField()
    made_at = models.DateTimeField(null=True)
    applied_at = models.DateTimeField(null=True)
    reserved = models.BooleanField(db_default=False)
    writer = Word(default="", db_default="")
    number = models.BigIntegerField(default=0, db_default=0)  # rises with every promise; see tables.RowTable

    class Meta:
        indexes = [
            # read by lookup.promised_query: what others promised while a decision was made
            models.Index(fields=["number"], name="promise_number"),
            # read by controllers.scheduler: what is promised on the clusters of a batch
            models.Index(fields=["cluster"], name="promise_cluster"),
            # read by controllers.scheduler: a binding's own promises are replaced
            models.Index(fields=["binding"], name="promise_binding"),
            # read by controllers.scheduler: what was promised lately, on all clusters
            models.Index(fields=["made_at"], name="promise_made_at"),
        ]

    def __str__(self) -> str:
        return self.key


class PlacementHint(models.Model):
    """Where an eviction found room for a binding; row-native (`controlplane.kinds.rows.PlacementHint`)."""

    key = Word(primary_key=True)  # reference of the binding as text
    generation = models.BigIntegerField()
    clusters = models.JSONField()

    def __str__(self) -> str:
        return self.key


class PlacementNote(models.Model):
    """Why a binding went where it went, or nowhere; row-native (`controlplane.kinds.rows.PlacementNote`)."""

    key = Word(primary_key=True)  # reference of the binding as text
    decision = models.TextField()
    detail = models.TextField()
    previous = models.TextField()
    fleet = Word()

    class Meta:
        indexes = [
            # read by controllers.fleet_names: which fleets some note speaks of
            models.Index(fields=["fleet"], name="placementnote_fleet"),
        ]

    def __str__(self) -> str:
        return self.key


class FleetNames(models.Model):
    """The names of a fleet's clusters under their digest; row-native (`controlplane.kinds.rows.FleetNames`)."""

    key = Word(primary_key=True)
    names = models.TextField()

    def __str__(self) -> str:
        return self.key
