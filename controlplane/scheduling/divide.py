"""Divides replicas among the selected clusters [replica-division]."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from controlplane.scheduling.cluster_arrays import Counts
from controlplane.scheduling.placement_plan import AGGREGATED
from controlplane.scheduling.webster_arrays import divide


class NotEnoughCapacity(Exception):
    """The selected clusters have too little free capacity. `part`: the replicas that do fit on each of them."""

    def __init__(self, capacity: int, needed: int, part: Counts) -> None:
        super().__init__(f"the selected clusters have room for {capacity} of {needed} replicas")
        self.part = part


def by_static_weight(replicas: int, weights: Counts, *, larger_name_first: bool) -> Counts:
    """Return replicas by static weights. If no selected cluster has a weight, all have the same weight."""
    return divide(replicas, weights if weights.any() else np.ones_like(weights), larger_name_first=larger_name_first)


class Shares(msgspec.Struct, frozen=True):
    """The input of a division by free capacity. Arrays are over the selected clusters in the order of their names.

    `free`: how many more replicas fit. `held`: the replicas that the binding already has. `order`: the clusters in
    order of preference. `fresh`: divide all replicas again, as if none were placed. `larger_name_first`: ties go to the
    larger name.
    """

    division: str
    free: Counts
    held: Counts
    order: NDArray[np.intp]
    fresh: bool
    larger_name_first: bool

    def of(self, mine: NDArray[np.bool_]) -> Shares:
        """Return the input restricted to some clusters: the others count as full and hold no replicas."""
        free, held = np.where(mine, self.free, 0), np.where(mine, self.held, 0)
        return Shares(self.division, free, held, self.order[mine[self.order]], self.fresh, self.larger_name_first)

    def at_most(self, more: Counts) -> Shares:
        """Return the input with an upper limit for the additional replicas of each cluster."""
        free: Counts = np.clip(more, 0, self.free)
        return Shares(self.division, free, self.held, self.order, self.fresh, self.larger_name_first)


def by_free_capacity(replicas: int, given: Shares, tiers: Counts | None = None) -> Counts:
    """Return replicas divided by free capacity. Raises NotEnoughCapacity if they do not fit.

    Within one tier placed replicas stay: only the difference is added by free capacity, or removed in proportion to the
    replicas. `tiers`: the clusters of one tier are filled completely before the next tier is used, so a placed replica
    of a later tier moves if an earlier tier has room. None: there is one tier.
    """
    if tiers is None:
        return _within(replicas, given)
    found = np.zeros_like(given.held)
    left = replicas
    for tier in np.unique(tiers):
        here = given.of(tiers == tier)
        share = min(left, int((here.free + here.held).sum()))
        if share > 0:
            found += _within(share, here)
            left -= share
    if left > 0:
        raise NotEnoughCapacity(replicas - left, replicas, found)
    return found


def _within(replicas: int, given: Shares) -> Counts:
    held, free = given.held, given.free
    there = int(held.sum())
    if given.fresh:
        return _spread(replicas, free + held, np.zeros_like(held), given)
    if there > replicas:
        # Replicas are removed in proportion to what each cluster holds; free capacity does not matter.
        return _spread(replicas, held, np.zeros_like(held), given)
    return held if there == replicas else _spread(replicas - there, free, held, given)


def _spread(need: int, weights: Counts, base: Counts, given: Shares) -> Counts:
    """Return `base` plus `need` replicas divided by weight. No cluster gets more than its weight."""
    capacity = int(weights.sum())
    if capacity < need:
        raise NotEnoughCapacity(capacity, need, base + weights)
    if given.division == AGGREGATED:
        weights = _fewest(need, weights, base, given.order)
    return base + divide(need, weights, larger_name_first=given.larger_name_first)


def _fewest(need: int, weights: Counts, base: Counts, order: NDArray[np.intp]) -> Counts:
    """Return the weights of as few clusters as have enough capacity together, and 0 for all others.

    Clusters that already hold replicas come first, then those with the most free capacity.
    """
    roomiest = order[np.argsort(-weights[order], kind="stable")]
    holding = base[roomiest] > 0
    roomiest = np.concatenate((roomiest[holding], roomiest[~holding]))
    last = int(np.searchsorted(np.cumsum(weights[roomiest]), need))
    found = np.zeros_like(weights)
    used = roomiest[: last + 1]
    found[used] = weights[used]
    return found
