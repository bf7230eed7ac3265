"""Texts that `kubectl explain` shows of fields whose types are declared without one. One line a field: name, text."""

from __future__ import annotations

from typing import Final

from controlplane.apimachinery import meta, selectors
from controlplane.kinds import (
    binding,
    cluster,
    drain,
    eviction,
    eviction_hold,
    failback,
    failover_record,
    fleet_readiness,
    maintenance_window,
    placement_review,
    policy,
    taint_policy,
    work,
)
from controlplane.kinds import configuration as configuration_kind
from controlplane.kinds import workload_rebalancer as rebalancer
from controlplane.wire.structs import describe

SPEC: Final = "spec: What is wanted."
BOTH: Final = f"{SPEC}\nstatus: What is observed."
AFFINITY: Final = """
label_selector: Clusters with these labels.
field_selector: Clusters with these values of provider, region or zone.
cluster_names: Names of clusters. Empty: any name.
exclude: Names of clusters that never match.
affinity_name: Name of this term, shown in the status of bindings.
overflow_affinities: Clusters that are used in this order when those of the term have no room left.
"""
TAINT: Final = """
key: Key of the taint.
value: Value of the taint.
time_added: When the taint was added. Tolerations in seconds count from here.
add_on_match_seconds: How long the conditions have to match before the taint is added.
remove_on_mismatch_seconds: How long the conditions have to fail before the taint is removed.
operator: Equal (default) compares the value, Exists takes any value.
"""
REQUIREMENT: Final = """
key: Key of the label or field.
operator: In, NotIn, Exists or DoesNotExist; of fields In or NotIn.
values: Values that In and NotIn compare with.
"""
TARGET: Final = """
name: Name of the cluster or component.
replicas: Number of replicas there.
components: Replicas of each component there.
replica_requirements: What one replica asks for.
"""
PLACE: Final = """
api_version: apiVersion of the object.
kind: Kind of the object.
namespace: Namespace of the object. Empty: cluster-scoped, or any namespace where objects are selected.
name: Name of the object. Empty, where objects are selected: any name.
uid: UID of the object.
resource_version: resourceVersion of the object when it was looked at.
label_selector: Objects with these labels.
group: API group of the object.
version: API version of the object.
resource: Plural name of the kind.
ordinal: Position of the manifest in the Work.
"""
PROGRESS: Final = """
binding: The binding, as kind:namespace/name.
message: Why.
cluster: Name of the cluster.
since: Since when.
replicas: Number of replicas.
leaves: Clusters that give replicas back.
counted_at: When the numbers were counted.
finish_time: When everything was done.
"""

TEXTS: Final[dict[type, str]] = {
    cluster.Cluster: BOTH,
    cluster.ClusterSpec: """
id: UID of the member's kube-system namespace.
sync_mode: Push: the control plane calls the member. Pull: an agent in the member calls the control plane.
api_endpoint: URL of the member's API server.
secret_ref: Secret with token and CA bundle for the member.
impersonator_secret_ref: Secret with the token that may impersonate users in the member.
insecure_skip_tls_verification: Do not verify the member's certificate.
proxy_url: Proxy through which the member is called.
proxy_header: Headers that are sent to the proxy.
provider: Cloud provider of the member.
region: Region of the member.
zone: Deprecated, use zones.
zones: Zones of the member.
taints: Taints that keep workloads away or evict them.
resource_models: Grades of nodes by which free replicas are estimated.
""",
    cluster.SecretReference: "namespace: Namespace of the Secret.\nname: Name of the Secret.",
    cluster.Taint: TAINT,
    cluster.ResourceModel: "grade: Number of the grade.\nranges: Resources of a node of this grade.",
    cluster.ResourceModelRange: """
name: Name of the resource.
min: Least quantity, inclusive.
max: Largest quantity, exclusive.
""",
    cluster.ClusterStatus: """
kubernetes_version: Version of the member's API server.
api_enablements: APIs that the member serves.
conditions: Ready and other conditions of the member.
node_summary: Numbers of nodes.
resource_summary: Resources of the member.
remedy_actions: Actions that remedies ask for.
""",
    cluster.APIEnablement: "group_version: Group and version of the API.\nresources: Kinds of this version.",
    cluster.APIResource: "name: Plural name of the kind.\nkind: Kind.",
    cluster.NodeSummary: "total_num: Number of nodes.\nready_num: Number of nodes that are Ready.",
    cluster.ResourceSummary: """
allocatable: Resources of all nodes.
allocating: Resources of pods that are not scheduled yet.
allocated: Resources of pods that are scheduled.
allocatable_modelings: Number of nodes by grade.
""",
    cluster.AllocatableModeling: "grade: Number of the grade.\ncount: Number of nodes of this grade.",
    meta.Condition: """
type: Type of the condition.
status: True, False or Unknown.
reason: Reason in one word.
message: Explanation for people.
last_transition_time: When the status changed last.
observed_generation: Generation that the condition was computed from.
""",
    policy.Policy: SPEC,
    policy.PropagationSpec: """
resource_selectors: Objects that the policy propagates.
propagate_deps: Propagate what the objects need, such as ConfigMaps and Secrets, too.
placement: Clusters that the objects go to.
priority: The policy with the highest priority wins an object. Default 0.
preemption: Always takes objects from policies with a lower priority, Never does not.
scheduler_name: Scheduler that places the objects.
failover: What happens when a cluster or the application fails.
conflict_resolution: Abort keeps an object of the same name on the member, Overwrite takes it over.
activation_preference: Lazy applies changes of the policy only when the object changes.
suspension: What is suspended.
preserve_resources_on_deletion: Keep the copies on members when the template is deleted.
schedule_priority: Priority of the binding in the queues of scheduling and eviction.
""",
    policy.ResourceSelector: PLACE,
    selectors.LabelSelector: "match_labels: Labels that have to be equal.\nmatch_expressions: Terms that have to hold.",
    selectors.LabelSelectorRequirement: REQUIREMENT,
    policy.Placement: """
cluster_affinity: Clusters that may be chosen.
cluster_affinities: Groups of clusters, tried in this order.
spread_constraints: Over how many clusters, zones, regions or providers the objects are spread.
replica_scheduling: How replicas are distributed.
workload_affinity: Workloads to be placed together or apart.
""",
    policy.ClusterAffinity: AFFINITY,
    policy.FieldSelector: "match_expressions: Terms that have to hold.",
    policy.FieldRequirement: REQUIREMENT,
    policy.Toleration: TAINT,
    policy.SpreadConstraint: """
spread_by_field: cluster, zone, region or provider.
spread_by_label: Label of clusters to spread by.
min_groups: Least number of groups.
max_groups: Largest number of groups. 0: no limit.
""",
    policy.ReplicaSchedulingStrategy: """
replica_scheduling_type: Duplicated gives each cluster all replicas, Divided divides them.
replica_division_preference: Aggregated uses few clusters, Weighted divides by weights.
weight_preference: Weights of clusters.
""",
    policy.ClusterPreferences: """
static_weight_list: Fixed weights of clusters.
dynamic_weight: AvailableReplicas weighs clusters by the replicas they have room for.
""",
    policy.StaticClusterWeight: "target_cluster: Clusters with this weight.\nweight: Weight, at least 1.",
    policy.WorkloadAffinity: """
affinity: Placed on the clusters of the same group.
anti_affinity: Not placed on the clusters of the same group.
""",
    policy.WorkloadAffinityTerm: "group_by_label_key: Label of the workload whose value names the group.",
    policy.ApplicationFailoverBehavior: """
decision_conditions: When the application counts as failed.
purge_mode: Gracefully, Directly or Never: what happens to the old copy.
grace_period_seconds: Longest wait for the new copy with purge mode Gracefully.
state_preservation: State that goes along to the new copy.
""",
    policy.DecisionConditions: "toleration_seconds: How long a copy may be unhealthy. Unset: 300.",
    policy.StatePreservation: "rules: Values to carry over.",
    policy.StatePreservationRule: """
alias_label_name: Label of the new copy that gets the value.
json_path: JSONPath of the value in the status of the old copy.
""",
    policy.ClusterFailoverBehavior: "state_preservation: State that goes along to the new copy.",
    policy.Suspension: """
dispatching: Send no changes to any cluster.
dispatching_on_clusters: Send no changes to these clusters.
scheduling: Do not schedule. Of bindings only.
""",
    policy.SuspendClusters: "cluster_names: Names of the clusters.",
    policy.SchedulePriority: """
priority_class_source: Where the priority class is looked up.
priority_class_name: Name of the priority class.
""",
    taint_policy.ClusterTaintPolicy: SPEC,
    taint_policy.ClusterTaintPolicySpec: """
target_cluster: Clusters of a policy with windows. Unset: all.
match_conditions: Conditions that all have to match. Empty: always.
taints_to_add: Taints that are added while the conditions match.
target_clusters: Clusters of a policy without windows. Unset: all.
add_on_conditions: Conditions under which the taints are added. Empty: never.
remove_on_conditions: Conditions under which the taints are removed. Empty: never.
taints: Taints of a policy without windows.
""",
    taint_policy.MatchCondition: """
condition_type: Type of the cluster's condition, such as Ready.
operator: In or NotIn.
status_values: Values of the condition's status.
""",
    taint_policy.TaintToAdd: TAINT,
    taint_policy.PolicyTaint: TAINT,
    binding.Binding: BOTH,
    binding.ResourceBindingSpec: """
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
    binding.ObjectReference: PLACE,
    binding.ReplicaRequirements: """
node_claim: Nodes that a replica needs.
resource_request: Resources that a replica asks for.
namespace: Namespace of the workload.
priority_class_name: Priority class of the pods.
""",
    binding.NodeClaim: """
hard_node_affinity: Node affinity that has to hold.
node_selector: Labels that a node needs.
tolerations: Taints of nodes that the pods tolerate.
""",
    binding.Component: TARGET,
    binding.TargetCluster: TARGET,
    binding.TargetComponent: TARGET,
    binding.GracefulEvictionTask: """
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
""",
    binding.BindingSnapshot: f"{PLACE}clusters: Clusters that the other binding is placed on.",
    binding.BindingPriority: "priority: The higher goes first.",
    binding.WorkloadAffinityGroups: """
affinity_group: Group whose members are placed together.
anti_affinity_group: Group whose members are placed apart.
""",
    binding.ResourceBindingStatus: """
scheduler_observed_generation: Generation that the scheduler has dealt with.
scheduler_observed_affinity_name: Name of the cluster affinity that is in use.
last_scheduled_time: When it was scheduled last.
conditions: Scheduled, FullyApplied, EvictionPending and others.
aggregated_status: What each member reports of its copy.
""",
    binding.AggregatedStatusItem: """
cluster_name: The member.
status: Status of the copy. While the cluster is out of reach, the last known one.
applied: The member has the manifest.
applied_message: Why the member does not have the manifest.
health: Healthy, Unhealthy or Unknown. Unknown while the cluster is out of reach.
last_known_health: Health that was reported before the cluster was out of reach.
out_of_reach_since: Since when the cluster is out of reach. Unset: it answers.
""",
    work.Work: BOTH,
    work.WorkSpec: """
workload: What the member gets.
suspend_dispatching: Send no changes to the member.
preserve_resources_on_deletion: Keep the object on the member when the Work is deleted.
""",
    work.Workload: "manifests: The manifests.",
    work.WorkStatus: """
conditions: Applied and others.
manifest_statuses: What the member reports of each manifest.
""",
    work.ManifestStatus: """
identifier: The manifest.
status: Status of the object on the member.
health: Healthy, Unhealthy or Unknown.
""",
    work.ResourceIdentifier: PLACE,
    configuration_kind.FailoverConfiguration: SPEC,
    configuration_kind.Explained: SPEC,
    rebalancer.WorkloadRebalancer: BOTH,
    rebalancer.WorkloadRebalancerSpec: """
workloads: Workloads to place anew.
workload_selector: Workloads to place anew, by selector.
ttl_seconds_after_finished: How long the object is kept once it is finished.
""",
    rebalancer.RebalancedWorkload: PLACE,
    rebalancer.WorkloadSelector: PLACE,
    rebalancer.WorkloadRebalancerStatus: """
observed_workloads: Result for each workload of the list.
selected_workloads: Progress of the workloads of the selector.
observed_generation: Generation that was dealt with.
finish_time: When everything was done.
""",
    rebalancer.ObservedWorkload: """
workload: The workload.
result: Successful or Failed.
reason: Why it failed.
""",
    rebalancer.SelectedWorkloads: """
rebalanced: Number of workloads placed anew.
unplaced: Number of workloads that have no placement.
after_namespace: Namespace of the last workload that was looked at.
after_name: Name of the last workload that was looked at.
complete: All of them were looked at.
""",
    drain.Drain: BOTH,
    drain.DrainStatus: PROGRESS,
    drain.Remaining: PROGRESS,
    failback.Failback: BOTH,
    failback.FailbackStatus: PROGRESS,
    failback.Returning: PROGRESS,
    failback.Staying: PROGRESS,
    failback.Planned: PROGRESS,
    eviction.EvictionItem: BOTH,
    eviction_hold.EvictionHold: SPEC,
    maintenance_window.MaintenanceWindow: SPEC,
    failover_record.FailoverRecord: BOTH,
    failover_record.FailoverRecordStatus: "durations: Seconds that each part took.",
    failover_record.Step: """
at: When it happened.
cluster: Cluster it is about.
message: What happened, for people.
""",
    fleet_readiness.FleetReadiness: BOTH,
    fleet_readiness.ObstacleCount: """
what: The obstacle, in one word.
severity: How bad it is.
bindings: Number of bindings it concerns.
remedy: What to do.
examples: Some of the bindings.
""",
    placement_review.PlacementReview: BOTH,
    placement_review.PlacementReviewSpec: "clusters: Changes of the fleet to suppose.",
    placement_review.PlacementReviewStatus: """
outcome: Whether a place was found.
message: Why, for people.
affinity_name: Name of the cluster affinity that was used.
clusters: Clusters it would be placed on.
explanation: Why, cluster by cluster.
""",
}

for _type, _lines in TEXTS.items():
    describe(_type, dict(line.split(": ", 1) for line in _lines.strip().splitlines()))
