"""Tables of clusters: their objects, their taints, the latest observations, and match windows of taint policies."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from apps.objects.fields import CodePointTextField
from apps.objects.models import Child, StoredObject
from apps.objects.read_only import ReadOnlyModel
from apps.objects.relations import ReadRelation
from apps.objects.row_model import RowModel
from controlplane.kinds import rows


def _taints(cluster: Any) -> list[tuple[Any, ...]]:
    return [(taint.key, taint.effect, taint.value, taint.time_added) for taint in cluster.spec.taints]


class Cluster(StoredObject):  # type: ignore[django-manager-missing, unused-ignore]  # inherited; found on warm caches only
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

    ready = CodePointTextField()  # status of the condition Ready; "": the cluster has no such condition yet
    sync_mode = CodePointTextField()
    region = CodePointTextField()
    provider = CodePointTextField()
    kubernetes_version = CodePointTextField()


class Taint(ReadOnlyModel):
    """A taint of a cluster."""

    id = models.BigAutoField(primary_key=True)
    cluster = CodePointTextField()
    key = CodePointTextField()
    effect = CodePointTextField()
    value = CodePointTextField()
    time_added = models.DateTimeField(null=True)
    cluster_object = ReadRelation("clusters.Cluster", column="cluster", by="name", many="taints")

    class Meta:
        constraints = [
            # read by apply (rows of a cluster) and the pages that list taints
            models.UniqueConstraint(fields=["cluster", "key", "effect"], name="one_taint_per_key_and_effect"),
        ]

    def __str__(self) -> str:
        return f"{self.cluster} {self.key}={self.value}:{self.effect}"


class Observation(RowModel, row=rows.Observation, prose=("message",)):
    """The result of the latest probe or heartbeat of a cluster, before it is debounced."""


class Collected(RowModel, row=rows.Collected):
    """The version, APIs, nodes and resources that were last read from a healthy cluster."""

    class Meta:
        verbose_name_plural = "collected"


class MatchWindow(RowModel, row=rows.MatchWindow):
    """The time since when the conditions of a ClusterTaintPolicy match a cluster, or do not [taint-windows]."""

    class Meta:
        indexes = [
            # read by controllers.cluster_taints: all windows of a cluster in one query
            models.Index(fields=["cluster"], name="matchwindow_cluster"),
            # read by controllers.garbage: windows of policies that are gone
            models.Index(fields=["policy"], name="matchwindow_policy"),
        ]
