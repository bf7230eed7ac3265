"""How many replicas fit on the single nodes of clusters, by their node selector, node affinity and tolerations
[node-estimate]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from controlplane.clusters.tolerations import untolerated
from controlplane.estimate.capacity import FreeCapacity
from controlplane.estimate.node_pools import PoolRoom
from controlplane.estimate.request import PODS, Bundle, NodeRequirement, NodeTerms, Request
from controlplane.kinds.cluster import NO_EXECUTE, NO_SCHEDULE, Taint

Counts = NDArray[np.int64]
Mask = NDArray[np.bool_]

UNLIMITED: Final = np.int64(2**31 - 1)
"""The number of replicas on a cluster that does not report what single nodes have free."""
_APART_KEPT: Final = 1000  # answers of `apart`
_NAME_FIELD: Final = "metadata.name"


class NodeRooms:
    """What single nodes have free on the clusters of a fleet, in the order of the clusters."""

    __slots__ = (
        "_apart",
        "_clusters",
        "_counts",
        "_free",
        "_kinds",
        "_listed",
        "_matched",
        "_names",
        "_pool_clusters",
        "_pools",
        "reported",
    )

    def __init__(self, capacities: Sequence[FreeCapacity]) -> None:
        pools = [(place, pool) for place, found in enumerate(capacities) for pool in found.pools]
        rooms = [(index, room) for index, (_, pool) in enumerate(pools) for room in range(len(pool.counts))]
        kinds: dict[tuple[object, ...], int] = {}
        self._kinds: list[tuple[PoolRoom, frozenset[str]]] = []
        numbers = []
        for place, pool in pools:
            key = (pool.labels, pool.taints, capacities[place].unlisted)
            if key not in kinds:
                kinds[key] = len(kinds)
                self._kinds.append((pool, capacities[place].unlisted))
            numbers.append(kinds[key])
        self.reported: Mask = np.array([bool(found.pools) for found in capacities], dtype=np.bool_)
        self._pool_clusters = np.array([place for place, _ in pools], dtype=np.intp)
        self._clusters = np.array([pools[index][0] for index, _ in rooms], dtype=np.intp)
        self._pools = np.array([numbers[index] for index, _ in rooms], dtype=np.intp)
        self._counts: Counts = np.array([pools[index][1].counts[room] for index, room in rooms], dtype=np.int64)
        self._listed = [pool for _, pool in pools]
        self._names = frozenset(name for pool in self._listed for name in pool.free)
        self._free: dict[str, Counts] = {}  # of the resources that were asked for; members may report many more
        self._matched: dict[NodeTerms, Mask] = {}
        self._apart: dict[tuple[NodeTerms, NodeTerms], Mask] = {}

    def limit(self, fitting: Counts, asked: Request | Bundle) -> Counts:
        """Return how many replicas (or sets of components) fit: at most `fitting`, and at most what nodes have free.

        A cluster that does not report single nodes keeps the number in `fitting`.
        """
        for replicas, request in asked.parts if isinstance(asked, Bundle) else ((1, asked),):
            if isinstance(request.nodes, NodeTerms) and replicas:
                fitting = np.minimum(fitting, self._replicas(request, request.nodes) // replicas)
        return fitting

    def _replicas(self, request: Request, terms: NodeTerms) -> Counts:
        """Return for each cluster the sum of what fits on each of its nodes that match."""
        nothing = np.zeros(len(self._counts), dtype=np.int64)
        per_node = np.maximum(self._of(PODS, nothing), 0)
        for name, amount in request.amounts:
            per_node = np.minimum(per_node, self._of(name, nothing) // amount)
        per_node[~self._matches(terms)] = 0
        rooms = np.minimum(per_node, UNLIMITED) * np.minimum(self._counts, UNLIMITED)
        found: Counts = np.where(self.reported, 0, UNLIMITED)
        np.add.at(found, self._clusters, np.minimum(rooms, UNLIMITED))  # so that the sum stays within 64 bits
        return found

    def _of(self, name: str, nothing: Counts) -> Counts:
        """Return what each room has free of a resource; `nothing` if no room has any."""
        if name not in self._names:
            return nothing
        known = self._free.get(name)
        if known is None:
            known = self._free[name] = _column(name, self._listed)
        return known

    def _matches(self, terms: NodeTerms) -> Mask:
        """Return which rooms are on nodes that these terms select."""
        mask = self._matched.get(terms)
        if mask is None:
            kinds = np.array([matches(terms, pool, unlisted) for pool, unlisted in self._kinds], dtype=np.bool_)
            mask = self._matched[terms] = kinds[self._pools]
        return mask

    def without_match(self, asked: Request | Bundle) -> Mask:
        """Return the clusters on which no node takes the pods of a request, or those of one of its components.

        A cluster that does not report single nodes is not among them.
        """
        found: Mask = np.zeros(len(self.reported), dtype=np.bool_)
        for replicas, request in asked.parts if isinstance(asked, Bundle) else ((1, asked),):
            if isinstance(request.nodes, NodeTerms) and replicas:
                matching: Mask = ~self.reported
                matching[self._clusters[self._matches(request.nodes)]] = True
                found |= ~matching
        return found

    def apart(self, one: NodeTerms, other: NodeTerms) -> Mask:
        """Return the clusters on which no node is selected by both terms. Clusters that report no node never are."""
        mask = self._apart.get((one, other))
        if mask is None:
            shared: Mask = ~self.reported
            shared[self._clusters[self._matches(one) & self._matches(other)]] = True
            if len(self._apart) >= _APART_KEPT:
                self._apart.clear()
            mask = self._apart[one, other] = ~shared
        return mask


def _column(name: str, pools: Sequence[PoolRoom]) -> Counts:
    """Return what each room has free of a resource."""
    free = (pool.free.get(name) or (0,) * len(pool.counts) for pool in pools)
    return np.fromiter(chain.from_iterable(free), dtype=np.int64)


def matches(terms: NodeTerms, pool: PoolRoom, unlisted: frozenset[str]) -> bool:
    """Test whether pods with these terms may be placed on the nodes of a pool.

    A condition on a label in `unlisted`, or on the name of a node, counts as met: the report does not say it.
    """
    labels = dict(pool.labels)
    if any(labels.get(key) != value for key, value in terms.selector if key not in unlisted):
        return False
    taints = [Taint(taint.key, taint.effect, taint.value) for taint in pool.taints]
    if untolerated(taints, terms.tolerations, (NO_SCHEDULE, NO_EXECUTE)):
        return False
    # A term without requirements selects nothing, as for kube-scheduler.
    return terms.affinity is None or any(
        term and all(_holds(requirement, labels, unlisted) for requirement in term) for term in terms.affinity
    )


def _holds(requirement: NodeRequirement, labels: Mapping[str, str], unlisted: frozenset[str]) -> bool:
    if requirement.of_field:
        return requirement.key == _NAME_FIELD
    if requirement.key in unlisted:
        return True
    known, operator = labels.get(requirement.key), requirement.operator
    if operator == "In":
        return known in requirement.values
    if operator == "NotIn":
        return known not in requirement.values
    if operator in ("Exists", "DoesNotExist"):
        return (known is not None) == (operator == "Exists")
    return operator in ("Gt", "Lt") and known is not None and _compared(known, operator, requirement.values)


def _compared(known: str, operator: str, values: Sequence[str]) -> bool:
    """Test whether a label is greater or less than the only value. A text that is not an integer matches nothing."""
    try:
        label, bound = int(known), int(values[0])
    except (ValueError, IndexError):
        return False
    return label > bound if operator == "Gt" else label < bound
