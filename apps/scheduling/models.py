"""Tables of the scheduler: reserved capacity, hints from evictions, and explanations of placements."""

from __future__ import annotations

from django.db import models

from apps.objects.row_model import RowModel
from controlplane.kinds import rows


class CapacityReservation(RowModel, row=rows.CapacityReservation, prose=("request",)):
    """Capacity of a cluster that is reserved for a Work and that no report of the cluster counts yet."""

    number = models.BigIntegerField(default=0, db_default=0)  # rises with each reservation; see tables.RowTable

    class Meta:
        indexes = [
            # read by lookup.reserved_query: reservations by other controllers while a decision was made
            models.Index(fields=["number"], name="reservation_number"),
            # read by controllers.scheduler: what is reserved on the clusters of a batch
            models.Index(fields=["cluster"], name="reservation_cluster"),
            # read by controllers.scheduler: the reservations of a binding, which its next placement replaces
            models.Index(fields=["binding"], name="reservation_binding"),
            # read by controllers.scheduler: the latest reservations on all clusters
            models.Index(fields=["made_at"], name="reservation_made_at"),
        ]


class PlacementHint(RowModel, row=rows.PlacementHint):
    """The clusters on which an eviction found capacity for a binding, as a hint for the scheduler [refuge-first]."""


class PlacementNote(RowModel, row=rows.PlacementNote, prose=("decision", "detail", "previous")):
    """The explanation of a binding's latest placement, or of why no cluster was found."""

    class Meta:
        indexes = [
            # read by controllers.fleet_names: the lists of clusters that notes refer to
            models.Index(fields=["fleet"], name="placementnote_fleet"),
        ]


class FleetNames(RowModel, row=rows.FleetNames, prose=("names",)):
    """A list of cluster names, kept once for all notes that refer to it by its digest."""

    class Meta:
        verbose_name = "list of cluster names"
        verbose_name_plural = "lists of cluster names"
