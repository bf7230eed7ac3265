"""The origin of a binding: its clusters before a failover, to which a failback returns it [recovered-clusters].

Controllers that evict copies write the origin into the annotation `failover.lifeboat.io/before-failover`:

    {"clusters": {"member1": 1, "member2": 2}, "left": {"member1": "2026-…Z"}, "placement": "…",
     "generations": {"member1": 7}, "had": 3}

They do so in the same write that evicts the copy. The origin stays the same in later failovers. It becomes invalid when
the placement changes, when a reschedule is requested, or when a user places the binding by hand [edits-by-hand].
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from controlplane.apimachinery.meta import Struct, to_seconds
from controlplane.apimachinery.names import BEFORE_FAILOVER_ANNOTATION
from controlplane.kinds.binding import Binding, manual_placement
from controlplane.kinds.policy import Placement

ANY = "*"  # the index value of bindings that have left any cluster


class Origin(Struct, frozen=True):
    """`clusters`: replicas by cluster before the first failover. `left`: the clusters it has left, and when.

    Clusters that it came to by a failover, and has left as well, are in `left` only. `generations`: those with
    which the binding left the clusters that it is not on. `had`: replicas, or copies of a workload with components,
    before it left the last cluster, with those that were not placed again then. `each`: replicas of each copy then; 0:
    the replicas were divided, or the workload has components. All three stay valid if the placement changes.
    """

    clusters: dict[str, int]
    left: dict[str, Annotated[datetime, Meta(tz=True)]]
    placement: str  # digest of the placement at that time
    generations: dict[str, int] = {}
    had: int = 0
    each: int = 0

    @property
    def since(self) -> datetime:
        """The time at which the binding left the first cluster."""
        return min(self.left.values())


_ORIGINS: Final = msgspec.json.Decoder(Origin)


def origin_of(binding: Binding) -> Origin | None:
    """Return the origin of a binding that has left some of its clusters; None: it has left none, or its origin is
    invalid."""
    stored = _valid(binding)
    if stored is None:
        return None
    gone = (name for name in stored.left if binding.spec.target(name) is None and name in stored.clusters)
    away = {name: stored.left[name] for name in gone}
    if not away:
        return None
    origin = Origin(stored.clusters, away, stored.placement)
    requested_at = binding.spec.reschedule_triggered_at
    return origin if requested_at is None or requested_at <= origin.since else None


def departures(binding: Binding) -> dict[str, datetime]:
    """Return when a binding left the clusters that it is not on, also those that it came to by a failover.

    A reschedule that is requested ends what was before it.
    """
    stored, requested_at = _valid(binding), binding.spec.reschedule_triggered_at
    if stored is None:
        return {}
    return {
        name: at
        for name, at in stored.left.items()
        if binding.spec.target(name) is None and (requested_at is None or requested_at <= at)
    }


def with_departures(new: Binding, old: Binding, *, now: datetime) -> Binding:
    """Return `new` with its origin, if it has eviction tasks for clusters that were targets of `old`."""
    gone = [
        target.name
        for target in old.spec.clusters
        if new.spec.target(target.name) is None and new.spec.task(target.name) is not None
    ]
    if not gone:
        return new
    origin = origin_of(old) or Origin(
        {target.name: target.replicas for target in old.spec.clusters}, {}, _digest(old.spec.placement)
    )
    left = {name: to_seconds(now) for name in gone}
    generations = {**_generations(old), **dict.fromkeys(gone, new.metadata.generation)}
    all_left, had = {**departures(old), **left}, _had(old)
    return _with(new, Origin(origin.clusters, all_left, origin.placement, generations, had, _replicas_of_each(old)))


def with_return(binding: Binding) -> Binding:
    """Return a binding that has one of its former clusters as a target again, without the departure from this cluster.

    Its origin is removed once it has returned to all clusters.
    """
    origin, stored = origin_of(binding), _stored(binding)
    if origin is None or stored is None:
        return _with(binding, None)
    known = _generations(binding)
    left = departures(binding)
    return _with(binding, Origin(origin.clusters, left, origin.placement, known, stored.had, stored.each))


def with_arrivals(binding: Binding) -> Binding:
    """Return a binding without its departures from clusters that are its targets again.

    Otherwise they would count once more if the scheduler gives up such a cluster later, which is no eviction.
    """
    stored = _stored(binding)
    if stored is None:
        return binding
    left = {name: at for name, at in stored.left.items() if binding.spec.target(name) is None}
    known = _generations(binding)
    if len(left) == len(stored.left) and len(known) == len(stored.generations):
        return binding
    return _with(binding, replace(stored, left=left, generations=known))


def has_left(binding: Binding, cluster: str) -> bool:
    """Test whether a binding has left a cluster in a failover or Drain, and is not on it. It does not matter whether
    its placement has changed since."""
    return is_noted(binding, cluster) or cluster in departures(binding)


def placed_again(binding: Binding, cluster: str) -> bool:
    """Test whether the scheduler has given a binding all its replicas again since it left a cluster.

    False if it is not known with which generation the binding left.
    """
    left_with = _generations(binding).get(cluster)
    return left_with is not None and left_with <= binding.status.scheduler_observed_generation


def placed_without(binding: Binding, cluster: str) -> bool:
    """Test whether the scheduler has given a binding all its replicas again since it left or gave up a cluster.

    It gives up a cluster that was not evicted, for example the second one of an affinity group, when it places copies
    that were, or a smaller region when a larger one recovers. True if the binding has never been evicted. False if it
    is not known with which generations the binding left its clusters.
    """
    if not is_known(binding):
        return True
    stored = _stored(binding)
    if stored is None:
        return False
    away = [name for name in {**stored.left, **stored.generations} if binding.spec.target(name) is None]
    return all(placed_again(binding, name) for name in ([cluster] if cluster in away else away))


def waits(binding: Binding) -> bool:
    """Test whether a binding has left a cluster since the last complete result of the scheduler.

    The task may be gone. For example, the new copy was evicted as well, and gracePeriodSeconds ended its task.
    """
    seen = binding.status.scheduler_observed_generation
    return any(number > seen for number in _generations(binding).values())


def had(binding: Binding) -> int:
    """Return how many replicas, or copies of a workload with components, a binding had before it left the last cluster;
    0: that is not known, or a user has placed the binding by hand since.

    It stays valid if the placement changes: a user may have let replicas go to other clusters that find no place.
    """
    stored = None if manual_placement.mark_applies(binding) else _stored(binding)
    return 0 if stored is None else stored.had


def _had(binding: Binding) -> int:
    """Return how many a binding has, with those that it has lost in a failover and that are not placed again yet."""
    spec = binding.spec
    placed = len(spec.clusters) if spec.components else sum([target.replicas for target in spec.clusters])
    return max(placed, had(binding)) if waits(binding) else placed


def replicas_of_copies(binding: Binding) -> list[int]:
    """Return how many replicas each copy had before the first failover; empty if that is not known."""
    stored = _stored(binding)
    return [] if stored is None else list(stored.clusters.values())


def is_known(binding: Binding) -> bool:
    """Test whether something is stored about failovers of a binding."""
    return BEFORE_FAILOVER_ANNOTATION in binding.metadata.annotations


def with_fewer(binding: Binding, number: int) -> Binding:
    """Return a binding that waits, and had no more than so many replicas, or copies of a workload with components.

    A user has asked for fewer since it left the last cluster. More than these are growth.
    """
    stored = _stored(binding)
    if stored is None or not 0 < number < had(binding) or not waits(binding):
        return binding
    return _with(binding, replace(stored, had=number, each=min(stored.each, binding.spec.replicas)))


def replicas_of_each(binding: Binding) -> int:
    """Return how many replicas each copy had before the binding left the last cluster; 0: they were divided, or that is
    not known."""
    stored = _stored(binding)
    return 0 if stored is None else stored.each


def _replicas_of_each(binding: Binding) -> int:
    """Return how many replicas each copy has; if no copy is left, how many each had. 0: the replicas are divided."""
    spec = binding.spec
    if spec.components or (spec.placement is not None and spec.placement.divided):
        return 0
    return max([target.replicas for target in spec.clusters], default=replicas_of_each(binding))


def is_noted(binding: Binding, cluster: str) -> bool:
    """Test whether it is known with which generation a binding left a cluster."""
    return cluster in _generations(binding)


def _generations(binding: Binding) -> dict[str, int]:
    """Return the generations with which a binding left the clusters that it is not on, as far as they are known."""
    stored = _stored(binding)
    if stored is None:
        return {}
    return {name: number for name, number in stored.generations.items() if binding.spec.target(name) is None}


def left_clusters(binding: Binding) -> list[str]:
    """Return the values of the index `left`: the clusters to which a binding may return, and ANY if there are any."""
    stored = _stored(binding)
    if stored is None:
        return []
    away = [name for name in stored.left if name in stored.clusters and binding.spec.target(name) is None]
    return [*away, ANY] if away else []


def _valid(binding: Binding) -> Origin | None:
    """Return what is stored about earlier failovers of a binding; None: nothing, or it is invalid."""
    stored = _stored(binding)
    if stored is None or stored.placement != _digest(binding.spec.placement) or manual_placement.mark_applies(binding):
        return None
    return stored


def _stored(binding: Binding) -> Origin | None:
    text = binding.metadata.annotations.get(BEFORE_FAILOVER_ANNOTATION)
    if text is None:
        return None
    try:
        return _ORIGINS.decode(text)
    except msgspec.MsgspecError:
        return None  # another program wrote it


def _with(binding: Binding, origin: Origin | None) -> Binding:
    annotations = {key: text for key, text in binding.metadata.annotations.items() if key != BEFORE_FAILOVER_ANNOTATION}
    if origin is not None:
        annotations[BEFORE_FAILOVER_ANNOTATION] = msgspec.json.encode(origin, order="sorted").decode()
    return binding.with_meta(annotations=annotations)


@lru_cache(maxsize=1024)
def _digest(placement: Placement | None) -> str:
    return "" if placement is None else hashlib.sha256(msgspec.json.encode(placement)).hexdigest()[:16]
