"""Selects clusters among the feasible ones by the spread constraints of a placement [spread-constraints]."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from controlplane.kinds.policy import SpreadConstraint
from controlplane.scheduling import regions
from controlplane.scheduling.candidates import Candidates, Unselectable
from controlplane.scheduling.cluster_arrays import Counts, Places
from controlplane.scheduling.placement_plan import DUPLICATED, Plan, constraint


def select(plan: Plan, candidates: Candidates, *, replicas: int, needed: int) -> Places:
    """Return the selected clusters. Together they have capacity for `needed` replicas or sets.

    Raises Unselectable if the constraints cannot be met.
    """
    placement = plan.placement
    by_cluster = constraint(placement, "cluster")
    by_region = constraint(placement, "region")
    if by_region is not None:
        return regions.select(plan, candidates, by_region, by_cluster, replicas=replicas)
    if by_cluster is None:
        raise Unselectable("spreadConstraints: only spreadByField cluster and region select clusters; add one of them")
    return _by_cluster(candidates, by_cluster, needed=None if plan.division == DUPLICATED else needed)


def _by_cluster(candidates: Candidates, bounds: SpreadConstraint, *, needed: int | None) -> Places:
    there = len(candidates.places)
    if there < bounds.min_groups:
        raise Unselectable(f"{there} clusters are feasible, spreadConstraints ask for at least {bounds.min_groups}")
    count = min(there, bounds.max_groups)
    if needed is None:
        return candidates.places[:count]
    chosen = _with_capacity(candidates.capacity, count, needed)
    if chosen is None:
        raise Unselectable(f"no {count} of the {there} feasible clusters together have room for {needed} replicas")
    return candidates.places[chosen]


def _with_capacity(capacity: Counts, count: int, needed: int) -> NDArray[np.intp] | None:
    """Return the positions of `count` clusters that together have capacity for `needed` replicas.

    These are the first `count` clusters. While their capacity is not enough, the last of them is exchanged for the
    cluster with the most free capacity outside, then the last but one, and so on. None: that is not enough either.
    """
    order = np.arange(len(capacity))
    chosen, rest = order[:count].copy(), order[count:].copy()
    total = int(capacity[chosen].sum())
    for slot in reversed(range(count)):
        if total >= needed or not len(rest):
            break
        best = int(np.argmax(capacity[rest]))
        gain = int(capacity[rest[best]] - capacity[chosen[slot]])
        if gain > 0:
            chosen[slot], rest[best] = rest[best], chosen[slot]
            total += gain
    return chosen if count and total >= needed else None
