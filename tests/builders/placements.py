"""Placements for tests: where a workload may run and how its replicas are divided."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.kinds.policy import (
    ClusterAffinity,
    ClusterAffinityTerm,
    ClusterPreferences,
    Placement,
    ReplicaSchedulingStrategy,
    SpreadConstraint,
    StaticClusterWeight,
    Toleration,
)

DYNAMIC = ReplicaSchedulingStrategy("Divided", "Weighted", ClusterPreferences(dynamic_weight="AvailableReplicas"))
AGGREGATED = ReplicaSchedulingStrategy("Divided", "Aggregated")
EVENLY = ReplicaSchedulingStrategy("Divided", "Weighted")


def placement(
    *names: str,
    how: ReplicaSchedulingStrategy | None = None,
    spread: Sequence[SpreadConstraint] = (),
    tolerations: Sequence[Toleration] = (),
    groups: Sequence[ClusterAffinityTerm] = (),
) -> Placement:
    """Return a placement on these clusters, on any if none is named."""
    return Placement(
        cluster_affinity=ClusterAffinity(cluster_names=names) if names else None,
        cluster_affinities=tuple(groups),
        cluster_tolerations=tuple(tolerations),
        spread_constraints=tuple(spread),
        replica_scheduling=how,
    )


def duplicated(*names: str, least: int = 0, most: int = 0, tolerations: Sequence[Toleration] = ()) -> Placement:
    """Return a placement with a copy on each cluster, or on `least` to `most` of them."""
    spread = (SpreadConstraint("cluster", min_groups=least, max_groups=most),) if most else ()
    return placement(*names, spread=spread, tolerations=tolerations)


def weights(**by_name: int) -> ReplicaSchedulingStrategy:
    """Return the strategy that divides replicas by these static weights."""
    rules = tuple(
        StaticClusterWeight(ClusterAffinity(cluster_names=(name,)), weight) for name, weight in by_name.items()
    )
    return ReplicaSchedulingStrategy("Divided", "Weighted", ClusterPreferences(rules))


def by_weight(**by_name: int) -> Placement:
    """Return a placement on these clusters that divides replicas by their weights."""
    return placement(*by_name, how=weights(**by_name))


def by_room(*names: str) -> Placement:
    """Return a placement on these clusters that divides replicas by free capacity."""
    return placement(*names, how=DYNAMIC)
