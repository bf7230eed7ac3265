"""Dividing replicas among the selected clusters (semantics 3.5)."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from controlplane.scheduling.cluster_arrays import Counts
from controlplane.scheduling.placement_plan import AGGREGATED
from controlplane.scheduling.webster_arrays import divide


class NoRoom(Exception):
    """The selected clusters have less room than is needed. `part` is what does fit, by place among the selected."""

    def __init__(self, room: int, needed: int, part: Counts) -> None:
        super().__init__(f"the selected clusters have room for {room} of {needed} replicas")
        self.part = part


def by_static_weight(replicas: int, weights: Counts, *, turned: bool) -> Counts:
    """Return replicas by the weights users wrote; with no weight on any selected cluster all count the same."""
    return divide(replicas, weights if weights.any() else np.ones_like(weights), turned=turned)


class Shares(msgspec.Struct, frozen=True):
    """What a division by room starts from; arrays are over the selected clusters in the order of their names.

    `order` lists them as they are preferred, `fresh` divides everything anew over free room and what is held.
    """

    division: str
    free: Counts
    held: Counts
    order: NDArray[np.intp]
    fresh: bool
    turned: bool

    def of(self, mine: NDArray[np.bool_]) -> Shares:
        """Return the same for some of the clusters: the others have no room and hold nothing."""
        free, held = np.where(mine, self.free, 0), np.where(mine, self.held, 0)
        return Shares(self.division, free, held, self.order[mine[self.order]], self.fresh, self.turned)

    def at_most(self, more: Counts) -> Shares:
        """Return the same with room on each cluster for no more than so many additional replicas."""
        free: Counts = np.clip(more, 0, self.free)
        return Shares(self.division, free, self.held, self.order, self.fresh, self.turned)


def by_room(replicas: int, given: Shares, tiers: Counts | None = None) -> Counts:
    """Return replicas by room.

    Steady: replicas that are placed stay; only a difference is added by free room, or taken away in proportion.
    With `tiers`, each is filled up to its room, what it holds included, before the next one is used. Raises NoRoom.
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
        raise NoRoom(replicas - left, replicas, found)
    return found


def _within(replicas: int, given: Shares) -> Counts:
    held, free = given.held, given.free
    there = int(held.sum())
    if given.fresh:
        return _spread(replicas, free + held, np.zeros_like(held), given)
    if there > replicas:
        # Shrinking goes by what is there, and the room on clusters plays no part.
        return _spread(replicas, held, np.zeros_like(held), given)
    return held if there == replicas else _spread(replicas - there, free, held, given)


def _spread(need: int, weights: Counts, base: Counts, given: Shares) -> Counts:
    """Return `base` and `need` more by weight, no cluster getting more than its weight."""
    room = int(weights.sum())
    if room < need:
        raise NoRoom(room, need, base + weights)
    if given.division == AGGREGATED:
        weights = _fewest(need, weights, base, given.order)
    return base + divide(need, weights, turned=given.turned)


def _fewest(need: int, weights: Counts, base: Counts, order: NDArray[np.intp]) -> Counts:
    """Return the weights of the shortest row of clusters with enough room, 0 for the others: first those that hold
    replicas already, then the roomiest."""
    roomiest = order[np.argsort(-weights[order], kind="stable")]
    holding = base[roomiest] > 0
    roomiest = np.concatenate((roomiest[holding], roomiest[~holding]))
    last = int(np.searchsorted(np.cumsum(weights[roomiest]), need))
    found = np.zeros_like(weights)
    used = roomiest[: last + 1]
    found[used] = weights[used]
    return found
