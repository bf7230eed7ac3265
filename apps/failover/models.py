"""The eviction queue, the tasks of bindings that leave clusters, and what is remembered of the fleet."""

from __future__ import annotations

from django.db import models

from apps.objects.models import Word


class GracefulEvictionTask(models.Model):
    """A cluster a binding is leaving; written with the binding's document."""

    id = models.BigAutoField(primary_key=True)
    binding = Word()  # reference as text
    from_cluster = Word()
    purge_mode = Word()
    reason = Word()
    producer = Word()
    created_at = models.DateTimeField(null=True)
    grace_period_seconds = models.BigIntegerField(null=True)  # null: graceful_eviction_timeout
    suppress_deletion = models.BooleanField(null=True)  # null: its time counts

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


class Eviction(models.Model):
    """An item of the eviction queue; row-native (`controlplane.kinds.rows.Eviction`)."""

    key = Word(primary_key=True)  # binding|cluster
    binding = Word()
    cluster = Word()
    resource_kind = Word()
    priority = models.BigIntegerField()
    due_at = models.DateTimeField(null=True)  # null: the copy stays
    queued_at = models.DateTimeField(null=True)
    state = Word()
    reason = Word()
    message = models.TextField()
    generation = models.BigIntegerField(default=0)
    judged = models.JSONField()
    failed_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

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

    def __str__(self) -> str:
        return self.key


class AilingCopies(models.Model):
    """Since when copies of a binding are unhealthy; row-native (`controlplane.kinds.rows.AilingCopies`)."""

    key = Word(primary_key=True)  # the binding's reference
    since = models.JSONField()  # moments by cluster
    version = Word(default="")
    moves = models.JSONField(default=dict)  # moments by cluster

    def __str__(self) -> str:
        return self.key


class FleetState(models.Model):
    """What is remembered of the fleet as a whole; row-native (`controlplane.kinds.rows.FleetState`)."""

    key = Word(primary_key=True)
    blind_since = models.DateTimeField(null=True)
    sighted_at = models.DateTimeField(null=True)
    failover_on_since = models.DateTimeField(null=True)
    capacity = Word(default="")  # digest of the clusters when held evictions were last looked at
    holds = Word(default="")  # digest of holds and windows when what they hold was last looked at
    tier = Word(default="")  # the tier that was last told
    stops = models.JSONField(
        default=list, db_default=models.Value([], models.JSONField())
    )  # times in which nothing was evicted
    scope = Word(default="", db_default="")  # eviction.bucket_scope when the queue was last looked at
    cursor = models.JSONField(null=True)  # how far held evictions have been looked at again; null: all have been

    def __str__(self) -> str:
        return self.key
