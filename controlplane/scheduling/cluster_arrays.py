"""The clusters of one tick as numpy arrays, so that a question about them is answered once for thousands of bindings.

A mask has one boolean for each index of `Fleet.names`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from controlplane.clusters import unjoin
from controlplane.clusters.tolerations import untolerated
from controlplane.estimate.capacity import Capacity, FreeCapacity, free_capacity
from controlplane.estimate.request import Bundle, Request
from controlplane.kinds.cluster import NO_EXECUTE, PREFER_NO_EXECUTE, Cluster, NamespaceQuota, Taint
from controlplane.kinds.policy import ClusterAffinity, Toleration
from controlplane.kinds.policy.affinity import Condition, NameIn, NameNotIn, conditions, field_values
from controlplane.scheduling.node_room import NodeRooms
from controlplane.settings import Settings

Mask = NDArray[np.bool_]
Places = NDArray[np.intp]
Counts = NDArray[np.int64]

_CACHED: Final = 8192
"""Upper limit for cached answers of a fleet. A fleet lives until a cluster changes, so the limit is rarely reached."""

FEW: Final = 4
"""So many clusters are looked at one by one, because the calls of numpy would cost more."""

T = TypeVar("T")


class Fleet:
    """An immutable snapshot of clusters in the order of their names. Create it with `Fleet.of`.

    Methods return masks and arrays over `names`. They are shared, so never write to them, unless a method says that it
    returns a new one.
    """

    __slots__ = (
        "_api_ids",
        "_apis",
        "_cache",
        "_for_plans",
        "_read",
        "_shared",
        "_taint_ids",
        "_taints",
        "accepting",
        "capacity",
        "clusters",
        "excluded",
        "index",
        "names",
        "namespace_quotas",
        "nodes",
        "retaining",
        "settings",
        "size",
    )

    def __init__(
        self, clusters: Iterable[Cluster], settings: Settings, known: dict[str, tuple[Cluster, FreeCapacity]]
    ) -> None:
        self.settings = settings
        self.clusters = tuple(sorted(clusters, key=lambda cluster: cluster.metadata.name))
        self.names = tuple(cluster.metadata.name for cluster in self.clusters)
        self.index = {name: index for index, name in enumerate(self.names)}
        self.size = len(self.names)
        self._read = {
            name: _read(cluster, known.get(name)) for name, cluster in zip(self.names, self.clusters, strict=True)
        }
        graded = settings.gate("CustomizedClusterResourceModeling")
        free = [capacity for _, capacity in self._read.values()]
        self.capacity = Capacity(free, settings.estimator.model_formula, graded=graded)
        self.nodes = NodeRooms(free)
        self.namespace_quotas = _by_namespace(self.clusters)
        self._taints, self._taint_ids = _interned(
            tuple(Taint(taint.key, taint.effect, taint.value) for taint in cluster.spec.taints)
            for cluster in self.clusters
        )
        self._apis, self._api_ids = _interned(cluster.status.api_enablements for cluster in self.clusters)
        self.excluded: Mask = np.zeros(self.size, dtype=np.bool_)
        self.accepting: Mask = ~self._mask(lambda cluster: cluster.terminating)  # clusters that are not being deleted
        # A deleted cluster that the eviction queue empties keeps its copies until they are evicted [unjoin-and-drain].
        self.retaining: Mask = self.accepting | np.bool_(unjoin.evicts(settings))
        self._cache: dict[Any, Any] = {}
        self._for_plans: Fleet | None = None
        self._shared: dict[Any, Any] = {}  # answers about the clusters as they are, whichever of them are left out

    @classmethod
    def of(cls, clusters: Iterable[Cluster], *, settings: Settings, previous: Fleet | None = None) -> Fleet:
        """Return the fleet of these clusters.

        `previous`: an earlier fleet. What it read of unchanged clusters is reused. If no cluster has changed,
        `previous` itself is returned, with its cached answers.
        """
        if previous is None:
            return cls(clusters, settings, {})
        listed = list(clusters)
        known = previous._read
        same = len(listed) == previous.size and settings == previous.settings and not previous.excluded.any()
        if same and all(
            cluster.metadata.name in known and _same(known[cluster.metadata.name][0], cluster) for cluster in listed
        ):
            return previous
        return cls(listed, settings, known)

    def without(self, names: Collection[str]) -> Fleet:
        """Return the fleet as if these clusters could neither take new copies nor keep copies [refuge-first].

        It shares all answers about what clusters are and how much fits on them.
        """
        places = self.places(names)
        if not len(places):
            return self
        fleet = self._copy()
        fleet.excluded = self.excluded.copy()
        fleet.excluded[places] = True
        fleet.retaining = self.retaining & ~fleet.excluded
        return fleet

    def for_plans(self) -> Fleet:
        """Return a copy of this fleet for the plans that this fleet caches.

        The copy does not refer to this fleet, so no cycle arises: a fleet that only one rehearsal needed is freed at
        once, and not by the garbage collector.
        """
        if self._for_plans is None:
            self._for_plans = self._copy()
        return self._for_plans

    def _copy(self) -> Fleet:
        """Return the same fleet without the answers that depend on which clusters are left out."""
        fleet = object.__new__(Fleet)
        for slot in Fleet.__slots__:
            setattr(fleet, slot, getattr(self, slot))
        fleet._cache, fleet._for_plans = {}, None
        return fleet

    def places(self, names: Iterable[str]) -> Places:
        """Return the places of the clusters with these names. Names that the fleet does not know are ignored."""
        index = self.index
        return np.array([index[name] for name in names if name in index], dtype=np.intp)

    def everything(self) -> Mask:
        """Return a new mask with every cluster; the caller may write to it."""
        return np.ones(self.size, dtype=np.bool_)

    def mask_of(self, names: Iterable[str]) -> Mask:
        """Return a new mask with the clusters of these names; names that the fleet does not know are ignored."""
        mask: Mask = np.zeros(self.size, dtype=np.bool_)
        mask[self.places(names)] = True
        return mask

    def cached(self, key: Any, make: Callable[[], T]) -> T:
        """Return the cached answer for `key`; call `make` if there is none."""
        return _cached(self._cache, key, make)

    def _mask(self, test: Callable[[Cluster], bool]) -> Mask:
        return np.fromiter((test(cluster) for cluster in self.clusters), dtype=np.bool_, count=self.size)

    # Capacity

    def replicas(self, request: Request) -> Counts:
        """Return how many replicas with this request fit on each cluster, by its report."""
        return _cached(self._shared, request, lambda: self.nodes.limit(self.capacity.replicas(request), request))

    def bundles(self, bundle: Bundle) -> Counts:
        """Return how many whole sets of components fit on each cluster, by its report."""
        return _cached(self._shared, bundle, lambda: self.nodes.limit(self.capacity.bundles(bundle), bundle))

    def by_resource(self, asked: Request | Bundle) -> dict[str, Counts]:
        """Return for each requested resource how many replicas (or sets) fit if no other resource and no pod slot is
        scarce. Resource models and single nodes count all resources at once."""

        def make() -> dict[str, Counts]:
            by_resource = self.capacity.by_resource(asked)
            return {name: self.nodes.limit(fitting, asked) for name, fitting in by_resource.items()}

        return _cached(self._shared, ("by resource", asked), make)

    def without_matching_node(self, asked: Request | Bundle) -> frozenset[int]:
        """Return the places of the clusters on which no node takes the pods of a request [node-estimate]."""
        return _cached(
            self._shared,
            ("no node", asked),
            lambda: frozenset(np.flatnonzero(self.nodes.without_match(asked)).tolist()),
        )

    # What clusters are

    def selected_by(self, affinity: ClusterAffinity | None) -> Mask:
        """Return which clusters an affinity chooses. Each of its conditions is evaluated once for all clusters."""
        mask = np.ones(self.size, dtype=np.bool_)
        for condition in conditions(affinity):
            mask &= self._meeting(condition)
        return mask

    def _meeting(self, condition: Condition) -> Mask:
        if isinstance(condition, (NameIn, NameNotIn)):  # long lists of names: looked up instead of compared
            mask = np.full(self.size, isinstance(condition, NameNotIn), dtype=np.bool_)
            places = self.places(condition.names)
            mask[places] = ~mask[places]
            return mask
        return _cached(self._shared, condition, lambda: self._mask(condition.holds))

    def without_field(self, field: str) -> Mask:
        """Return the clusters whose provider, region or zone is not set."""
        return _cached(
            self._shared, ("without field", field), lambda: self._mask(lambda cluster: not field_values(cluster, field))
        )

    def regions(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Return for each cluster the position of its region in the sorted region names, and these names. -1: no
        region."""

        def make() -> tuple[NDArray[np.int64], tuple[str, ...]]:
            known = tuple(sorted({cluster.spec.region for cluster in self.clusters} - {""}))
            number = {name: index for index, name in enumerate(known)} | {"": -1}
            return np.array([number[cluster.spec.region] for cluster in self.clusters], dtype=np.int64), known

        return _cached(self._shared, "regions", make)

    def with_untolerated_taint(self, tolerations: tuple[Toleration, ...], effects: tuple[str, ...]) -> Mask:
        """Return the clusters with a taint of one of these effects that no toleration tolerates."""

        def make() -> Mask:
            refused = [bool(untolerated(taints, tolerations, effects)) for taints in self._taints]
            return np.array(refused, dtype=np.bool_)[self._taint_ids]

        return _cached(self._shared, (tolerations, effects), make)

    def first_untolerated_taint(
        self, index: int, tolerations: tuple[Toleration, ...], effects: tuple[str, ...]
    ) -> Taint | None:
        """Return the first taint for which `with_untolerated_taint` contains this cluster. None: there is none."""
        found = untolerated(self._taints[self._taint_ids[index]], tolerations, effects)
        return found[0] if found else None

    def with_prefer_no_execute(self) -> Mask:
        """Return the clusters with a PreferNoExecute taint. Tolerations are not consulted [prefer-no-execute]."""
        return self.with_untolerated_taint((), (PREFER_NO_EXECUTE,))

    def with_evicting_taint(self) -> Mask:
        """Return the clusters with a taint that evicts (NoExecute, PreferNoExecute), whether it is tolerated or not."""
        return self.with_untolerated_taint((), (NO_EXECUTE, PREFER_NO_EXECUTE))

    def enables(self, api_version: str, kind: str) -> Mask:
        """Return the clusters that serve this kind of this API version."""

        def make() -> Mask:
            served = [
                any(
                    enablement.group_version == api_version and any(r.kind == kind for r in enablement.resources)
                    for enablement in enabled
                )
                for enabled in self._apis
            ]
            return np.array(served, dtype=np.bool_)[self._api_ids]

        return _cached(self._shared, ("api", api_version, kind), make)


def _cached(cache: dict[Any, Any], key: Any, make: Callable[[], T]) -> T:
    found = cache.get(key)
    if found is None:
        if len(cache) >= _CACHED:
            cache.clear()
        found = cache[key] = make()
    answer: T = found
    return answer


def _read(cluster: Cluster, known: tuple[Cluster, FreeCapacity] | None) -> tuple[Cluster, FreeCapacity]:
    """Return a cluster with its free capacity; `known` if that was read from the same cluster."""
    return known if known is not None and _same(known[0], cluster) else (cluster, free_capacity(cluster))


def _by_namespace(clusters: Iterable[Cluster]) -> dict[str, dict[int, list[NamespaceQuota]]]:
    """Return the quotas of namespaces that members report: by namespace, then by the place of the cluster."""
    found: dict[str, dict[int, list[NamespaceQuota]]] = {}
    for place, cluster in enumerate(clusters):
        summary = cluster.status.resource_summary
        for quota in () if summary is None else summary.namespace_quotas:
            found.setdefault(quota.namespace, {}).setdefault(place, []).append(quota)
    return found


def _same(known: Cluster, other: Cluster) -> bool:
    """Test whether two readings of a cluster are equal. Resource versions are not compared, because a store that was
    restored from a backup may have given the same version to another content."""
    return known is other or known == other


def _interned(values: Iterable[Any]) -> tuple[list[Any], Places]:
    """Return the distinct values, and for each given value its position among them."""
    numbers: dict[Any, int] = {}
    ids = [numbers.setdefault(value, len(numbers)) for value in values]
    return list(numbers), np.array(ids, dtype=np.intp)
