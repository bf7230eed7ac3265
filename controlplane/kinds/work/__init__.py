"""Work (work.karmada.io/v1alpha1): a manifest for a member, and the status that the member reports."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery.meta import Condition, Object, Ref, Struct, UserStruct
from controlplane.apimachinery.names import BINDING_ANNOTATION, EXECUTION_NAMESPACE_PREFIX

WORK = "work.karmada.io/Work"


class Workload(UserStruct, frozen=True):
    manifests: tuple[dict[str, Any], ...] = ()


class WorkSpec(UserStruct, frozen=True):
    workload: Workload = Workload()
    suspend_dispatching: bool | None = None
    preserve_resources_on_deletion: bool | None = None


class ResourceIdentifier(Struct, frozen=True):
    """The object of the member that a status is about."""

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
"""Condition type: False after the object disappeared from its member or was changed there, until it has stayed there as
it was applied for a minute.

A Work whose object was always kept does not have this condition."""
DRIFTED = "Drifted"
"""Condition type: True while an object differs from its manifest because it was changed on its member. Its message
names the fields. A Work whose object was never changed does not have this condition."""
# Reasons of Drifted: the change is put back, it is only reported; it was put back, or taken back on the member.
OBJECT_CHANGED, CHANGE_REPORTED, PUT_BACK, CHANGE_GONE = "ObjectChanged", "ChangeReported", "PutBack", "ChangeGone"
# Reasons of Applied: the member refused the manifest; it refused to delete the object; the object has more replicas
# than the manifest, because other copies are not healthy yet (controlplane/eviction/leftovers.py).
APPLIED_SUCCESSFUL = "AppliedSuccessful"
APPLIED_FAILED, CLEANUP_FAILED, REPLICAS_KEPT = "AppliedFailed", "CleanupFailed", "ReplicasKept"
# Reasons of Applied while a Work is deleted: the member is deleting the object; the object is gone.
REMOVING, REMOVED = "Removing", "Removed"
# Reason of Applied=True: the Namespace existed on the member before. It is used, but neither changed nor deleted.
NAMESPACE_USED = "NamespaceUsed"
# Reason of Applied=True: the object had finished, as a complete Job, before it disappeared from the member.
FINISHED = "Finished"
OBSERVED = "Observed"  # Applied is Unknown: the member is compared and not written to [observed-clusters]


_PREFIX_LENGTH = len(EXECUTION_NAMESPACE_PREFIX)


class Work(Object, frozen=True):
    spec: WorkSpec = WorkSpec()
    status: WorkStatus = WorkStatus()

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of the Work; {}: a user wrote a Work without a manifest."""
        return self.spec.workload.manifests[0] if self.spec.workload.manifests else {}

    @property
    def cluster(self) -> str:
        """The cluster that the Work is for; "": its namespace is not the namespace of a cluster."""
        namespace = self.metadata.namespace  # asked many times per change, so without further calls
        return namespace[_PREFIX_LENGTH:] if namespace.startswith(EXECUTION_NAMESPACE_PREFIX) else ""

    @property
    def made_for(self) -> Ref | None:
        """The binding or Namespace for which a controller created the Work; None: a user created it.

        The annotation is only trusted in a namespace of a cluster, which ordinary users cannot write to.
        """
        text = self.metadata.annotations.get(BINDING_ANNOTATION, "")
        return Ref.parse(text) if self.cluster and ":" in text else None
