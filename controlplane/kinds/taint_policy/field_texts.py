"""What `kubectl explain` prints for the fields of ClusterTaintPolicies. One line a field: its name and its text."""

from __future__ import annotations

from typing import Final

from controlplane.kinds.field_texts import SPEC, TAINT
from controlplane.kinds.taint_policy import (
    ClusterTaintPolicy,
    ClusterTaintPolicySpec,
    MatchCondition,
    PolicyTaint,
    TaintToAdd,
)

TEXTS: Final[dict[type, str]] = {
    ClusterTaintPolicy: SPEC,
    ClusterTaintPolicySpec: """
target_cluster: Clusters of a policy with windows. Unset: all.
match_conditions: Conditions that all have to match. Empty: always.
taints_to_add: Taints that are added while the conditions match.
target_clusters: Clusters of a policy without windows. Unset: all.
add_on_conditions: Conditions under which the taints are added. Empty: never.
remove_on_conditions: Conditions under which the taints are removed. Empty: never.
taints: Taints of a policy without windows.
""",
    MatchCondition: """
condition_type: Type of the cluster's condition, such as Ready.
operator: In or NotIn. A condition that the cluster does not have never matches, not even with NotIn.
status_values: Values of the condition's status: True, False, Unknown. At least one.
""",
    TaintToAdd: TAINT,
    PolicyTaint: TAINT,
}
