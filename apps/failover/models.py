"""The eviction queue, the tasks of bindings that leave clusters, and what is remembered of the fleet."""

from __future__ import annotations

from django.db import models

from apps.objects.fields import CodePointTextField
from apps.objects.read_only import ReadOnlyModel
from apps.objects.relations import ReadRelation
from apps.objects.row_model import RowModel
from controlplane.kinds import rows


class GracefulEvictionTask(ReadOnlyModel):
    """A cluster a binding is leaving; written with the binding's document."""

    id = models.BigAutoField(primary_key=True)
    binding = CodePointTextField()  # reference as text
    from_cluster = CodePointTextField()
    purge_mode = CodePointTextField()
    reason = CodePointTextField()
    producer = CodePointTextField()
    created_at = models.DateTimeField(null=True)
    grace_period_seconds = models.BigIntegerField(null=True)  # null: graceful_eviction_timeout
    suppress_deletion = models.BooleanField(null=True)  # null: its time counts
    binding_object = ReadRelation("resources.Binding", column="binding", by="reference", many="eviction_tasks")

    class Meta:
        constraints = [
            # read by apply (rows of a binding); at most one task per binding and cluster (I6)
            models.UniqueConstraint(fields=["binding", "from_cluster"], name="one_eviction_per_pair"),
        ]
        indexes = [
            # read by the pages of a cluster: what is leaving it
            models.Index(fields=["from_cluster"], name="evictiontask_cluster"),
        ]

    def __str__(self) -> str:
        return f"{self.binding} from {self.from_cluster}"


class Eviction(RowModel, row=rows.Eviction, prose=("message",)):
    """An item of the eviction queue; row-native (`controlplane.kinds.rows.Eviction`)."""

    binding_object = ReadRelation("resources.Binding", column="binding", by="reference", many="evictions")

    class Meta:
        indexes = [
            # read by state.queue_heads, state.next_eviction: the heads of the queue per priority (D7)
            models.Index(
                fields=["priority", "due_at", "key"],
                name="eviction_queue",
                condition=models.Q(state="Queued", due_at__isnull=False),
            ),
            # read by controllers.eviction_queue: all evictions of a binding in one query
            models.Index(fields=["binding"], name="eviction_binding"),
            # read by controllers.eviction_queue: what recovery drops; metrics per cluster
            models.Index(fields=["cluster"], name="eviction_cluster"),
            # read by state.held_evictions, and by state.queue_heads per cluster (eviction.bucket_scope)
            models.Index(fields=["state", "cluster", "priority", "due_at", "key"], name="eviction_state"),
        ]


class AilingCopies(RowModel, row=rows.AilingCopies):
    """Since when copies of a binding are unhealthy; row-native (`controlplane.kinds.rows.AilingCopies`)."""


class FleetState(RowModel, row=rows.FleetState):
    """What is remembered of the fleet as a whole; row-native (`controlplane.kinds.rows.FleetState`)."""
