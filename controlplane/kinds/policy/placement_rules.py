"""Defaults and validation of a placement [policy-defaults]."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from msgspec.structs import replace

from controlplane.apimachinery.causes import invalid, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import compact
from controlplane.apimachinery.selectors import label_key_errors
from controlplane.kinds.cluster import NO_EXECUTE, NOT_READY_KEY, UNREACHABLE_KEY
from controlplane.kinds.policy import (
    AGGREGATED,
    DIVIDED,
    DUPLICATED,
    WEIGHTED,
    Placement,
    ReplicaSchedulingStrategy,
    SpreadConstraint,
    Toleration,
    affinity_rules,
    spread_rules,
)
from controlplane.settings import Compat

DYNAMIC_WEIGHTS = ("AvailableReplicas",)


def defaulted(placement: Placement) -> Placement:
    """Return a placement with the defaults that are stored; the same object if it has them already."""
    strategy = placement.replica_scheduling
    if strategy is None:
        return placement
    completed = _strategy(strategy)
    return placement if completed is strategy else replace(placement, replica_scheduling=completed)


@lru_cache(maxsize=4096)  # called for every binding of a policy
def effective(placement: Placement) -> Placement:
    """Return the placement of a policy in the form that its bindings have.

    Spread constraints have their defaults and empty values are left out. So a binding does not change if only the
    spelling of its policy changes.
    """
    constraints = placement.spread_constraints
    completed = tuple(map(_spread, constraints))
    return compact(placement if completed == constraints else replace(placement, spread_constraints=completed))


def _spread(constraint: SpreadConstraint) -> SpreadConstraint:
    field = constraint.spread_by_field or ("" if constraint.spread_by_label else "cluster")
    return replace(constraint, spread_by_field=field, min_groups=constraint.min_groups or 1)


def _strategy(strategy: ReplicaSchedulingStrategy) -> ReplicaSchedulingStrategy:
    if not strategy.replica_scheduling_type:
        strategy = replace(strategy, replica_scheduling_type=DIVIDED)
    if strategy.replica_scheduling_type == DIVIDED and not strategy.replica_division_preference:
        strategy = replace(strategy, replica_division_preference=WEIGHTED)
    return strategy


def with_default_tolerations(placement: Placement, compat: Compat) -> Placement:
    """Return a placement with the default tolerations of earlier releases, if settings ask for them
    [default-tolerations].

    A toleration of the user for the same taint takes precedence, whatever its seconds are.
    """
    tolerations = placement.cluster_tolerations
    for key, seconds in (
        (NOT_READY_KEY, compat.default_not_ready_toleration_seconds),
        (UNREACHABLE_KEY, compat.default_unreachable_toleration_seconds),
    ):
        if seconds is not None and not any(
            toleration.key in (key, "") and toleration.effect in (NO_EXECUTE, "")
            for toleration in placement.cluster_tolerations
        ):
            added = Toleration(key=key, operator="Exists", effect=NO_EXECUTE, toleration_seconds=seconds)
            tolerations = (*tolerations, added)
    return (
        placement
        if tolerations is placement.cluster_tolerations
        else replace(placement, cluster_tolerations=tolerations)
    )


def validated(placement: Placement, path: str) -> Iterator[Cause]:
    """Yield the causes to refuse a placement; `path` is its path."""
    yield from affinity_rules.affinities(placement, path)
    yield from affinity_rules.tolerations(placement.cluster_tolerations, f"{path}.clusterTolerations")
    yield from spread_rules.spreads(placement, f"{path}.spreadConstraints")
    if placement.replica_scheduling is not None:
        yield from _scheduling(placement.replica_scheduling, f"{path}.replicaScheduling")
    yield from _workload_affinity(placement, f"{path}.workloadAffinity")


def _scheduling(strategy: ReplicaSchedulingStrategy, path: str) -> Iterator[Cause]:
    if strategy.replica_scheduling_type not in (DIVIDED, DUPLICATED):
        yield unsupported(f"{path}.replicaSchedulingType", strategy.replica_scheduling_type, (DIVIDED, DUPLICATED))
    if strategy.replica_division_preference not in ("", WEIGHTED, AGGREGATED):
        chosen = strategy.replica_division_preference
        yield unsupported(f"{path}.replicaDivisionPreference", chosen, (AGGREGATED, WEIGHTED))
    weights = strategy.weight_preference
    if weights is None:
        return
    if weights.dynamic_weight and weights.dynamic_weight not in DYNAMIC_WEIGHTS:
        yield unsupported(f"{path}.weightPreference.dynamicWeight", weights.dynamic_weight, DYNAMIC_WEIGHTS)
    for index, item in enumerate(weights.static_weight_list):
        item_path = f"{path}.weightPreference.staticWeightList[{index}]"
        if item.weight < 1:
            yield invalid(f"{item_path}.weight", item.weight, "must be greater than or equal to 1")
        yield from affinity_rules.affinity(item.target_cluster, f"{item_path}.targetCluster")


def _workload_affinity(placement: Placement, path: str) -> Iterator[Cause]:
    workload_affinity = placement.workload_affinity
    if workload_affinity is None:
        return
    together, apart = workload_affinity.affinity, workload_affinity.anti_affinity
    for name, term in (("affinity", together), ("antiAffinity", apart)):
        if term is not None:
            for rule in label_key_errors(term.group_by_label_key):
                yield invalid(f"{path}.{name}.groupByLabelKey", term.group_by_label_key, rule)
    if together is not None and together == apart:
        rule = "affinity and antiAffinity must group by different labels: they contradict each other"
        yield invalid(path, together.group_by_label_key, rule)
