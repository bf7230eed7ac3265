"""Tables of bindings and Works: the clusters of each template, and the manifest that each cluster gets."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from apps.objects.fields import CodePointTextField
from apps.objects.models import Child, StoredObject, search_indexes
from apps.objects.read_only import ReadOnlyModel
from apps.objects.relations import ReadRelation
from apps.objects.row_model import RowModel
from controlplane.apimachinery.meta import Condition
from controlplane.kinds import rows
from controlplane.kinds.binding import SCHEDULED
from controlplane.kinds.binding import Binding as BindingObject
from controlplane.kinds.work import APPLIED


def _status_of(conditions: tuple[Condition, ...], type_: str) -> str:
    """Return the status of a condition; "": the object has no such condition."""
    return next((condition.status for condition in conditions if condition.type == type_), "")


def _targets(binding: BindingObject) -> list[tuple[Any, ...]]:
    unique = {target.name: target.replicas for target in binding.spec.clusters}
    return list(unique.items())


def _tasks(binding: BindingObject) -> list[tuple[Any, ...]]:
    unique = {task.from_cluster: task for task in binding.spec.graceful_eviction_tasks}
    return [
        (
            task.from_cluster,
            task.purge_mode,
            task.reason,
            task.producer,
            task.creation_timestamp,
            task.grace_period_seconds,
            task.suppress_deletion,
        )
        for task in unique.values()
    ]


class Binding(StoredObject):  # type: ignore[django-manager-missing, unused-ignore]  # inherited; found on warm caches only
    """A ResourceBinding or a ClusterResourceBinding."""

    projections: ClassVar = {
        "resource_kind": lambda binding: f"{binding.spec.resource.api_version}/{binding.spec.resource.kind}",
        "replicas": lambda binding: binding.spec.replicas,
        "scheduled": lambda binding: _status_of(binding.status.conditions, SCHEDULED),
        "priority": lambda binding: binding.spec.priority,
    }
    children: ClassVar = (
        Child("resources.TargetCluster", "binding", ("cluster", "replicas"), _targets),
        Child(
            "failover.GracefulEvictionTask",
            "binding",
            (
                *("from_cluster", "purge_mode", "reason", "producer"),
                *("created_at", "grace_period_seconds", "suppress_deletion"),
            ),
            _tasks,
        ),
    )

    class Meta(StoredObject.Meta):
        indexes = search_indexes(pending=("keys", "labels"))

    resource_kind = CodePointTextField()
    replicas = models.BigIntegerField()
    scheduled = CodePointTextField()  # status of the condition Scheduled; "": the scheduler has not decided yet
    priority = models.BigIntegerField()

    @property
    def works(self) -> models.QuerySet[Work]:
        """The Works made from this binding. Each has the reference of its binding among its index keys."""
        return Work.objects.filter(keys__contains=[f"binding={self.reference}"])


class TargetCluster(ReadOnlyModel):
    """A cluster on which a binding is placed: a row for each of `spec.clusters`."""

    id = models.BigAutoField(primary_key=True)
    binding = CodePointTextField()  # reference as text: ResourceBinding:shop/web
    cluster = CodePointTextField()
    replicas = models.BigIntegerField()
    binding_object = ReadRelation("resources.Binding", column="binding", by="reference", many="targets")

    class Meta:
        constraints = [
            # read by apply and by the pages of a binding: the rows of a binding
            models.UniqueConstraint(fields=["binding", "cluster"], name="one_target_per_cluster"),
        ]
        indexes = [
            # read by the pages of a cluster: replicas placed there, in the order of the bindings
            models.Index(fields=["cluster", "binding"], name="target_cluster"),
        ]

    def __str__(self) -> str:
        return f"{self.binding} {self.cluster}"


class Work(StoredObject):
    """A Work: the manifest of one object for one cluster."""

    projections: ClassVar = {
        "cluster": lambda work: work.cluster,
        "applied": lambda work: _status_of(work.status.conditions, APPLIED),
        "manifest_api_version": lambda work: work.manifest.get("apiVersion", ""),
        "manifest_kind": lambda work: work.manifest.get("kind", ""),
    }

    cluster = CodePointTextField()
    manifest_api_version = CodePointTextField()
    manifest_kind = CodePointTextField()
    applied = CodePointTextField()  # status of the condition Applied; "": the cluster has not answered yet

    class Meta(StoredObject.Meta):
        indexes = [
            *search_indexes(pending=("labels",)),
            # read by state.kinds_on_members: the kinds that the members process watches
            models.Index(fields=["cluster", "manifest_api_version", "manifest_kind"], name="work_kinds"),
        ]


class IssuedToken(RowModel, row=rows.IssuedToken):
    """A bearer token of a ServiceAccount that a Secret holds."""

    class Meta:
        indexes = [
            # read by controllers.token_secrets: the tokens of a Secret
            models.Index(fields=["place"], name="issuedtoken_place"),
        ]
