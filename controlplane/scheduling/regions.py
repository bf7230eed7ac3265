"""Selects clusters by region: first the regions, then the clusters in them [spread-constraints]."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from controlplane.kinds.policy import SpreadConstraint
from controlplane.scheduling.candidates import Candidates, Unselectable
from controlplane.scheduling.cluster_arrays import Places
from controlplane.scheduling.placement_plan import DUPLICATED, Plan

_UNIT = 1000
"""Weight of one more replica (or cluster) in a region's score: more than any average cluster score, which is at most
100."""

_HEAD = 32
"""How many clusters of a region are added up one by one before arrays are used: mostly the first few are enough."""

_MOST_TRIES = 20_000
"""Upper limit for the sets of regions that are tried."""

_NO_CONSTRAINT = SpreadConstraint(spread_by_field="cluster", min_groups=0, max_groups=0)


class Region(msgspec.Struct, frozen=True, eq=False):
    """A region, and the positions of its clusters among the candidates in order of preference."""

    name: str
    members: NDArray[np.intp]
    score: int

    @property
    def clusters(self) -> int:
        return len(self.members)


def select(
    plan: Plan,
    candidates: Candidates,
    by_region: SpreadConstraint,
    by_cluster: SpreadConstraint | None,
    *,
    replicas: int,
) -> Places:
    """Return the selected clusters: the best of each selected region, then the best of the others up to maxGroups.

    Raises Unselectable if there are too few regions or clusters.
    """
    clusters = by_cluster or _NO_CONSTRAINT
    found = _group(plan, candidates, by_region, clusters, replicas=replicas)
    if len(found) < by_region.min_groups:
        raise Unselectable(
            f"{len(found)} regions have feasible clusters, spreadConstraints ask for at least {by_region.min_groups}"
        )
    chosen = best_path(found, least=by_region.min_groups, most=by_region.max_groups, clusters=clusters.min_groups)
    if not chosen:
        raise Unselectable(
            f"no {by_region.min_groups} to {by_region.max_groups} regions together have the {clusters.min_groups} "
            "feasible clusters that spreadConstraints ask for"
        )
    first = [int(region.members[0]) for region in chosen]
    rest = np.sort(np.concatenate([region.members[1:] for region in chosen]))
    more = max(clusters.max_groups - len(first), 0)
    picked: Places = candidates.places[np.concatenate((np.array(first, dtype=np.intp), rest[:more]))]
    return picked


def _group(
    plan: Plan, candidates: Candidates, by_region: SpreadConstraint, by_cluster: SpreadConstraint, *, replicas: int
) -> list[Region]:
    numbers, names = plan.fleet.regions()
    of_each = numbers[candidates.places]
    least = max(by_region.min_groups, by_cluster.min_groups)
    goal = -(-replicas // max(by_region.min_groups, 1))
    order = np.argsort(of_each, kind="stable")
    bounds = np.searchsorted(of_each[order], np.arange(len(names) + 1))
    found = []
    for number, name in enumerate(names):
        members = order[bounds[number] : bounds[number + 1]]
        if not len(members):
            continue
        capacity, scores = candidates.capacity[members], candidates.scores[members]
        if plan.division == DUPLICATED:
            score = _able(capacity, scores, replicas)
        else:
            score = _reach(capacity, scores, least=least, goal=goal)
        found.append(Region(name, members, score))
    return found


def _able(capacity: NDArray[np.int64], scores: NDArray[np.int64], replicas: int) -> int:
    """Return the score of a region for duplicated replicas: how many of its clusters can hold all replicas."""
    able = capacity >= replicas
    count = int(able.sum())
    return count * _UNIT + int(scores[able].sum()) // count if count else 0


def _reach(capacity: NDArray[np.int64], scores: NDArray[np.int64], *, least: int, goal: int) -> int:
    """Return the score of a region for divided replicas: how much of the region's share its clusters can hold.

    `least`: the number of clusters that are used at least. `goal`: the replicas that one region has to hold.
    """
    used, sum_ = 0, 0
    for some in capacity[:_HEAD].tolist():
        used, sum_ = used + 1, sum_ + some
        if used >= least and sum_ >= goal:
            return goal * _UNIT + int(scores[:used].sum()) // used
    sums = np.cumsum(capacity)
    used = max(int(np.searchsorted(sums, goal)) + 1, least)
    if used > len(capacity):
        return min(int(sums[-1]), goal) * _UNIT + int(scores.sum()) // len(capacity)
    return goal * _UNIT + int(scores[:used].sum()) // used


def best_path(regions: list[Region], *, least: int, most: int, clusters: int) -> list[Region]:
    """Return the regions to use, best score first. An empty list: no set of regions meets the constraints.

    A set meets them with `least` to `most` regions and at least `clusters` clusters. The set with the highest total
    score wins, then the set with most clusters, then the set that was tried first. Of that set only the best regions
    that are needed are returned.

    Sets are tried from regions with few clusters to regions with many, and a set that meets the constraints is not
    extended. Dozens of regions form too many sets. After _MOST_TRIES tries the best set so far is used, or the regions
    with most clusters.
    """
    search = _Search(regions, least=least, most=most, clusters=clusters)
    search.visit(0, 0, 0)
    found = search.found
    # `visit` goes on only if the largest regions are enough
    if not found and search.visits > _MOST_TRIES and least <= search.deepest:
        found = search.ordered[len(search.ordered) - search.deepest :]
    by_score = sorted(found, key=lambda region: (-region.score, region.name))
    for length in range(least, len(found)):
        if sum(region.clusters for region in by_score[:length]) >= clusters:
            return by_score[:length]
    return by_score


class _Search:
    """The sets of regions that `best_path` tries, and the best one so far.

    It is no nested function, because one that calls itself refers to itself: all that it sees would stay until the
    garbage collector looks for cycles.
    """

    __slots__ = (
        "_best",
        "_clusters",
        "_hopes",
        "_largest",
        "_least",
        "_most",
        "_path",
        "deepest",
        "found",
        "ordered",
        "visits",
    )

    def __init__(self, regions: list[Region], *, least: int, most: int, clusters: int) -> None:
        self._least, self._most, self._clusters = least, most, clusters
        self.ordered = sorted(regions, key=lambda region: (region.clusters, -region.score, region.name))
        count = len(self.ordered)
        self.deepest = min(most, count)
        self._hopes = _hopes([region.score for region in self.ordered], self.deepest)
        self._largest = [
            sum(region.clusters for region in self.ordered[count - picks :]) for picks in range(self.deepest + 1)
        ]
        self._best: tuple[int, int] | None = None
        self._path: list[Region] = []
        self.found: list[Region] = []
        self.visits = 0

    def visit(self, begin: int, total: int, score: int) -> None:
        """Try the current set, and all sets that add regions from a position on to it.

        `total` and `score`: the clusters and the score of the current set.
        """
        self.visits += 1
        path, length = self._path, len(self._path)
        if total >= self._clusters and self._least <= length <= self._most:
            if self._best is None or (score, total) > self._best:
                self._best, self.found = (score, total), list(path)
            return
        left = self.deepest - length
        largest = self._largest[left]
        if left == 0 or total + largest < self._clusters or self.visits > _MOST_TRIES:
            return
        for place in range(begin, len(self.ordered)):
            if self._best is not None and (score + self._hopes[left][place], total + largest) <= self._best:
                return
            region = self.ordered[place]
            path.append(region)
            self.visit(place + 1, total + region.clusters, score + region.score)
            path.pop()


def _hopes(scores: list[int], most: int) -> list[list[int]]:
    """Return the highest total score that `picks` regions from a position on can add, as rows by `picks`.

    Sets that cannot beat the best set are skipped with it.
    """
    hopes = []
    for picks in range(most + 1):
        top: list[int] = []
        row = [0] * len(scores)
        for place in reversed(range(len(scores))):
            top = sorted((*top, scores[place]), reverse=True)[:picks]
            row[place] = sum(top)
        hopes.append(row)
    return hopes
