"""What `kubectl explain` prints for the fields of policies. One line a field: its name and its text."""

from __future__ import annotations

from typing import Final

from controlplane.kinds.field_texts import OBJECT, REQUIREMENT, SPEC, TAINT
from controlplane.kinds.policy import (
    ApplicationFailoverBehavior,
    ClusterAffinity,
    ClusterFailoverBehavior,
    ClusterPreferences,
    DecisionConditions,
    FieldRequirement,
    FieldSelector,
    Placement,
    Policy,
    PropagationSpec,
    ReplicaSchedulingStrategy,
    ResourceSelector,
    SchedulePriority,
    SpreadConstraint,
    StatePreservation,
    StatePreservationRule,
    StaticClusterWeight,
    SuspendClusters,
    Suspension,
    Toleration,
    WorkloadAffinity,
    WorkloadAffinityTerm,
)

AFFINITY: Final = """
label_selector: Clusters with these labels.
field_selector: Clusters with these values of provider, region or zone.
cluster_names: Names of clusters. Empty: any name.
exclude: Names of clusters that never match.
affinity_name: Name of this term, shown in the status of bindings.
overflow_affinities: Clusters that are used, in this order, when those of the term have no capacity left.
"""
TEXTS: Final[dict[type, str]] = {
    Policy: SPEC,
    PropagationSpec: """
resource_selectors: Objects that the policy propagates.
propagate_deps: Whether objects that the selected objects need, such as ConfigMaps, are propagated as well.
placement: Clusters to which the objects are propagated.
priority: Of several policies that match an object, the one with the highest priority claims it. Default 0.
preemption: Always claims objects that policies with a lower priority have claimed. Never does not.
scheduler_name: Name of the scheduler for the objects.
failover: What happens when a cluster or the application fails.
conflict_resolution: Abort keeps an existing object of the same name on a member, Overwrite replaces it.
activation_preference: Lazy applies changes of the policy only when the object changes.
suspension: Parts of the propagation that are suspended.
preserve_resources_on_deletion: Keep the copies on members when the template is deleted.
schedule_priority: Priority of the binding in the queues of scheduling and eviction.
dependent_overrides: Names of override policies of the same scope that have to exist before the policy is applied.
""",
    ResourceSelector: OBJECT,
    Placement: """
cluster_affinity: Clusters that may be chosen.
cluster_affinities: Groups of clusters, tried in this order.
spread_constraints: Over how many clusters, zones, regions or providers the objects are spread.
replica_scheduling: How replicas are distributed.
workload_affinity: Workloads that are placed on the same clusters, or on different ones.
""",
    ClusterAffinity: AFFINITY,
    FieldSelector: "match_expressions: Conditions that have to hold.",
    FieldRequirement: REQUIREMENT,
    Toleration: TAINT,
    SpreadConstraint: """
spread_by_field: cluster, zone, region or provider.
spread_by_label: Label of clusters to spread by.
min_groups: Minimum number of groups.
max_groups: Maximum number of groups. 0: no limit.
""",
    ReplicaSchedulingStrategy: """
replica_scheduling_type: Duplicated gives each cluster all replicas, Divided divides them.
replica_division_preference: Aggregated uses few clusters, Weighted divides by weights.
weight_preference: Weights of clusters.
""",
    ClusterPreferences: """
static_weight_list: Fixed weights of clusters.
dynamic_weight: AvailableReplicas weighs clusters by the number of replicas that fit on them.
""",
    StaticClusterWeight: "target_cluster: Clusters with this weight.\nweight: Weight, at least 1.",
    WorkloadAffinity: """
affinity: Place workloads of the same group on the same clusters.
anti_affinity: Place workloads of the same group on different clusters.
""",
    WorkloadAffinityTerm: "group_by_label_key: Label of the workload whose value names the group.",
    ApplicationFailoverBehavior: """
decision_conditions: When the application counts as failed.
purge_mode: Gracefully, Directly or Never: what happens to the old copy.
grace_period_seconds: Maximum wait for the new copy with purge mode Gracefully, in seconds.
state_preservation: State of the old copy that the new copy gets.
""",
    DecisionConditions: "toleration_seconds: Seconds for which a copy may be unhealthy. Unset: 300.",
    StatePreservation: "rules: Values that are preserved.",
    StatePreservationRule: """
alias_label_name: Label of the new copy that gets the value.
json_path: JSONPath of the value in the status of the old copy.
""",
    ClusterFailoverBehavior: "state_preservation: State of the old copy that the new copy gets.",
    Suspension: """
dispatching: Send no changes to any cluster.
dispatching_on_clusters: Send no changes to these clusters.
""",
    SuspendClusters: "cluster_names: Names of the clusters.",
    SchedulePriority: """
priority_class_source: Where the priority class is looked up.
priority_class_name: Name of the priority class.
""",
}
