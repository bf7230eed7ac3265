"""Validation and warnings of a ClusterTaintPolicy [taint-policies]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controlplane.apimachinery.causes import forbidden, invalid, required, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.kinds.cluster.taint_rules import taint_causes
from controlplane.kinds.policy import affinity_rules
from controlplane.kinds.taint_policy import ClusterTaintPolicy, MatchCondition
from controlplane.settings import Settings

IN, NOT_IN = "In", "NotIn"
OPERATORS = (IN, NOT_IN)
STATUSES = ("True", "False", "Unknown")


def validate(new: ClusterTaintPolicy, old: ClusterTaintPolicy | None, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a policy."""
    spec = new.spec
    causes = [
        *_form(new),
        *taint_causes(spec.taints_to_add, "spec.taintsToAdd"),
        *taint_causes(spec.taints, "spec.taints"),
    ]
    for index, taint in enumerate(spec.taints_to_add):
        for field, seconds in (
            ("addOnMatchSeconds", taint.add_on_match_seconds),
            ("removeOnMismatchSeconds", taint.remove_on_mismatch_seconds),
        ):
            if seconds < 1:
                rule = "must be greater than or equal to 1"
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


def _form(policy: ClusterTaintPolicy) -> Iterator[Cause]:
    """Yield the causes if a policy mixes fields with and without windows, or has no taints."""
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
            yield forbidden(f"spec.{field}", f"may not be used together with {others}: use only one of the two forms")
    elif any(windowed.values()) and not spec.taints_to_add:
        yield required("spec.taintsToAdd", "name at least one taint")
    elif not any(windowed.values()) and not spec.taints:
        yield required("spec.taints", "name at least one taint, in taints or in taintsToAdd")


def _conditions(conditions: Sequence[MatchCondition], path: str) -> Iterator[Cause]:
    for index, condition in enumerate(conditions):
        condition_path = f"{path}[{index}]"
        if not condition.condition_type:
            yield required(f"{condition_path}.conditionType")
        if condition.operator not in OPERATORS:
            yield unsupported(f"{condition_path}.operator", condition.operator, OPERATORS)
        if not condition.status_values:
            yield required(f"{condition_path}.statusValues", f"some of {', '.join(STATUSES)}")
        for value in condition.status_values:
            if value not in STATUSES:
                yield unsupported(f"{condition_path}.statusValues", value, STATUSES)


def warn(new: ClusterTaintPolicy, old: ClusterTaintPolicy | None, settings: Settings) -> list[str]:
    """Return a warning if the policy has no effect with the present settings [failover-gate]."""
    if settings.gate("Failover"):
        return []
    return ["cluster taint policies have no effect while the feature gate Failover is off"]
