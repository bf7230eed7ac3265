"""ResourceBinding and ClusterResourceBinding (work.karmada.io/v1alpha2): one type for both scopes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from msgspec import field

from controlplane.apimachinery.meta import Condition, Int32, Object, QuantityText, Struct
from controlplane.kinds.policy import DEFAULT_SCHEDULER, FailoverBehavior, Placement, Suspension

RESOURCE_BINDING = "work.karmada.io/ResourceBinding"
CLUSTER_RESOURCE_BINDING = "work.karmada.io/ClusterResourceBinding"
BINDINGS = (RESOURCE_BINDING, CLUSTER_RESOURCE_BINDING)


class ObjectReference(Struct, frozen=True):
    """The template a binding is for."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class NodeClaim(Struct, frozen=True):
    hard_node_affinity: dict[str, Any] | None = None
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()


class ReplicaRequirements(Struct, frozen=True):
    """What one replica asks for; quantities as text."""

    node_claim: NodeClaim | None = None
    resource_request: dict[str, QuantityText] = {}
    namespace: str = ""
    priority_class_name: str = ""


class Component(Struct, frozen=True):
    name: str
    replicas: Int32 = 0
    replica_requirements: ReplicaRequirements | None = None


class TargetComponent(Struct, frozen=True):
    name: str
    replicas: Int32 = 0


class TargetCluster(Struct, frozen=True):
    """One cluster of a schedule result."""

    name: str
    replicas: Int32 = 0
    components: tuple[TargetComponent, ...] = ()


TAINT_UNTOLERATED, APPLICATION_FAILURE = "TaintUntolerated", "ApplicationFailure"
TAINT_MANAGER = "TaintManager"
FAILED_BACK, PARTLY_FAILED_BACK = "Failback", "FailbackInPart"  # a whole copy goes back, or a part of one
REVERTED, PARTLY_REVERTED = "Reverted", "RevertedInPart"
IN_PART = frozenset({PARTLY_FAILED_BACK, PARTLY_REVERTED})


class GracefulEvictionTask(Struct, frozen=True):
    """A cluster that is being left: its copy stays until the task is cleared (semantics 1.4)."""

    from_cluster: str
    purge_mode: str = ""
    replicas: Int32 | None = None
    reason: str = ""
    message: str = ""
    producer: str = ""
    grace_period_seconds: Int32 | None = None
    suppress_deletion: bool | None = None
    preserved_label_state: dict[str, str] = {}
    creation_timestamp: datetime | None = None
    clusters_before_failover: tuple[str, ...] = ()
    taint: str = ""  # key:effect of the taint that evicted the copy; "": no taint did
    waited_for: tuple[str, ...] = ()


class BindingSnapshot(Struct, frozen=True):
    """A parent binding that needs this (attached) one, and where."""

    namespace: str = ""
    name: str = ""
    clusters: tuple[TargetCluster, ...] = ()


class BindingPriority(Struct, frozen=True):
    priority: Int32 = 0


class WorkloadAffinityGroups(Struct, frozen=True):
    affinity_group: str = ""
    anti_affinity_group: str = ""


class ResourceBindingSpec(Struct, frozen=True):
    resource: ObjectReference
    propagate_deps: bool = False
    replica_requirements: ReplicaRequirements | None = None
    replicas: Int32 = 0
    components: tuple[Component, ...] = ()
    clusters: tuple[TargetCluster, ...] = ()
    placement: Placement | None = None
    graceful_eviction_tasks: tuple[GracefulEvictionTask, ...] = ()
    required_by: tuple[BindingSnapshot, ...] = ()
    scheduler_name: str = ""
    failover: FailoverBehavior | None = None
    conflict_resolution: str = ""
    reschedule_triggered_at: datetime | None = None
    suspension: Suspension | None = None
    preserve_resources_on_deletion: bool | None = None
    schedule_priority: BindingPriority | None = None
    workload_affinity_groups: WorkloadAffinityGroups | None = None

    @property
    def other_scheduler(self) -> str:
        """The scheduler this is left to where it is not ours (semantics 3.1); "" where it is."""
        return "" if self.scheduler_name == DEFAULT_SCHEDULER else self.scheduler_name

    @property
    def priority(self) -> int:
        """Its schedulePriority; 0 where it has none."""
        return 0 if self.schedule_priority is None else self.schedule_priority.priority

    @property
    def scheduling_suspended(self) -> bool:
        """Whether somebody wants the scheduler to leave it alone."""
        return self.suspension is not None and self.suspension.scheduling is True

    def target(self, cluster: str) -> TargetCluster | None:
        """Return the target on that cluster, None where the binding is not placed there."""
        for one in self.clusters:  # asked thousands of times a second: no generator
            if one.name == cluster:
                return one
        return None

    def task(self, cluster: str) -> GracefulEvictionTask | None:
        """Return the eviction task that leaves that cluster, None where there is none."""
        return next((one for one in self.graceful_eviction_tasks if one.from_cluster == cluster), None)

    def replicas_returning(self, cluster: str) -> int:
        """Return the replicas that go back from the target on a cluster and its task keeps running meanwhile."""
        task = self.task(cluster)
        parted = task is not None and task.reason in IN_PART and self.target(cluster) is not None
        return task.replicas or 0 if task is not None and parted else 0


HEALTHY, UNHEALTHY, UNKNOWN = "Healthy", "Unhealthy", "Unknown"


class AggregatedStatusItem(Struct, frozen=True):
    """What one member reported of its copy.

    While the cluster is out of reach, `status` and `applied` are what it reported last, `health` is Unknown and
    `last_known_health` is the health it reported last.
    """

    cluster_name: str
    status: dict[str, Any] | None = None
    applied: bool = False
    applied_message: str = ""
    health: str = ""
    last_known_health: str = ""
    out_of_reach_since: datetime | None = None

    @property
    def reported_health(self) -> str:
        """The health that the member itself reported last, however long ago."""
        return self.last_known_health or self.health


class PendingEviction(Struct, frozen=True):
    """An eviction that waits. `reason` is Queued, or what holds it."""

    cluster: str
    reason: str = ""
    message: str = ""


class ResourceBindingStatus(Struct, frozen=True):
    scheduler_observed_generation: int = 0
    scheduler_observed_affinity_name: str = field(name="schedulerObservingAffinityName", default="")
    last_scheduled_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    aggregated_status: tuple[AggregatedStatusItem, ...] = ()
    pending_evictions: tuple[PendingEviction, ...] = ()


SCHEDULED, FULLY_APPLIED = "Scheduled", "FullyApplied"


class Binding(Object, frozen=True):
    """A ResourceBinding where it has a namespace, a ClusterResourceBinding where it has none."""

    spec: ResourceBindingSpec = ResourceBindingSpec(resource=ObjectReference("", "", ""))
    status: ResourceBindingStatus = ResourceBindingStatus()

    @property
    def workload(self) -> bool:
        """The template has replicas to divide (semantics 3.1)."""
        return self.spec.replicas > 0 or self.spec.replica_requirements is not None

    def clusters_kept(self) -> Iterator[str]:
        """Yield the clusters whose copies stay: targets, requiredBy, and tasks that do not purge at once."""
        for target in self.spec.clusters:
            yield target.name
        for parent in self.spec.required_by:
            for target in parent.clusters:
                yield target.name
        for task in self.spec.graceful_eviction_tasks:
            if task.purge_mode != "Directly":
                yield task.from_cluster
