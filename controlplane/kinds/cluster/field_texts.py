"""What `kubectl explain` prints for the fields of clusters. One line a field: its name and its text."""

from __future__ import annotations

from typing import Final

from controlplane.kinds.cluster import (
    AllocatableModeling,
    APIEnablement,
    APIResource,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    NamespaceQuota,
    NodePool,
    NodeRoom,
    NodeSummary,
    NodeTaint,
    PriorityClassTerm,
    ResourceModel,
    ResourceModelRange,
    ResourceSummary,
    SecretReference,
    Taint,
)
from controlplane.kinds.field_texts import BOTH, TAINT

TEXTS: Final[dict[type, str]] = {
    Cluster: BOTH,
    ClusterSpec: """
id: UID of the member's kube-system namespace.
sync_mode: Push if the control plane calls the member, Pull if an agent in the member calls the control plane.
api_endpoint: URL of the member's API server.
secret_ref: Secret with the token and the CA bundle for the member.
impersonator_secret_ref: Secret with the token that may impersonate users in the member, for clusters/<name>/proxy.
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
    SecretReference: "namespace: Namespace of the Secret.\nname: Name of the Secret.",
    Taint: TAINT,
    ResourceModel: "grade: Number of the grade.\nranges: Resources of a node of this grade.",
    ResourceModelRange: """
name: Name of the resource.
min: Least quantity, inclusive.
max: Largest quantity, exclusive.
""",
    ClusterStatus: """
kubernetes_version: Version of the member's API server.
api_enablements: APIs that the member serves.
conditions: Ready and other conditions of the member.
node_summary: Numbers of nodes.
resource_summary: Resources of the member.
remedy_actions: Actions that Remedy objects request.
""",
    APIEnablement: "group_version: Group and version of the API.\nresources: Kinds of this version.",
    APIResource: "name: Plural name of the kind.\nkind: Kind.",
    NodeSummary: "total_num: Number of nodes.\nready_num: Number of nodes that are Ready.",
    ResourceSummary: """
allocatable: Resources of all nodes.
allocating: Resources of pods that are not scheduled yet.
allocated: Resources of pods that are scheduled.
allocatable_modelings: Number of nodes by grade.
namespace_quotas: What ResourceQuotas leave free, with the feature gate ResourceQuotaEstimate.
node_pools: What nodes have free, by their labels and taints, with enableSchedulerEstimator.
unlisted_node_labels: Labels of nodes that nodePools leave out, because they have too many values.
""",
    NodePool: """
labels: Labels of these nodes, without those that distinguish too many nodes.
taints: Taints of these nodes with the effect NoSchedule or NoExecute.
nodes: What these nodes have free.
""",
    NodeRoom: "count: Number of nodes with equal free amounts.\nfree: What each of them has free, by resource.",
    NodeTaint: "key: Key of the taint.\neffect: NoSchedule or NoExecute.\nvalue: Value of the taint.",
    NamespaceQuota: """
namespace: Namespace of the ResourceQuota.
name: Name of the ResourceQuota.
free: Quantities that may still be requested, by resource.
priority_classes: Conditions on the priority class of pods that the ResourceQuota counts.
""",
    PriorityClassTerm: "operator: In, NotIn, Exists or DoesNotExist.\nvalues: Names of priority classes.",
    AllocatableModeling: "grade: Number of the grade.\ncount: Number of nodes of this grade.",
}
