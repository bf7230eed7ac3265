"""What `kubectl explain` prints for the fields of bindings. One line a field: its name and its text."""

from __future__ import annotations

from typing import Final

from controlplane.kinds.binding import (
    AggregatedStatusItem,
    Binding,
    BindingPriority,
    BindingSnapshot,
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
replica_requirements: What one replica asks for.
"""
TEXTS: Final[dict[type, str]] = {
    Binding: BOTH,
    ResourceBindingSpec: """
resource: The template.
propagate_deps: Propagate what the template needs, too.
replica_requirements: What one replica asks for.
replicas: Replicas that the template asks for.
components: Parts of a workload with several pod templates.
clusters: Clusters it is placed on.
placement: Placement rules of the policy.
graceful_eviction_tasks: Clusters that are being left.
required_by: Bindings that need this one on their clusters.
scheduler_name: Scheduler that places it.
failover: What happens when a cluster or the application fails.
conflict_resolution: Abort or Overwrite, where a member has an object of the same name.
reschedule_triggered_at: When somebody asked for a new placement.
suspension: What is suspended.
preserve_resources_on_deletion: Keep the copies on members when the template is deleted.
schedule_priority: Priority in the queues of scheduling and eviction.
workload_affinity_groups: Groups of workloads to be placed together or apart.
""",
    ObjectReference: OBJECT,
    ReplicaRequirements: """
node_claim: Nodes that a replica needs.
resource_request: Resources that a replica asks for.
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
from_cluster: The cluster that is left.
purge_mode: Gracefully, Directly or Never.
replicas: Replicas that leave.
reason: Why, in one word.
message: Why, for people.
producer: Controller or person that decided it.
grace_period_seconds: Longest wait for the new copy.
suppress_deletion: true keeps the old copy until somebody confirms its deletion.
preserved_label_state: Labels that carry state to the new copy.
creation_timestamp: When the task was made.
clusters_before_failover: Clusters it was on before.
taint: Key and effect of the taint that evicted the copy.
waited_for: What the eviction waited for between its due time and this task, apart from holds.
""",
    BindingSnapshot: f"{OBJECT}clusters: Clusters that the other binding is placed on.",
    BindingPriority: "priority: The higher goes first.",
    WorkloadAffinityGroups: """
affinity_group: Group whose members are placed together.
anti_affinity_group: Group whose members are placed apart.
""",
    ResourceBindingStatus: """
scheduler_observed_generation: Generation that the scheduler has dealt with.
scheduler_observed_affinity_name: Name of the cluster affinity that is in use.
last_scheduled_time: When it was scheduled last.
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
status: Status of the copy. While the cluster is out of reach, the last known one.
applied: The member has the manifest.
applied_message: Why the member does not have the manifest.
health: Healthy, Unhealthy or Unknown. Unknown while the cluster is out of reach.
last_known_health: Health that was reported before the cluster was out of reach.
out_of_reach_since: Since when the cluster is out of reach. Unset: it answers.
""",
}
