"""Clusters, their taints, and what probes and policies last saw of them."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from apps.objects.models import Child, StoredObject, Word


def _taints(cluster: Any) -> list[tuple[Any, ...]]:
    return [(taint.key, taint.effect, taint.value, taint.time_added) for taint in cluster.spec.taints]


class Cluster(StoredObject):
    """A member cluster."""

    projections: ClassVar = {
        "ready": lambda cluster: cluster.ready,
        "sync_mode": lambda cluster: cluster.spec.sync_mode,
        "region": lambda cluster: cluster.spec.region,
        "provider": lambda cluster: cluster.spec.provider,
        "kubernetes_version": lambda cluster: cluster.status.kubernetes_version,
    }
    children: ClassVar = (
        Child("clusters.Taint", "cluster", ("key", "effect", "value", "time_added"), _taints, by_name=True),
    )

    ready = Word()  # status of the Ready condition; "" nobody reported it yet
    sync_mode = Word()
    region = Word()
    provider = Word()
    kubernetes_version = Word()


class Taint(models.Model):
    """A taint of a cluster."""

    id = models.BigAutoField(primary_key=True)
    cluster = Word()
    key = Word()
    effect = Word()
    value = Word()
    time_added = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            # read by apply (rows of a cluster) and the pages that list taints
            models.UniqueConstraint(fields=["cluster", "key", "effect"], name="one_taint_per_key_and_effect"),
        ]

    def __str__(self) -> str:
        return f"{self.cluster} {self.key}={self.value}:{self.effect}"


class Observation(models.Model):
    """What probes and heartbeats last said of a cluster; row-native (`controlplane.kinds.rows.Observation`)."""

    key = Word(primary_key=True)  # the cluster's name
    status = Word()
    reason = Word()
    message = models.TextField()
    since = models.DateTimeField(null=True)
    observed_at = models.DateTimeField(null=True)
    access_lost = Word()
    access_reason = Word(default="")
    renewed_at = models.DateTimeField(null=True)
    collected_at = models.DateTimeField(null=True)
    unobserved_seconds = models.FloatField(default=0.0)
    resumed_at = models.DateTimeField(null=True)
    turns = models.BigIntegerField(default=0)
    turned_at = models.JSONField(default=list)
    answered_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.key} {self.status}"


class Collected(models.Model):
    """What was last read from a healthy member; row-native (`controlplane.kinds.rows.Collected`)."""

    key = Word(primary_key=True)  # the cluster's name
    kubernetes_version = Word()
    api_enablements = models.JSONField()
    node_summary = models.JSONField(null=True)
    resource_summary = models.JSONField(null=True)
    unread = models.JSONField(default=list)
    at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "collected"

    def __str__(self) -> str:
        return f"{self.key} {self.kubernetes_version}"


class MatchWindow(models.Model):
    """Since when a ClusterTaintPolicy matches a cluster; row-native (`controlplane.kinds.rows.MatchWindow`)."""

    key = Word(primary_key=True)  # policy|cluster
    policy = Word()
    cluster = Word()
    rule = Word()
    matching = models.BooleanField()
    since = models.DateTimeField(null=True)
    unobserved_seconds = models.FloatField(default=0.0)
    ready = Word(default="", db_default="")  # status of Ready when last looked at
    ready_since = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            # read by controllers.cluster_taints: all windows of a cluster in one query
            models.Index(fields=["cluster"], name="matchwindow_cluster"),
            # read by controllers.garbage: windows of policies that are gone
            models.Index(fields=["policy"], name="matchwindow_policy"),
        ]

    def __str__(self) -> str:
        return self.key
