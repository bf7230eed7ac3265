"""What scheduling needs to know of one binding, apart from its placement."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from controlplane.estimate.request import Bundle, Request, bundle_of, request_of
from controlplane.kinds.binding import (
    TAINT_UNTOLERATED,
    GracefulEvictionTask,
    ResourceBindingSpec,
    ResourceBindingStatus,
)
from controlplane.kinds.policy import Placement
from controlplane.scheduling.colocation import APART, Together
from controlplane.scheduling.placement_plan import constraint
from controlplane.scheduling.webster_arrays import descending
from controlplane.settings import Settings


class Neighbours(msgspec.Struct, frozen=True):
    """Where the other bindings of one's workload affinity groups are: `together` the clusters all of them share, maybe
    none; `apart` those any of them is on. None: one has no such group, or nobody else of it is placed yet."""

    together: frozenset[str] | None = None
    apart: frozenset[str] | None = None


ALONE = Neighbours()


class Question(msgspec.Struct, frozen=True):
    """Bindings with equal questions get equal answers, as long as capacity is the same."""

    placement: Placement
    api_version: str
    kind: str
    asked: Request | Bundle
    replicas: int
    workload: bool
    targets: tuple[tuple[str, int], ...]
    leaving: tuple[str, ...]  # clusters with a task that keeps them from being chosen (D12)
    fails_over: bool  # failover.cluster is set: PreferNoExecute keeps it away (D4)
    turned: bool  # ties go to the larger name
    fresh: bool  # a reschedule was asked for: everything is divided anew
    first_term: int
    neighbours: Neighbours = ALONE
    components: tuple[tuple[str, int], ...] = ()
    evicted: tuple[str, ...] = ()  # clusters left because of a taint: not chosen again while one is there (D6)
    together: Together = APART

    @property
    def needed(self) -> int:
        """How many replicas, or whole sets, are to be placed."""
        return 1 if self.bundled and on_one_cluster(self.placement) else self.replicas

    @property
    def bundled(self) -> bool:
        """The workload is made of components that are placed as whole sets."""
        return isinstance(self.asked, Bundle)


def question_of(
    spec: ResourceBindingSpec,
    status: ResourceBindingStatus,
    *,
    settings: Settings,
    neighbours: Neighbours = ALONE,
    together: Together = APART,
) -> Question:
    """Return the question a binding puts. Raises ValueError where it has no placement or asks for no quantity."""
    if spec.placement is None:
        raise ValueError(f"binding of {spec.resource.kind} {spec.resource.name} has no placement: nothing to schedule")
    bundled = settings.gate("MultiplePodTemplatesScheduling") and bool(spec.components)
    fresh = reschedule_asked(spec, status)
    return Question(
        placement=spec.placement,
        api_version=spec.resource.api_version,
        kind=spec.resource.kind,
        asked=bundle_of(spec.components) if bundled else request_of(spec.replica_requirements),
        replicas=spec.replicas,
        workload=spec.replicas > 0 or spec.replica_requirements is not None or bundled,
        targets=tuple((one.name, one.replicas) for one in spec.clusters),
        leaving=blocked_by_tasks(whole(spec), settings),
        fails_over=spec.failover is not None and spec.failover.cluster is not None,
        turned=descending(spec.resource.uid),
        fresh=fresh,
        evicted=evicted_from(spec.graceful_eviction_tasks),
        first_term=0 if fresh else first_term(spec.placement, status.scheduler_observed_affinity_name),
        neighbours=neighbours if settings.gate("WorkloadAffinity") else ALONE,
        together=together,
        components=tuple((one.name, one.replicas) for one in spec.components)
        if bundled and len(spec.components) > 1 and on_one_cluster(spec.placement)
        else (),
    )


def on_one_cluster(placement: Placement) -> bool:
    """Test whether exactly one cluster is asked for: only then does a result say how many of each component."""
    bounds = constraint(placement, "cluster")
    return bounds is not None and bounds.min_groups == bounds.max_groups == 1


def reschedule_asked(spec: ResourceBindingSpec, status: ResourceBindingStatus) -> bool:
    """Test whether somebody asked for a fresh result since the last one."""
    asked, last = spec.reschedule_triggered_at, status.last_scheduled_time
    return asked is not None and last is not None and asked > last


def first_term(placement: Placement, observed: str) -> int:
    """Return the affinity term to start with: the one the last result came from (semantics 3.6)."""
    names = [term.affinity_name for term in placement.cluster_affinities]
    return names.index(observed) if observed in names else 0


def blocked_by_tasks(tasks: Collection[GracefulEvictionTask], settings: Settings) -> tuple[str, ...]:
    """Return the clusters whose task keeps them from being chosen: those of application failover, Drain and humans; of
    taint evictions only with `compat.cluster_eviction_filter` (D12)."""
    if not tasks:
        return ()
    everything = settings.compat.cluster_eviction_filter
    return tuple(sorted(one.from_cluster for one in tasks if everything or one.reason != TAINT_UNTOLERATED))


def whole(spec: ResourceBindingSpec) -> tuple[GracefulEvictionTask, ...]:
    """Return the tasks of clusters that are left altogether; one that gives a part back stays a target."""
    tasks = spec.graceful_eviction_tasks
    return tuple(one for one in tasks if not spec.replicas_returning(one.from_cluster)) if tasks else ()


def evicted_from(tasks: Collection[GracefulEvictionTask]) -> tuple[str, ...]:
    """Return the clusters that are being left because of a taint. A toleration that has run out still bears the taint
    in the eyes of the filter: without this the copy would go back at once, and be evicted again."""
    return tuple(sorted(one.from_cluster for one in tasks if one.reason == TAINT_UNTOLERATED)) if tasks else ()


Groups = Mapping[tuple[str, str, str], Mapping[str, Collection[str]]]
"""By namespace, "affinity" or "antiAffinity", and group: the clusters of its bindings by their names."""


def neighbours_of(spec: ResourceBindingSpec, groups: Groups, *, own: str) -> Neighbours:
    """Return where a binding's groups are; `own` name is left out, and so is who is placed nowhere."""
    mine = spec.workload_affinity_groups
    if mine is None:
        return ALONE

    def placed(way: str, group: str) -> list[frozenset[str]]:
        others = groups.get((spec.resource.namespace, way, group), {}) if group else {}
        return [frozenset(names) for binding, names in others.items() if binding != own and names]

    together, apart = placed("affinity", mine.affinity_group), placed("antiAffinity", mine.anti_affinity_group)
    return Neighbours(
        frozenset.intersection(*together) if together else None, frozenset.union(*apart) if apart else None
    )
