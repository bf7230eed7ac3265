"""Replicas by resource models: how many fit on nodes of which only the grade is known (S003, D16)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from controlplane.apimachinery.quantities import QuantityError, parse
from controlplane.estimate.request import Bundle, Request, scaled
from controlplane.kinds.cluster import ResourceModel

Counts = NDArray[np.int64]

OPTIMISTIC, STRICT, SIMULATE = "Optimistic", "Strict", "Simulate"

NODE_PODS: Final = 110
"""Pods a simulated node takes: what a kubelet allows by default."""


class Grades:
    """Clusters that share their resource models. `counts[cluster, grade]` nodes."""

    __slots__ = ("_counts", "_formula", "_maxima", "_minima", "_size")

    def __init__(
        self, minima: dict[str, list[int]], maxima: dict[str, list[int]], counts: Counts, formula: str
    ) -> None:
        self._minima = minima
        self._maxima = maxima
        self._counts = counts
        self._formula = formula
        self._size = counts.shape[1]

    @classmethod
    def of(cls, models: Sequence[ResourceModel], counts: Counts, formula: str) -> Self:
        """Return the grades of models. A bound that is no quantity makes its resource unknown to the models."""
        minima, maxima = _bounds(tuple(models))
        return cls(minima, maxima, counts, formula)

    def replicas(self, request: Request) -> Counts | None:
        """Return how many replicas the nodes take; None where Optimistic and Strict leave it to the summary."""
        if self._formula == SIMULATE:
            per_node = [self._node_takes(grade, request) for grade in range(self._size)]
            return self._times(per_node)
        if any(name not in self._minima for name, _ in request.amounts):
            return None
        first = max((self._first_grade(name, amount) for name, amount in request.amounts), default=0)
        per_node = [0 if grade < first else max(1, self._fits(grade, request)) for grade in range(self._size)]
        return self._times(per_node)

    def _times(self, per_node: list[int]) -> Counts:
        found: Counts = self._counts @ np.array(per_node, dtype=np.int64)
        return found

    def _first_grade(self, name: str, amount: int) -> int:
        """Return the lowest grade whose nodes may hold the amount (Optimistic) or surely do (Strict)."""
        if self._formula == OPTIMISTIC:
            return next((grade for grade, top in enumerate(self._maxima[name]) if amount < top), self._size)
        return next((grade for grade, low in enumerate(self._minima[name]) if low >= amount), self._size)

    def _fits(self, grade: int, request: Request) -> int:
        """Return how many replicas the least a node of the grade has free would hold."""
        bound = min((self._minima[name][grade] // amount for name, amount in request.amounts), default=NODE_PODS)
        return min(bound, LARGEST)

    def _node_takes(self, grade: int, request: Request) -> int:
        """Return how many replicas fit on one node of exactly the grade's min. An unlisted resource: none."""
        if any(name not in self._minima for name, _ in request.amounts):
            return 0
        return min(NODE_PODS, self._fits(grade, request))

    def bundles(self, bundle: Bundle, bound: Counts) -> Counts | None:
        """Return how many whole sets fit, at most `bound`; None as in `replicas`."""
        if self._formula == SIMULATE:
            return np.array(
                [self._place_sets(bundle, row, int(most)) for row, most in zip(self._counts, bound, strict=True)],
                dtype=np.int64,
            )
        found = bound.copy()
        for replicas, request in bundle.parts:
            by_part = self.replicas(request)
            if by_part is None:
                return None
            if replicas:
                np.minimum(found, by_part // replicas, out=found)
        return found

    def _place_sets(self, bundle: Bundle, counts: Counts, most: int) -> int:
        """Put sets on nodes one after the other, components in their order, each replica on the first node with room,
        larger grades last."""
        names = sorted({name for _, request in bundle.parts for name, _ in request.amounts})
        if any(name not in self._minima for name in names):
            return 0
        nodes = [
            [NODE_PODS, *(self._minima[name][grade] for name in names)]
            for grade in range(self._size)
            for _ in range(int(counts[grade]))
        ]
        demands = [
            (replicas, [1, *(request.of(name) for name in names)]) for replicas, request in bundle.parts if replicas
        ]
        placed = 0
        while placed < most and all(_place(replicas, demand, nodes) for replicas, demand in demands):
            placed += 1
        return placed


LARGEST: Final = 2**31 - 1
"""More replicas than this on one node are not told apart, so that sums stay within 64 bits."""


def _place(replicas: int, demand: Sequence[int], nodes: Sequence[list[int]]) -> bool:
    """Take `replicas` times `demand` from the nodes, first fit. Return whether all of them found a node."""
    left = replicas
    for node in nodes:
        fits = min((have // need for have, need in zip(node, demand, strict=True) if need), default=left)
        take = min(left, fits)
        if take > 0:
            for index, need in enumerate(demand):
                node[index] -= take * need
            left -= take
        if not left:
            return True
    return not left


@lru_cache(maxsize=1024)  # every fleet is made anew when a cluster changes; the models of its clusters hardly ever do
def _bounds(models: tuple[ResourceModel, ...]) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Return the minima and the maxima of models by resource, scaled as requests are."""
    minima: dict[str, list[int]] = {}
    maxima: dict[str, list[int]] = {}
    for name in {one.name for model in models for one in model.ranges}:
        try:
            bounds = [next(one for one in model.ranges if one.name == name) for model in models]
            minima[name] = [scaled(name, parse(one.min)) for one in bounds]
            maxima[name] = [scaled(name, parse(one.max)) for one in bounds]
        except (QuantityError, StopIteration):
            minima.pop(name, None)
    return minima, maxima
