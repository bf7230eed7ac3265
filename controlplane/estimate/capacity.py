"""How many more replicas each cluster of a fleet has room for, computed for all clusters at once (semantics 3.7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from controlplane.apimachinery.quantities import Quantity, parse
from controlplane.estimate.grades import Grades
from controlplane.estimate.request import PODS, Bundle, Request, scaled
from controlplane.kinds.cluster import Cluster, ResourceModel, ResourceSummary

Counts = NDArray[np.int64]


class Room(msgspec.Struct, frozen=True):
    """What one cluster's ResourceSummary leaves free. `graded`: nodes per model, by the model's place."""

    known: bool = False  # False: no summary was reported, which is room for nothing
    pods: int = 0
    free: dict[str, int] = {}
    models: tuple[ResourceModel, ...] = ()
    graded: tuple[int, ...] = ()


def room_of(cluster: Cluster) -> Room:
    """Return what is free on a cluster. A summary that cannot be read leaves nothing free, never everything."""
    summary = cluster.status.resource_summary
    if summary is None:
        return Room()
    try:
        free = _free(summary)
    except ValueError:
        return Room()
    pods = free.get(PODS, 0)
    counts: Counter[int] = Counter()
    for one in summary.allocatable_modelings:
        counts[one.grade] += one.count
    # A count below zero is a broken report: the totals are all that can be believed.
    usable = bool(counts) and min(one.count for one in summary.allocatable_modelings) >= 0
    models = cluster.spec.resource_models if usable else ()
    return Room(True, max(0, pods), free, models, tuple(counts[one.grade] for one in models))


def _free(summary: ResourceSummary) -> dict[str, int]:
    """Return allocatable - allocated - allocating; a resource with less than one whole unit left has none."""
    found: dict[str, int] = {}
    for name, text in summary.allocatable.items():
        nano = parse(text).nano
        for taken in (summary.allocated, summary.allocating):
            if name in taken:
                nano -= parse(taken[name]).nano
        found[name] = scaled(name, Quantity(nano)) if nano > 0 else 0
    return found


class Capacity:
    """Free amounts of a fleet's clusters as arrays, in the order of the rooms it is made of."""

    __slots__ = ("_free", "_grades", "_size", "pods")

    def __init__(self, rooms: Sequence[Room], formula: str, *, graded: bool) -> None:
        """`graded` False: resource models are not used (gate CustomizedClusterResourceModeling, D16)."""
        self._size = len(rooms)
        self.pods: Counts = np.array([room.pods for room in rooms], dtype=np.int64)
        self._free: dict[str, Counts] = {}
        for name in {name for room in rooms for name in room.free}:
            self._free[name] = np.array([room.free.get(name, 0) for room in rooms], dtype=np.int64)
        self._grades: list[tuple[NDArray[np.intp], Grades]] = []
        if graded:
            places: dict[tuple[ResourceModel, ...], list[int]] = {}
            for index, room in enumerate(rooms):
                if room.models:
                    places.setdefault(room.models, []).append(index)
            for models, indices in places.items():
                counts = np.array([rooms[index].graded for index in indices], dtype=np.int64)
                self._grades.append((np.array(indices, dtype=np.intp), Grades.of(models, counts, formula)))

    def free(self, resource: str) -> Counts | None:
        """Return what the summaries leave free of a resource; None where no cluster reports it."""
        return self._free.get(resource)

    def replicas(self, request: Request) -> Counts:
        """Return for each cluster how many replicas with that request fit, at most one per free pod slot.

        What states no requirements needs a slot only, whatever the grades of the nodes are (semantics 3.7).
        """
        if request.slot_only:
            return self.pods.copy()
        found = self._by_summary(request)
        for indices, grades in self._grades:
            by_grade = grades.replicas(request)
            # None: the models do not speak of a resource asked for, so the summary is all there is (D16).
            if by_grade is not None:
                found[indices] = np.minimum(self.pods[indices], by_grade)
        return found

    def _by_summary(self, request: Request) -> Counts:
        found = self.pods.copy()
        for name, amount in request.amounts:
            free = self._free.get(name)
            if free is None:
                return np.zeros(self._size, dtype=np.int64)
            np.minimum(found, free // amount, out=found)
        return found

    def bundles(self, bundle: Bundle) -> Counts:
        """Return for each cluster how many whole sets of components fit."""
        if not bundle.pods:
            return self.pods.copy()
        found: Counts = self.pods // bundle.pods
        for name, amount in bundle.total.amounts:
            free = self._free.get(name)
            if free is None:
                return np.zeros(self._size, dtype=np.int64)
            np.minimum(found, free // amount, out=found)
        for indices, grades in self._grades:
            by_grade = grades.bundles(bundle, found[indices])
            if by_grade is not None:
                found[indices] = np.minimum(found[indices], by_grade)
        return found
