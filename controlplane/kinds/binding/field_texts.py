"""What `kubectl explain` prints for the fields of bindings. One line a field: its name and its text."""

from __future__ import annotations

from typing import Final

from controlplane.kinds.binding import (
    AggregatedStatusItem,
    Binding,
    BindingPriority,
    BindingSnapshot,
    BindingSuspension,
    Component,
    GracefulEvictionTask,
    NodeClaim,
    ObjectReference,
    PendingEviction,
    ReplicaRequirements,
    ResourceBindingSpec,
    ResourceBindingStatus,
    TargetCluster,
    TargetComponent,
    WorkloadAffinityGroups,
)
from controlplane.kinds.field_texts import BOTH, OBJECT

TARGET: Final = """
name: Name of the cluster or component.
replicas: Number of replicas there.
components: Replicas of each component there.
replica_requirements: Resources that each replica requests.
"""
TEXTS: Final[dict[type, str]] = {
    BindingSuspension: """
dispatching: Send no changes to any cluster.
dispatching_on_clusters: Send no changes to these clusters.
scheduling: The scheduler leaves the binding as it is.
""",
    Binding: BOTH,
    ResourceBindingSpec: """
resource: The template.
propagate_deps: Whether objects that the template needs are propagated as well.
replica_requirements: Resources that each replica requests.
replicas: Replicas that the template requests.
components: Components of a workload that has several pod templates.
clusters: Clusters on which it is placed.
placement: Placement rules of the policy.
graceful_eviction_tasks: Evictions in progress, one for each cluster.
required_by: Bindings whose clusters need this binding.
scheduler_name: Name of the scheduler for this binding.
failover: What happens when a cluster or the application fails.
conflict_resolution: Abort or Overwrite, if a member has an object of the same name.
reschedule_triggered_at: When a reschedule was requested.
suspension: Parts of the propagation that are suspended.
preserve_resources_on_deletion: Keep the copies on members when the template is deleted.
schedule_priority: Priority in the queues of scheduling and eviction.
workload_affinity_groups: Groups of workloads that share clusters, or that must not share them.
""",
    ObjectReference: OBJECT,
    ReplicaRequirements: """
node_claim: Nodes that a replica needs.
resource_request: Resources that a replica requests.
namespace: Namespace of the workload.
priority_class_name: Priority class of the pods.
""",
    NodeClaim: """
hard_node_affinity: Node affinity that has to hold.
node_selector: Labels that a node needs.
tolerations: Taints of nodes that the pods tolerate.
""",
    Component: TARGET,
    TargetCluster: TARGET,
    TargetComponent: TARGET,
    GracefulEvictionTask: """
from_cluster: The cluster from which the copy is evicted.
purge_mode: Gracefully, Directly or Never.
replicas: Number of replicas that are evicted.
reason: Reason in one word.
message: Explanation of the reason.
producer: Controller or user that created the task.
grace_period_seconds: Maximum wait for the new copy, in seconds.
suppress_deletion: true keeps the old copy until a user sets false.
preserved_label_state: Labels with the state that the new copy gets.
creation_timestamp: When the task was created.
clusters_before_failover: Clusters of the binding before the failover.
taint: Key and effect of the taint that evicted the copy.
waited_for: What the eviction waited for between its due time and this task, apart from holds.
""",
    BindingSnapshot: f"{OBJECT}clusters: Clusters that the other binding is placed on.",
    BindingPriority: "priority: Bindings with a higher priority are handled first.",
    WorkloadAffinityGroups: """
affinity_group: Group whose members are placed on the same clusters.
anti_affinity_group: Group whose members are placed on different clusters.
""",
    ResourceBindingStatus: """
scheduler_observed_generation: Generation that the scheduler has processed.
scheduler_observed_affinity_name: Name of the cluster affinity that is in use.
last_scheduled_time: When the binding was last scheduled.
conditions: Scheduled, FullyApplied, EvictionPending and others.
aggregated_status: What each member reports of its copy.
pending_evictions: Evictions that wait, one for each cluster.
""",
    PendingEviction: """
cluster: The cluster that the copy is to leave.
reason: Queued, or what holds the eviction.
message: Why it waits, for people.
""",
    AggregatedStatusItem: """
cluster_name: The member.
status: Status of the copy. While the cluster cannot be reached, its last known status.
applied: Whether the manifest was applied to the member.
applied_message: Why the manifest was not applied.
health: Healthy, Unhealthy or Unknown. Unknown while the cluster cannot be reached.
last_known_health: Health that was last reported while the cluster could be reached.
out_of_reach_since: Since when the cluster cannot be reached. Unset: it can be reached.
scaled_by_member: Whether the member decides how many replicas the copy has, because of its label.
""",
}
