"""Nodes on which replicas are placed one after the other: the formula Simulate [resource-models].

Nodes that stand side by side and have the same free capacity are kept as one run, and those with room for nothing more
are forgotten. So a cluster of many nodes takes no more memory than one of few, and each set as little time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

MOST_SETS: Final = 10_000
"""That are placed on one cluster. Each takes some steps, and a member may report a billion nodes."""

Part = tuple[int, Sequence[int]]
"""How many replicas of a component a set has, and what each of them takes."""


class Run(NamedTuple):
    """Neighbouring nodes with the same free capacity of each."""

    nodes: int
    free: tuple[int, ...]


class SimulatedNodes:
    """The nodes of one cluster, in the order in which they are tried."""

    __slots__ = ("_runs",)

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = [run for run in runs if run.nodes > 0]

    def place_sets(self, parts: Sequence[Part], most: int) -> int:
        """Place sets one after the other, their parts in order; return how many fit, at most `most` and MOST_SETS."""
        placed, most = 0, min(most, MOST_SETS)
        while placed < most and all(self.place(replicas, demand) for replicas, demand in parts):
            placed += 1
            self._forget_full(parts)
        return placed

    def _forget_full(self, parts: Sequence[Part]) -> None:
        """Forget the nodes that have room for no replica of a set, and join what stands side by side then."""
        runs = list[Run]()
        for run in self._runs:
            if runs and runs[-1].free == run.free:
                runs[-1] = Run(runs[-1].nodes + run.nodes, run.free)
            elif any(_fitting(run.free, demand, 1) > 0 for _, demand in parts):
                runs.append(run)
        self._runs = runs

    def place(self, replicas: int, demand: Sequence[int]) -> bool:
        """Place replicas, each on the first node that has room for it, and subtract what they take (`demand`).

        Return False if some do not fit; those that were placed stay subtracted.
        """
        left, place = replicas, 0
        while left and place < len(self._runs):
            run = self._runs[place]
            fits = _fitting(run.free, demand, left)
            if fits <= 0:
                place += 1
                continue
            # As many nodes as become full, or the first one if it takes all that are left.
            taken, each = (1, left) if fits >= left else (min(run.nodes, left // fits), fits)
            used = tuple(have - each * need for have, need in zip(run.free, demand, strict=True))
            place = self._replace(place, Run(taken, used), Run(run.nodes - taken, run.free))
            left -= taken * each
        return not left

    def _replace(self, place: int, used: Run, rest: Run) -> int:
        """Divide a run into nodes that were used and the others; return the place after the used ones."""
        new = [used, rest] if rest.nodes else [used]
        if place and self._runs[place - 1].free == used.free:
            place -= 1
            new[0] = Run(self._runs[place].nodes + used.nodes, used.free)
            self._runs[place : place + 2] = new
        else:
            self._runs[place : place + 1] = new
        return place + 1


def _fitting(free: Sequence[int], demand: Sequence[int], wanted: int) -> int:
    """Return how many replicas have room. `wanted`: if they take nothing, all of these do."""
    return min((have // need for have, need in zip(free, demand, strict=True) if need), default=wanted)
