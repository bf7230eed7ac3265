"""What has to hold of a ClusterTaintPolicy: one dialect, sensible windows, taints that can be set (D3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controlplane.apimachinery.causes import forbidden, invalid, required, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.kinds.cluster.taint_rules import taint_causes
from controlplane.kinds.policy import affinity_rules
from controlplane.kinds.taint_policy import ClusterTaintPolicy, MatchCondition
from controlplane.settings import Settings

OPERATORS = ("In", "NotIn")
STATUSES = ("True", "False", "Unknown")


def validate(new: ClusterTaintPolicy, old: ClusterTaintPolicy | None, settings: Settings) -> list[Cause]:
    """Return everything that is wrong with a policy."""
    spec = new.spec
    causes = [
        *_dialect(new),
        *taint_causes(spec.taints_to_add, "spec.taintsToAdd"),
        *taint_causes(spec.taints, "spec.taints"),
    ]
    for index, taint in enumerate(spec.taints_to_add):
        for field, seconds in (
            ("addOnMatchSeconds", taint.add_on_match_seconds),
            ("removeOnMismatchSeconds", taint.remove_on_mismatch_seconds),
        ):
            if seconds < 1:
                rule = "must be greater than or equal to 1: a taint that follows every flicker helps nobody"
                causes.append(invalid(f"spec.taintsToAdd[{index}].{field}", seconds, rule))
    for field, conditions in (
        ("matchConditions", spec.match_conditions),
        ("addOnConditions", spec.add_on_conditions),
        ("removeOnConditions", spec.remove_on_conditions),
    ):
        causes += _conditions(conditions, f"spec.{field}")
    for field, target in (("targetCluster", spec.target_cluster), ("targetClusters", spec.target_clusters)):
        if target is not None:
            causes += affinity_rules.affinity(target, f"spec.{field}")
    return causes


def _dialect(policy: ClusterTaintPolicy) -> Iterator[Cause]:
    """One policy is written in one dialect, and sets something."""
    spec = policy.spec
    windowed = {
        "targetCluster": spec.target_cluster is not None,
        "matchConditions": bool(spec.match_conditions),
        "taintsToAdd": bool(spec.taints_to_add),
    }
    plain = {
        "targetClusters": spec.target_clusters is not None,
        "addOnConditions": bool(spec.add_on_conditions),
        "removeOnConditions": bool(spec.remove_on_conditions),
        "taints": bool(spec.taints),
    }
    if any(windowed.values()) and any(plain.values()):
        others = ", ".join(name for name, used in plain.items() if used)
        for field in (name for name, used in windowed.items() if used):
            yield forbidden(f"spec.{field}", f"may not be used together with {others}: write the policy one way")
    elif any(windowed.values()) and not spec.taints_to_add:
        yield required("spec.taintsToAdd", "name at least one taint")
    elif not any(windowed.values()) and not spec.taints:
        yield required("spec.taints", "name at least one taint, in taints or in taintsToAdd")


def _conditions(conditions: Sequence[MatchCondition], path: str) -> Iterator[Cause]:
    for index, one in enumerate(conditions):
        place = f"{path}[{index}]"
        if not one.condition_type:
            yield required(f"{place}.conditionType")
        if one.operator not in OPERATORS:
            yield unsupported(f"{place}.operator", one.operator, OPERATORS)
        if not one.status_values:
            yield required(f"{place}.statusValues", f"some of {', '.join(STATUSES)}")
        for value in one.status_values:
            if value not in STATUSES:
                yield unsupported(f"{place}.statusValues", value, STATUSES)


def warn(new: ClusterTaintPolicy, old: ClusterTaintPolicy | None, settings: Settings) -> list[str]:
    """Return what is accepted and will not do what it seems to (D17)."""
    if settings.gate("Failover"):
        return []
    return ["the feature gate Failover is off: cluster taint policies add nothing until it is on"]
