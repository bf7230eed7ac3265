"""ResourceBinding and ClusterResourceBinding (work.karmada.io/v1alpha2): one type for both scopes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from msgspec import field

from controlplane.apimachinery.meta import Condition, Int32, Object, QuantityText, Struct, UserStruct
from controlplane.kinds.policy import DEFAULT_SCHEDULER, FailoverBehavior, Placement, SuspendClusters

RESOURCE_BINDING = "work.karmada.io/ResourceBinding"
CLUSTER_RESOURCE_BINDING = "work.karmada.io/ClusterResourceBinding"
BINDINGS = (RESOURCE_BINDING, CLUSTER_RESOURCE_BINDING)


OVERRIDES_APPLIED = "OverridesApplied"
"""Type of a condition. Only a binding for which an override policy has failed has it."""


class ObjectReference(Struct, frozen=True):
    """A reference to the template of a binding."""

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
    """The resources that one replica requests, and the nodes it needs."""

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
    """A cluster on which a binding is placed, with the replicas there."""

    name: str
    replicas: Int32 = 0
    components: tuple[TargetComponent, ...] = ()


TAINT_UNTOLERATED, APPLICATION_FAILURE, DRAINED = "TaintUntolerated", "ApplicationFailure", "Drain"
EVICTED = frozenset({TAINT_UNTOLERATED, APPLICATION_FAILURE, DRAINED})  # the scheduler places the copy again
TAINT_MANAGER = "TaintManager"
FAILED_BACK, PARTLY_FAILED_BACK = (
    "Failback",
    "FailbackInPart",
)  # a whole copy, or part of its replicas
REVERTED, PARTLY_REVERTED = "Reverted", "RevertedInPart"
PARTLY_RESTORED = "RestoredInPart"  # the copy is a target again, and other clusters have got a part of its replicas
MOVED = frozenset({FAILED_BACK, REVERTED})  # the write that made the task has placed the copy again
IN_PART = frozenset({PARTLY_FAILED_BACK, PARTLY_REVERTED, PARTLY_RESTORED})


class GracefulEvictionTask(Struct, frozen=True):
    """A task to evict the copy on a cluster. The copy stays there until the task is cleared.

    See [graceful-eviction].
    """

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
    """A binding whose template needs the template of this binding, and the clusters where it does."""

    namespace: str = ""
    name: str = ""
    clusters: tuple[TargetCluster, ...] = ()


class BindingPriority(Struct, frozen=True):
    priority: Int32 = 0


class BindingSuspension(UserStruct, frozen=True):
    """The suspension that the policy asks for, and whether the scheduler leaves the binding alone."""

    dispatching: bool | None = None
    dispatching_on_clusters: SuspendClusters | None = None
    scheduling: bool | None = None


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
    suspension: BindingSuspension | None = None
    preserve_resources_on_deletion: bool | None = None
    schedule_priority: BindingPriority | None = None
    workload_affinity_groups: WorkloadAffinityGroups | None = None

    @property
    def other_scheduler(self) -> str:
        """The name of the scheduler that schedules the binding; "": Lifeboat's own scheduler does."""
        return "" if self.scheduler_name == DEFAULT_SCHEDULER else self.scheduler_name

    @property
    def priority(self) -> int:
        """The schedulePriority of the binding; 0 if it has none."""
        return 0 if self.schedule_priority is None else self.schedule_priority.priority

    @property
    def scheduling_suspended(self) -> bool:
        """Whether scheduling is suspended, so that the targets must not change."""
        return self.suspension is not None and self.suspension.scheduling is True

    def dispatching_suspended(self, cluster: str) -> bool:
        """Whether the Work for a cluster is not sent to it, so that a copy there does not start and does not change."""
        if self.suspension is None:
            return False
        withheld = self.suspension.dispatching_on_clusters
        return self.suspension.dispatching is True or (withheld is not None and cluster in withheld.cluster_names)

    def target(self, cluster: str) -> TargetCluster | None:
        """Return the target on a cluster; None: the binding is not placed there."""
        for target in self.clusters:  # called thousands of times a second, so without a generator
            if target.name == cluster:
                return target
        return None

    def task(self, cluster: str) -> GracefulEvictionTask | None:
        """Return the eviction task for a cluster; None: no task is for that cluster."""
        return next((task for task in self.graceful_eviction_tasks if task.from_cluster == cluster), None)

    def replicas_returning(self, cluster: str) -> int:
        """Return the replicas that leave a cluster which stays a target: in a failback or revert of a part, or after
        the recovery of a cluster (IN_PART).

        They run on the cluster in addition to those of the target until the task is cleared. 0: no such task.
        """
        task = self.task(cluster)
        if task is None or task.reason not in IN_PART or self.target(cluster) is None:
            return 0
        return task.replicas or 0


HEALTHY, UNHEALTHY, UNKNOWN = "Healthy", "Unhealthy", "Unknown"


class AggregatedStatusItem(Struct, frozen=True):
    """The status that a member reported of its copy.

    While the cluster cannot be reached, `status` and `applied` are the last reported values, `health` is Unknown and
    `last_known_health` is the last reported health. `scaled_by_member`: the label of the copy leaves its number of
    replicas to the member [scaled-workloads].
    """

    cluster_name: str
    status: dict[str, Any] | None = None
    applied: bool = False
    applied_message: str = ""
    health: str = ""
    last_known_health: str = ""
    out_of_reach_since: datetime | None = None
    scaled_by_member: bool = False

    @property
    def reported_health(self) -> str:
        """The health that the member reported last, even if that is long ago."""
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
    """A ResourceBinding if it has a namespace, else a ClusterResourceBinding."""

    spec: ResourceBindingSpec = ResourceBindingSpec(resource=ObjectReference("", "", ""))
    status: ResourceBindingStatus = ResourceBindingStatus()

    @property
    def workload(self) -> bool:
        """Whether the template is a workload, which has replicas or requests resources."""
        return self.spec.replicas > 0 or self.spec.replica_requirements is not None or bool(self.spec.components)

    @property
    def scaled_to_zero(self) -> bool:
        """Whether the template is a workload that asks for no replicas, so that it needs no copies."""
        return self.workload and not self.spec.replicas and not self.spec.components

    def clusters_kept(self) -> Iterator[str]:
        """Yield the clusters whose copies must not be removed.

        They are those of targets, of requiredBy, and of eviction tasks whose purge mode is not Directly. A cluster may
        occur more than once.
        """
        for target in self.spec.clusters:
            yield target.name
        for parent in self.spec.required_by:
            for target in parent.clusters:
                yield target.name
        for task in self.spec.graceful_eviction_tasks:
            if task.purge_mode != "Directly":
                yield task.from_cluster
