"""Tables of failovers: the eviction queue, graceful eviction tasks, unhealthy copies, the state of the fleet and
readiness."""

from __future__ import annotations

from django.db import models

from apps.objects.fields import CodePointTextField
from apps.objects.read_only import ReadOnlyModel
from apps.objects.relations import ReadRelation
from apps.objects.row_model import RowModel
from controlplane.kinds import rows


class GracefulEvictionTask(ReadOnlyModel):
    """A graceful eviction of a binding from a cluster: a row for each of `spec.gracefulEvictionTasks`."""

    id = models.BigAutoField(primary_key=True)
    binding = CodePointTextField()  # reference as text: ResourceBinding:shop/web
    from_cluster = CodePointTextField()
    purge_mode = CodePointTextField()
    reason = CodePointTextField()
    producer = CodePointTextField()
    created_at = models.DateTimeField(null=True)
    grace_period_seconds = models.BigIntegerField(null=True)  # null: the setting graceful_eviction_timeout
    suppress_deletion = models.BooleanField(null=True)  # null: the old copy is deleted when the time is over
    binding_object = ReadRelation("resources.Binding", column="binding", by="reference", many="eviction_tasks")

    class Meta:
        constraints = [
            # read by apply: the rows of a binding. A binding has at most one task for each cluster.
            models.UniqueConstraint(fields=["binding", "from_cluster"], name="one_eviction_per_pair"),
        ]
        indexes = [
            # read by the pages of a cluster: the tasks that evict from it
            models.Index(fields=["from_cluster"], name="evictiontask_cluster"),
            # read by api.fleet_status: the oldest tasks, to find those that last too long
            models.Index(fields=["created_at"], name="evictiontask_created"),
        ]

    def __str__(self) -> str:
        return f"{self.binding} from {self.from_cluster}"


class Eviction(RowModel, row=rows.Eviction, prose=("message",)):
    """An item of the eviction queue: a copy of a binding that the taints of its cluster evict, or would evict."""

    binding_object = ReadRelation("resources.Binding", column="binding", by="reference", many="evictions")

    class Meta:
        indexes = [
            # read by state.queue_heads, state.next_eviction: the first items of each priority [eviction-queue]
            models.Index(
                fields=["priority", "due_at", "key"],
                name="eviction_queue",
                condition=models.Q(state="Queued", due_at__isnull=False),
            ),
            # read by api.fleet_status: the last due time, from which the end of the queue is estimated
            models.Index(fields=["due_at"], name="eviction_last_due", condition=models.Q(state="Queued")),
            # read by state.queued_between: what was queued within some seconds, to report it
            models.Index(
                fields=["queued_at"],
                name="eviction_queued_at",
                condition=models.Q(state="Queued", due_at__isnull=False),
            ),
            # read by controllers.eviction_queue: all evictions of a binding in one query
            models.Index(fields=["binding"], name="eviction_binding"),
            # read by controllers.eviction_queue: items to remove when a cluster recovers; and by metrics per cluster
            models.Index(fields=["cluster"], name="eviction_cluster"),
            # read by state.held_evictions, and by state.queue_heads per cluster (eviction.bucket_scope)
            models.Index(fields=["state", "cluster", "priority", "due_at", "key"], name="eviction_state"),
        ]


class UnhealthyCopies(RowModel, row=rows.UnhealthyCopies):
    """The time since when each copy of a binding is unhealthy, for application failover."""

    class Meta:
        verbose_name = verbose_name_plural = "unhealthy copies"


class FleetState(RowModel, row=rows.FleetState):
    """The state of the fleet as a whole: when all clusters failed, when failover was switched on, the tier."""


class BindingReadiness(RowModel, row=rows.BindingReadiness):
    """Whether a binding would fail over if one of its clusters failed, and the obstacles."""

    class Meta:
        verbose_name = verbose_name_plural = "readiness of bindings"
        indexes = [
            # read by failover.readiness: bindings by verdict and obstacles, with the first bindings of each
            models.Index(fields=["verdict", "named", "key"], name="readiness_named"),
        ]


class ReadinessRound(RowModel, row=rows.ReadinessRound):
    """The progress of the check of all bindings after a change of the fleet."""


class Notice(RowModel, row=rows.Notice, prose=("text", "error")):
    """A notice that a webhook or a mail server is to get, or has got."""

    class Meta:
        indexes = [
            # read by worker.notices: what is to be sent
            models.Index(fields=["channel", "due_at"], name="notice_due", condition=models.Q(sent_at__isnull=True)),
            # read by worker.notices: what was sent so long ago that it is removed
            models.Index(fields=["sent_at"], name="notice_sent", condition=models.Q(sent_at__isnull=False)),
        ]
