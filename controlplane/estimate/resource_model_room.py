"""Computes how many replicas fit on nodes of which only the grade of a resource model is known [resource-models].

Three formulas exist, chosen by `estimator.model_formula`: Optimistic, Strict and Simulate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from controlplane.apimachinery.quantities import QuantityError, parse
from controlplane.estimate.request import Bundle, Request, scaled
from controlplane.estimate.simulated_nodes import Run, SimulatedNodes
from controlplane.kinds.cluster import ResourceModel

Counts = NDArray[np.int64]

OPTIMISTIC, STRICT, SIMULATE = "Optimistic", "Strict", "Simulate"

NODE_PODS: Final = 110
"""How many pods a simulated node holds: the default limit of a kubelet."""


class Grades:
    """Clusters with the same resource models. `counts[cluster, grade]` is a number of nodes."""

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
        """Return the grades for these models. A resource with a bound that is not a quantity counts as absent."""
        minima, maxima = _bounds(tuple(models))
        return cls(minima, maxima, counts, formula)

    def replicas(self, request: Request) -> Counts | None:
        """Return for each cluster how many replicas fit on its nodes.

        None: the models lack a requested resource, and the formula (Optimistic, Strict) leaves that to the summary.
        """
        if self._formula == SIMULATE:
            per_node = [self._node_takes(grade, request) for grade in range(self._size)]
            return self._times(per_node)
        if any(name not in self._minima for name, _ in request.amounts):
            return None
        first = max((self._first_grade(name, amount) for name, amount in request.amounts), default=0)
        per_node = [0 if grade < first else max(1, self._fits(grade, request)) for grade in range(self._size)]
        return self._times(per_node)

    def _times(self, per_node: list[int]) -> Counts:
        replicas: Counts = self._counts @ np.array(per_node, dtype=np.int64)
        return replicas

    def _first_grade(self, name: str, amount: int) -> int:
        """Return the lowest grade whose nodes may hold the amount (Optimistic) or always hold it (Strict).

        The number of grades: no grade holds the amount.
        """
        if self._formula == OPTIMISTIC:
            return next((grade for grade, high in enumerate(self._maxima[name]) if amount < high), self._size)
        return next((grade for grade, low in enumerate(self._minima[name]) if low >= amount), self._size)

    def _fits(self, grade: int, request: Request) -> int:
        """Return how many replicas fit on a node that has exactly the minima of the grade free."""
        bound = min((self._minima[name][grade] // amount for name, amount in request.amounts), default=NODE_PODS)
        return min(bound, LARGEST)

    def _node_takes(self, grade: int, request: Request) -> int:
        """Return how many replicas `replicas_by_nodes` puts on one node of a grade: at most NODE_PODS.

        0: the models lack a requested resource.
        """
        if any(name not in self._minima for name, _ in request.amounts):
            return 0
        return min(NODE_PODS, self._fits(grade, request))

    def bundles(self, bundle: Bundle, bound: Counts) -> Counts | None:
        """Return for each cluster how many whole sets fit, at most `bound`. None means the same as in `replicas`."""
        if self._formula == SIMULATE:
            return np.array(
                [self._place_sets(bundle, row, int(most)) for row, most in zip(self._counts, bound, strict=True)],
                dtype=np.int64,
            )
        fitting = bound.copy()
        for replicas, request in bundle.parts:
            by_part = self.replicas(request)
            if by_part is None:
                return None
            if replicas:
                np.minimum(fitting, by_part // replicas, out=fitting)
        return fitting

    def _place_sets(self, bundle: Bundle, counts: Counts, most: int) -> int:
        """Return how many sets the nodes of one cluster hold, at most `most`, by placing them on simulated nodes. A
        cluster that holds more than MOST_SETS counts as one that holds these.

        Sets are placed one after the other and components in their order. Each replica goes to the first node with
        enough free capacity; nodes are tried by ascending grade.
        """
        names = sorted({name for _, request in bundle.parts for name, _ in request.amounts})
        if any(name not in self._minima for name in names):
            return 0
        nodes = SimulatedNodes(
            Run(int(counts[grade]), (NODE_PODS, *(self._minima[name][grade] for name in names)))
            for grade in range(self._size)
        )
        parts = [
            (replicas, [1, *(request.of(name) for name in names)]) for replicas, request in bundle.parts if replicas
        ]
        return nodes.place_sets(parts, most)


LARGEST: Final = 2**31 - 1
"""Upper limit for the replicas of one node, so that sums stay within 64 bits."""


@lru_cache(maxsize=1024)  # a fleet is built again whenever a cluster changes, but resource models rarely change
def _bounds(models: tuple[ResourceModel, ...]) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Return the minima and the maxima of models by resource, in the same units as requests."""
    minima: dict[str, list[int]] = {}
    maxima: dict[str, list[int]] = {}
    for name in {bound.name for model in models for bound in model.ranges}:
        try:
            bounds = [next(bound for bound in model.ranges if bound.name == name) for model in models]
            minima[name] = [scaled(name, parse(bound.min)) for bound in bounds]
            maxima[name] = [scaled(name, parse(bound.max)) for bound in bounds]
        except (QuantityError, StopIteration):
            minima.pop(name, None)
    return minima, maxima
