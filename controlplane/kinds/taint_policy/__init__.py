"""ClusterTaintPolicy (policy.karmada.io/v1alpha1): adds taints to clusters by their conditions [taint-policies]."""

from __future__ import annotations

from controlplane.apimachinery.meta import Int32, Object, UserStruct
from controlplane.kinds.cluster import Effect
from controlplane.kinds.policy import ClusterAffinity

CLUSTER_TAINT_POLICY = "policy.karmada.io/ClusterTaintPolicy"


class MatchCondition(UserStruct, frozen=True):
    condition_type: str
    operator: str  # In, NotIn
    status_values: tuple[str, ...] = ()


class TaintToAdd(UserStruct, frozen=True):
    """A taint that is added after its conditions matched for some seconds, and removed after they did not match."""

    key: str
    effect: Effect
    value: str = ""
    add_on_match_seconds: Int32 = 300
    remove_on_mismatch_seconds: Int32 = 180


class PolicyTaint(UserStruct, frozen=True):
    """A taint that is added and removed at once."""

    key: str
    effect: Effect
    value: str = ""


class ClusterTaintPolicySpec(UserStruct, frozen=True):
    """The two forms of a policy. A policy that mixes fields of both forms is refused.

    With windows: target_cluster, match_conditions (empty: always match) and taints_to_add. Without windows:
    target_clusters, add_on_conditions and remove_on_conditions (empty: never match), and taints.
    """

    target_cluster: ClusterAffinity | None = None
    match_conditions: tuple[MatchCondition, ...] = ()
    taints_to_add: tuple[TaintToAdd, ...] = ()
    target_clusters: ClusterAffinity | None = None
    add_on_conditions: tuple[MatchCondition, ...] = ()
    remove_on_conditions: tuple[MatchCondition, ...] = ()
    taints: tuple[PolicyTaint, ...] = ()


class ClusterTaintPolicy(Object, frozen=True):
    spec: ClusterTaintPolicySpec = ClusterTaintPolicySpec()

    @property
    def windowed(self) -> bool:
        """Whether the policy has the form with windows [taint-windows]."""
        return not self.spec.taints
