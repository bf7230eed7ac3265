"""PropagationPolicy and ClusterPropagationPolicy (policy.karmada.io/v1alpha1): one type for both scopes."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from controlplane.apimachinery.as_written import declared
from controlplane.apimachinery.meta import Int32, Object, UserStruct
from controlplane.apimachinery.selectors import LabelSelector

PROPAGATION_POLICY = "policy.karmada.io/PropagationPolicy"
CLUSTER_PROPAGATION_POLICY = "policy.karmada.io/ClusterPropagationPolicy"
POLICIES = (PROPAGATION_POLICY, CLUSTER_PROPAGATION_POLICY)


class ResourceSelector(UserStruct, frozen=True):
    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    label_selector: LabelSelector | None = None


class FieldRequirement(UserStruct, frozen=True):
    """A condition on a field of clusters. `key` is provider, region or zone, and `operator` is In or NotIn."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class FieldSelector(UserStruct, frozen=True):
    match_expressions: tuple[FieldRequirement, ...] = ()


class ClusterAffinity(UserStruct, frozen=True):
    """A choice of clusters. All conditions have to hold. An empty affinity chooses every cluster."""

    label_selector: LabelSelector | None = None
    field_selector: FieldSelector | None = None
    cluster_names: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class OverflowAffinity(ClusterAffinity, frozen=True):
    affinity_name: str = ""


class ClusterAffinityTerm(ClusterAffinity, frozen=True):
    affinity_name: str = ""
    overflow_affinities: tuple[OverflowAffinity, ...] = ()


class Toleration(UserStruct, frozen=True):
    """A toleration of taints with the effects NoSchedule and NoExecute.

    For PreferNoExecute, failover.cluster of the policy decides [prefer-no-execute].
    """

    key: str = ""
    operator: str = ""  # "" is Equal
    value: str = ""
    effect: Annotated[
        str, Meta(description="Unset: every effect. PreferNoSchedule matters only for the ranking of clusters.")
    ] = ""
    toleration_seconds: Annotated[
        int | None,
        Meta(
            description="Seconds for which a NoExecute taint is tolerated, from its timeAdded. Then the workload is "
            "evicted. Unset: without end. 0 or less: not at all."
        ),
    ] = None


class SpreadConstraint(UserStruct, frozen=True):
    spread_by_field: str = ""
    spread_by_label: str = ""
    min_groups: Int32 = 0
    max_groups: Int32 = 0


class StaticClusterWeight(UserStruct, frozen=True):
    target_cluster: ClusterAffinity = ClusterAffinity()
    weight: int = 0  # validation requires at least 1; the default is 0 so that a weight of 1 is stored


class ClusterPreferences(UserStruct, frozen=True):
    static_weight_list: tuple[StaticClusterWeight, ...] = ()
    dynamic_weight: str = ""


DUPLICATED, DIVIDED = "Duplicated", "Divided"
WEIGHTED, AGGREGATED = "Weighted", "Aggregated"


class ReplicaSchedulingStrategy(UserStruct, frozen=True):
    replica_scheduling_type: str = ""
    replica_division_preference: str = ""
    weight_preference: ClusterPreferences | None = None


class WorkloadAffinityTerm(UserStruct, frozen=True):
    group_by_label_key: str = ""


class WorkloadAffinity(UserStruct, frozen=True):
    affinity: WorkloadAffinityTerm | None = None
    anti_affinity: WorkloadAffinityTerm | None = None


class Placement(UserStruct, frozen=True, cache_hash=True):
    cluster_affinity: ClusterAffinity | None = None
    cluster_affinities: tuple[ClusterAffinityTerm, ...] = ()
    cluster_tolerations: Annotated[
        tuple[Toleration, ...],
        Meta(
            description="Taints of clusters that the workload tolerates. Tolerations apply to NoSchedule and NoExecute "
            "only. A NoExecute taint that is not tolerated evicts the workload immediately. For PreferNoExecute, "
            "failover.cluster decides."
        ),
    ] = ()
    spread_constraints: tuple[SpreadConstraint, ...] = ()
    replica_scheduling: ReplicaSchedulingStrategy | None = None
    workload_affinity: WorkloadAffinity | None = None

    @property
    def divided(self) -> bool:
        """Whether replicas are divided among clusters. False: each cluster gets all replicas."""
        strategy = self.replica_scheduling
        return strategy is not None and strategy.replica_scheduling_type == DIVIDED

    @property
    def ignores_spread(self) -> bool:
        """Whether spread constraints have no effect because of static weights [spread-constraints]."""
        strategy = self.replica_scheduling
        if strategy is None or not self.divided or strategy.replica_division_preference == AGGREGATED:
            return False
        weights = strategy.weight_preference
        return weights is None or bool(weights.static_weight_list and not weights.dynamic_weight)


class StatePreservationRule(UserStruct, frozen=True):
    alias_label_name: str
    json_path: str


class StatePreservation(UserStruct, frozen=True):
    rules: tuple[StatePreservationRule, ...] = ()


REPAIR, REPORT = "Repair", "Report"
DRIFT_MODES = (REPAIR, REPORT)  # values of the annotation about changes on members [member-drift]
DIRECTLY, GRACEFULLY, NEVER = "Directly", "Gracefully", "Never"
PureMode = Annotated[
    str, Meta(description="Deprecated spelling of purgeMode. The two always have the same meaning; write purgeMode.")
]


class ClusterFailoverBehavior(UserStruct, frozen=True):
    """What happens to a workload when its cluster fails."""

    purge_mode: Annotated[
        str,
        Meta(
            description="Gracefully: the old copy is removed when the new copy is healthy. Directly: the new copy is "
            "created when the old copy is gone. Unset: Gracefully. Applies to evictions by NoExecute and by "
            "PreferNoExecute."
        ),
    ] = GRACEFULLY
    toleration_seconds: Annotated[
        Int32,
        Meta(
            description="Seconds for which the workload stays on a cluster with a PreferNoExecute taint, from the "
            "taint's timeAdded. Unset: 300. 0: it is evicted immediately. Negative values are refused. For NoExecute, "
            "placement.clusterTolerations apply instead."
        ),
    ] = 300
    state_preservation: StatePreservation | None = None
    pure_mode: PureMode = ""

    @property
    def waits(self) -> int:
        """Seconds from a PreferNoExecute taint to the eviction."""
        return self.toleration_seconds

    @property
    def purges(self) -> str:
        """The purge mode under its present name. Bindings that earlier releases stored may have an older one."""
        return current_purge_mode(self.purge_mode)


class DecisionConditions(UserStruct, frozen=True):
    toleration_seconds: Int32 | None = None


class ApplicationFailoverBehavior(UserStruct, frozen=True):
    decision_conditions: DecisionConditions = DecisionConditions()
    purge_mode: str = GRACEFULLY
    grace_period_seconds: Int32 | None = None
    state_preservation: StatePreservation | None = None
    pure_mode: PureMode = ""

    @property
    def purges(self) -> str:
        """The purge mode under its present name, as of a cluster's failover."""
        return current_purge_mode(self.purge_mode)


class FailoverBehavior(UserStruct, frozen=True):
    application: Annotated[
        ApplicationFailoverBehavior | None,
        Meta(description="Evicts a copy that is unhealthy on a healthy cluster. Unset: such a copy stays."),
    ] = None
    cluster: Annotated[
        ClusterFailoverBehavior | None,
        Meta(
            description="Evicts the workload from clusters with a PreferNoExecute taint. Unset: it stays there. "
            "NoExecute evicts it in either case."
        ),
    ] = None


class SuspendClusters(UserStruct, frozen=True):
    cluster_names: tuple[str, ...] = ()


class Suspension(UserStruct, frozen=True):
    dispatching: bool | None = None
    dispatching_on_clusters: SuspendClusters | None = None


class SchedulePriority(UserStruct, frozen=True):
    priority_class_source: str = ""
    priority_class_name: str = ""


DEFAULT_SCHEDULER = "default-scheduler"


class PropagationSpec(UserStruct, frozen=True):
    resource_selectors: tuple[ResourceSelector, ...] = ()
    propagate_deps: bool = False
    placement: Placement = Placement()
    priority: Int32 = declared(0)
    preemption: str = "Never"
    scheduler_name: str = DEFAULT_SCHEDULER
    failover: FailoverBehavior | None = None
    conflict_resolution: str = "Abort"
    activation_preference: str = ""
    suspension: Suspension | None = None
    preserve_resources_on_deletion: bool | None = None
    schedule_priority: SchedulePriority | None = None
    dependent_overrides: tuple[str, ...] = ()


class Policy(Object, frozen=True):
    """A PropagationPolicy if it has a namespace, else a ClusterPropagationPolicy."""

    spec: PropagationSpec = PropagationSpec()

    @property
    def cluster_scoped(self) -> bool:
        return not self.metadata.namespace


_RENAMED_PURGE_MODES = {"Immediately": DIRECTLY, "Graciously": GRACEFULLY}


def current_purge_mode(name: str) -> str:
    """Return the current name of a purge mode: Directly for Immediately, Gracefully for Graciously."""
    return _RENAMED_PURGE_MODES.get(name, name)


def normalise(doc: dict[str, Any]) -> list[str]:
    """Replace deprecated names of purge modes in place, and copy pureMode to purgeMode. Return a warning for each.

    pureMode stays in the document, so that a manifest with it can be applied again without a difference. Values of a
    wrong type stay as they are for validation to refuse. The failover of a binding is written in the same way.
    """
    warnings: list[str] = []
    spec = doc.get("spec")
    failover = spec.get("failover") if isinstance(spec, dict) else None
    if not isinstance(failover, dict):
        return warnings
    for part in ("cluster", "application"):
        behaviour = failover.get(part)
        if not isinstance(behaviour, dict):
            continue
        path = f"spec.failover.{part}"
        if isinstance(behaviour.get("pureMode"), str) and behaviour["pureMode"]:
            behaviour.setdefault("purgeMode", behaviour["pureMode"])
            warnings.append(f"{path}.pureMode is a deprecated spelling of purgeMode: write {path}.purgeMode")
        warnings += rename_purge_mode(behaviour, path)
    return warnings


def rename_purge_mode(part: dict[str, Any], path: str) -> list[str]:
    """Replace a deprecated purgeMode of a behaviour or of a task, in place. Return a warning if it was replaced."""
    old = part.get("purgeMode")
    if not isinstance(old, str) or current_purge_mode(old) == old:
        return []
    part["purgeMode"] = current_purge_mode(old)
    return [f"{path}.purgeMode: {old} is deprecated, stored as {part['purgeMode']}"]
