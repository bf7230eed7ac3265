"""ClusterTaintPolicy (policy.karmada.io/v1alpha1): which conditions put which taints on which clusters (D3)."""

from __future__ import annotations

from controlplane.apimachinery.meta import Object, UserStruct
from controlplane.kinds.cluster import Effect
from controlplane.kinds.policy import ClusterAffinity

CLUSTER_TAINT_POLICY = "policy.karmada.io/ClusterTaintPolicy"


class MatchCondition(UserStruct, frozen=True):
    condition_type: str
    operator: str  # In, NotIn
    status_values: tuple[str, ...] = ()


class TaintToAdd(UserStruct, frozen=True):
    """A taint of the windowed dialect (S001); seconds, both at least 1."""

    key: str
    effect: Effect
    value: str = ""
    add_on_match_seconds: int = 300
    remove_on_mismatch_seconds: int = 180


class PolicyTaint(UserStruct, frozen=True):
    """A taint of the dialect without windows."""

    key: str
    effect: Effect
    value: str = ""


class ClusterTaintPolicySpec(UserStruct, frozen=True):
    """One policy uses one dialect; mixing is refused (D3).

    Windowed (S001): target_cluster, match_conditions (empty: always), taints_to_add.
    Without windows: target_clusters, add_on_conditions and remove_on_conditions (empty: never), taints.
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
        """The policy is written in S001's dialect."""
        return not self.spec.taints
