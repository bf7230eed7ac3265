"""How many more replicas fit on each cluster of a fleet, computed for all clusters at once [replica-estimation]."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from controlplane.apimachinery.quantities import Quantity, parse
from controlplane.estimate import node_pools
from controlplane.estimate.node_pools import PoolRoom
from controlplane.estimate.request import PODS, Bundle, Request, scaled
from controlplane.estimate.resource_model_room import Grades
from controlplane.kinds.cluster import Cluster, ResourceModel, ResourceSummary

Counts = NDArray[np.int64]


class FreeCapacity(msgspec.Struct, frozen=True):
    """What the ResourceSummary of one cluster leaves free.

    `free`: by resource name, cpu in thousandths and everything else in whole units. `graded`: the number of nodes of
    each model, in the order of `models`.
    """

    known: bool = False  # False: the cluster reported no readable summary, so nothing fits
    pods: int = 0  # free pod slots
    free: dict[str, int] = {}
    models: tuple[ResourceModel, ...] = ()
    graded: tuple[int, ...] = ()
    pools: tuple[PoolRoom, ...] = ()  # what single nodes have free; empty: the cluster does not report it
    unlisted: frozenset[str] = frozenset()  # labels of nodes that the pools leave out


def free_capacity(cluster: Cluster) -> FreeCapacity:
    """Return what is free on a cluster. Nothing is free if the summary is missing or cannot be read."""
    summary = cluster.status.resource_summary
    if summary is None:
        return FreeCapacity()
    try:
        free, nodes = _free(summary), node_pools.read(summary.node_pools)
    except ValueError:
        return FreeCapacity()
    pods = free.get(PODS, 0)
    counts: Counter[int] = Counter()
    for modeling in summary.allocatable_modelings:
        counts[modeling.grade] += modeling.count
    # A negative count means that the modelings are wrong. Only the totals are used then.
    usable = bool(counts) and min(modeling.count for modeling in summary.allocatable_modelings) >= 0
    models = cluster.spec.resource_models if usable else ()
    graded = tuple(counts[model.grade] for model in models)
    unlisted = frozenset((*summary.unlisted_node_labels, node_pools.HOSTNAME))
    return FreeCapacity(True, max(0, pods), free, models, graded, nodes, unlisted)


def _free(summary: ResourceSummary) -> dict[str, int]:
    """Return allocatable - allocated - allocating by resource, rounded down to the unit of the resource."""
    free: dict[str, int] = {}
    for name, text in summary.allocatable.items():
        nano = parse(text).nano
        for taken in (summary.allocated, summary.allocating):
            if name in taken:
                nano -= parse(taken[name]).nano
        free[name] = scaled(name, Quantity(nano)) if nano > 0 else 0
    return free


class Capacity:
    """The free capacity of many clusters as arrays, in the order in which the clusters were given."""

    __slots__ = ("_free", "_grades", "_size", "pods")

    def __init__(self, clusters: Sequence[FreeCapacity], formula: str, *, graded: bool) -> None:
        """`graded` False: the gate CustomizedClusterResourceModeling is off and resource models are not used
        [resource-models]."""
        self._size = len(clusters)
        self.pods: Counts = np.array([cluster.pods for cluster in clusters], dtype=np.int64)
        self._free: dict[str, Counts] = {}
        for name in {name for cluster in clusters for name in cluster.free}:
            self._free[name] = np.array([cluster.free.get(name, 0) for cluster in clusters], dtype=np.int64)
        self._grades: list[tuple[NDArray[np.intp], Grades]] = []
        if graded:
            by_models: dict[tuple[ResourceModel, ...], list[int]] = {}
            for index, cluster in enumerate(clusters):
                if cluster.models:
                    by_models.setdefault(cluster.models, []).append(index)
            for models, indices in by_models.items():
                counts = np.array([clusters[index].graded for index in indices], dtype=np.int64)
                self._grades.append((np.array(indices, dtype=np.intp), Grades.of(models, counts, formula)))

    def free(self, resource: str) -> Counts | None:
        """Return the free amount of a resource on each cluster. None: no cluster reports this resource."""
        return self._free.get(resource)

    def replicas(self, request: Request) -> Counts:
        """Return for each cluster how many replicas with this request fit, at most one per free pod slot.

        A replica without requirements needs only a pod slot; resource models are ignored then [replica-estimation].
        """
        if request.slot_only:
            return self.pods.copy()
        fitting = self._by_summary(request)
        for indices, grades in self._grades:
            by_grade = grades.replicas(request)
            # None: the models lack a requested resource, so the summary decides [resource-models].
            if by_grade is not None:
                fitting[indices] = np.minimum(self.pods[indices], by_grade)
        return fitting

    def _by_summary(self, request: Request) -> Counts:
        fitting = self.pods.copy()
        for name, amount in request.amounts:
            free = self._free.get(name)
            if free is None:
                return np.zeros(self._size, dtype=np.int64)
            np.minimum(fitting, free // amount, out=fitting)
        return fitting

    def by_resource(self, asked: Request | Bundle) -> dict[str, Counts]:
        """Return for each requested resource how many replicas (or sets) fit if no other resource is scarce.

        Resource models count all resources at once: on clusters with models each resource has the number by models.
        """
        modelled = np.zeros(self._size, dtype=np.bool_)
        by_models = np.zeros(self._size, dtype=np.int64)
        for indices, grades in self._grades:
            found = self.bundles(asked)[indices] if isinstance(asked, Bundle) else grades.replicas(asked)
            if found is not None:
                modelled[indices], by_models[indices] = True, found
        nothing = np.zeros(self._size, dtype=np.int64)
        return {
            name: np.where(modelled, by_models, self._free.get(name, nothing) // amount)
            for name, amount in (asked.total.amounts if isinstance(asked, Bundle) else asked.amounts)
        }

    def bundles(self, bundle: Bundle) -> Counts:
        """Return for each cluster how many whole sets of components fit."""
        if not bundle.pods:
            return self.pods.copy()
        fitting: Counts = self.pods // bundle.pods
        for name, amount in bundle.total.amounts:
            free = self._free.get(name)
            if free is None:
                return np.zeros(self._size, dtype=np.int64)
            np.minimum(fitting, free // amount, out=fitting)
        for indices, grades in self._grades:
            by_grade = grades.bundles(bundle, fitting[indices])
            if by_grade is not None:
                fitting[indices] = np.minimum(fitting[indices], by_grade)
        return fitting
