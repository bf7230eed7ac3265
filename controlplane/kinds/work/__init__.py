"""Work (work.karmada.io/v1alpha1): one manifest for one member, and what the member says of it."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery.meta import Condition, Object, Ref, Struct, UserStruct
from controlplane.apimachinery.names import BINDING_ANNOTATION, cluster_of_execution_namespace, is_execution_namespace

WORK = "work.karmada.io/Work"


class Workload(UserStruct, frozen=True):
    manifests: tuple[dict[str, Any], ...] = ()


class WorkSpec(UserStruct, frozen=True):
    workload: Workload = Workload()
    suspend_dispatching: bool | None = None
    preserve_resources_on_deletion: bool | None = None


class ResourceIdentifier(Struct, frozen=True):
    """Which object of the member a status is about."""

    ordinal: int = 0
    group: str = ""
    version: str = ""
    kind: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""


class ManifestStatus(Struct, frozen=True):
    identifier: ResourceIdentifier = ResourceIdentifier()
    status: dict[str, Any] | None = None
    health: str = ""


class WorkStatus(Struct, frozen=True):
    conditions: tuple[Condition, ...] = ()
    manifest_statuses: tuple[ManifestStatus, ...] = ()


APPLIED, DISPATCHING = "Applied", "Dispatching"
RETAINED = "Retained"
"""Condition type: False since an object was lost on its member until it has stayed there for a minute. Not there before
the first loss."""
# Reasons of Applied: the member did not take the manifest; it did not let the object go; it has the manifest with more
# replicas than it says, as other copies are not healthy (controlplane/eviction/leftovers.py).
APPLIED_FAILED, CLEANUP_FAILED, REPLICAS_KEPT = "AppliedFailed", "CleanupFailed", "ReplicasKept"
# Reasons of Applied while a Work is removed: the member is deleting the object; the object is gone.
REMOVING, REMOVED = "Removing", "Removed"
# Reason of Applied=True: a Namespace that was on the member before is used as it is, neither changed nor deleted.
NAMESPACE_USED = "NamespaceUsed"


class Work(Object, frozen=True):
    spec: WorkSpec = WorkSpec()
    status: WorkStatus = WorkStatus()

    @property
    def manifest(self) -> dict[str, Any]:
        """The one manifest a Work carries; {} where a user wrote a Work without any."""
        return self.spec.workload.manifests[0] if self.spec.workload.manifests else {}

    @property
    def cluster(self) -> str:
        """The cluster it is for; "" where it is in no namespace of a cluster."""
        namespace = self.metadata.namespace
        return cluster_of_execution_namespace(namespace) if is_execution_namespace(namespace) else ""

    @property
    def made_for(self) -> Ref | None:
        """The binding or Namespace it is a copy of; None: it is a user's own, whatever its annotations say. A copy is
        in a namespace of a cluster, which not everybody may write to."""
        said = self.metadata.annotations.get(BINDING_ANNOTATION, "")
        return Ref.parse(said) if self.cluster and ":" in said else None
