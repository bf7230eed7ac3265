"""The ledger of capacity that was promised and not yet seen in any status."""

from __future__ import annotations

from django.db import models

from apps.objects.row_model import RowModel
from controlplane.kinds import rows


class Promise(RowModel, row=rows.CapacityReservation, prose=("request",)):
    """Capacity promised to a Work; row-native (`controlplane.kinds.rows.CapacityReservation`)."""

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


class PlacementHint(RowModel, row=rows.PlacementHint):
    """Where an eviction found room for a binding; row-native (`controlplane.kinds.rows.PlacementHint`)."""


class PlacementNote(RowModel, row=rows.PlacementNote, prose=("decision", "detail", "previous")):
    """Why a binding went where it went, or nowhere; row-native (`controlplane.kinds.rows.PlacementNote`)."""

    class Meta:
        indexes = [
            # read by controllers.fleet_names: which fleets some note speaks of
            models.Index(fields=["fleet"], name="placementnote_fleet"),
        ]


class FleetNames(RowModel, row=rows.FleetNames, prose=("names",)):
    """The names of a fleet's clusters under their digest; row-native (`controlplane.kinds.rows.FleetNames`)."""
