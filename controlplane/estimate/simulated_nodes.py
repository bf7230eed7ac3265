"""Nodes on which replicas are placed one after the other: the formula Simulate [resource-models].

Nodes that stand side by side and have the same free capacity are kept as one run. So a cluster of many nodes takes
neither more memory nor more time than one of few, as long as most of its nodes are equally full.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Run(NamedTuple):
    """Neighbouring nodes with the same free capacity of each."""

    nodes: int
    free: tuple[int, ...]


class SimulatedNodes:
    """The nodes of one cluster, in the order in which they are tried."""

    __slots__ = ("_runs",)

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = [run for run in runs if run.nodes > 0]

    def place(self, replicas: int, demand: Sequence[int]) -> bool:
        """Place replicas, each on the first node that has room for it, and subtract what they take (`demand`).

        Return False if some do not fit; those that were placed stay subtracted.
        """
        left, place = replicas, 0
        while left and place < len(self._runs):
            run = self._runs[place]
            fits = min((have // need for have, need in zip(run.free, demand, strict=True) if need), default=left)
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
