"""Question: everything about one binding that its scheduling depends on. Bindings with equal questions share
answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from controlplane.estimate.namespace_quotas import ESTIMATE_GATE
from controlplane.estimate.request import Bundle, Request, bundle_of, in_namespace, on_nodes, request_of
from controlplane.kinds.binding import (
    TAINT_UNTOLERATED,
    GracefulEvictionTask,
    ResourceBindingSpec,
    ResourceBindingStatus,
)
from controlplane.kinds.policy import Placement
from controlplane.scheduling.colocation import NO_APPLICATION, Application
from controlplane.scheduling.placement_plan import constraint
from controlplane.scheduling.webster import descending
from controlplane.settings import Settings


class Neighbours(msgspec.Struct, frozen=True):
    """Where the other bindings of a binding's workload affinity groups are placed.

    `together`: the clusters of each binding of its affinity group. `apart`: the clusters of its anti-affinity group.
    None: the binding has no such group, or no other binding of it is placed.
    """

    together: frozenset[frozenset[str]] | None = None
    apart: frozenset[str] | None = None


ALONE = Neighbours()


class Question(msgspec.Struct, frozen=True):
    """What scheduling needs to know of a binding. Equal questions have equal answers while free capacity is the
    same."""

    placement: Placement
    api_version: str
    kind: str
    asked: Request | Bundle
    replicas: int
    workload: bool
    targets: tuple[tuple[str, int], ...]
    blocked: tuple[str, ...]  # clusters with a task that excludes them [recovered-clusters-cancel]
    fails_over: bool  # spec.failover.cluster is set, so PreferNoExecute excludes a cluster [prefer-no-execute]
    larger_name_first: bool  # ties between clusters go to the larger name
    fresh: bool  # a reschedule was requested, so all replicas are divided again
    first_term: int  # position of the affinity term that is tried first
    neighbours: Neighbours = ALONE
    components: tuple[tuple[str, int], ...] = ()
    evicted: tuple[str, ...] = ()  # evicted from because of a taint; excluded while a taint evicts [judged-once]
    application: Application = NO_APPLICATION

    @property
    def needed(self) -> int:
        """The number of replicas, or of whole sets of components, to place."""
        return 1 if self.bundled and on_one_cluster(self.placement) else self.replicas

    @property
    def bundled(self) -> bool:
        """Whether the workload consists of components that are placed as whole sets."""
        return isinstance(self.asked, Bundle)


def question_of(
    spec: ResourceBindingSpec,
    status: ResourceBindingStatus,
    *,
    settings: Settings,
    neighbours: Neighbours = ALONE,
    application: Application = NO_APPLICATION,
    left: Collection[str] = (),
) -> Question:
    """Return the question of a binding. `left`: the clusters that it has left because of a taint that is still there.

    Raises ValueError if the binding has no placement or requests something that is not a quantity.
    """
    if spec.placement is None:
        raise ValueError(f"binding of {spec.resource.kind} {spec.resource.name} has no placement: nothing to schedule")
    bundled = settings.gate("MultiplePodTemplatesScheduling") and bool(spec.components)
    fresh = reschedule_asked(spec, status)
    asked = bundle_of(spec.components) if bundled else request_of(spec.replica_requirements)
    if settings.enable_scheduler_estimator:
        asked = on_nodes(asked, spec)
    return Question(
        placement=spec.placement,
        api_version=spec.resource.api_version,
        kind=spec.resource.kind,
        asked=in_namespace(asked, spec) if settings.gate(ESTIMATE_GATE) else asked,
        replicas=spec.replicas,
        workload=bool(spec.replicas) or spec.replica_requirements is not None or bundled,
        targets=tuple((target.name, target.replicas) for target in spec.clusters),
        blocked=blocked_by_tasks(whole(spec), settings),
        fails_over=spec.failover is not None and spec.failover.cluster is not None,
        larger_name_first=descending(spec.resource.uid),
        fresh=fresh,
        evicted=tuple(sorted({*evicted_from(spec.graceful_eviction_tasks), *left})),
        first_term=0 if fresh else first_term(spec.placement, status.scheduler_observed_affinity_name),
        neighbours=neighbours if settings.gate("WorkloadAffinity") else ALONE,
        application=application,
        components=tuple((part.name, part.replicas) for part in spec.components)
        if bundled and len(spec.components) > 1 and on_one_cluster(spec.placement)
        else (),
    )


def on_one_cluster(placement: Placement) -> bool:
    """Test whether a spread constraint of a placement demands exactly one cluster.

    Only then does a result list the replicas of components.
    """
    bounds = constraint(placement, "cluster")
    return bounds is not None and bounds.min_groups == bounds.max_groups == 1


def reschedule_asked(spec: ResourceBindingSpec, status: ResourceBindingStatus) -> bool:
    """Test whether a reschedule was requested after the last result."""
    requested, last = spec.reschedule_triggered_at, status.last_scheduled_time
    return requested is not None and last is not None and requested > last


def first_term(placement: Placement, observed: str) -> int:
    """Return the position of the affinity term to try first: the term of the last result, else 0 [affinity-groups]."""
    names = [term.affinity_name for term in placement.cluster_affinities]
    return names.index(observed) if observed in names else 0


def blocked_by_tasks(tasks: Collection[GracefulEvictionTask], settings: Settings) -> tuple[str, ...]:
    """Return the clusters that a graceful eviction task excludes: tasks of application failovers, Drains and users.

    Tasks of taint evictions exclude a cluster only with `compat.cluster_eviction_filter` [recovered-clusters-cancel].
    """
    if not tasks:
        return ()
    everything = settings.compat.cluster_eviction_filter
    return tuple(sorted(task.from_cluster for task in tasks if everything or task.reason != TAINT_UNTOLERATED))


def whole(spec: ResourceBindingSpec) -> tuple[GracefulEvictionTask, ...]:
    """Return the tasks that remove a whole copy. A task that removes only a part of a copy leaves the cluster a
    target."""
    tasks = spec.graceful_eviction_tasks
    return tuple(task for task in tasks if not spec.replicas_returning(task.from_cluster)) if tasks else ()


def evicted_from(tasks: Collection[GracefulEvictionTask]) -> tuple[str, ...]:
    """Return the clusters that the binding is evicted from because of a taint.

    For the filter TaintToleration a toleration with an expired tolerationSeconds still tolerates the taint. Without
    this list the copy would go back at once and be evicted again.
    """
    return tuple(sorted(task.from_cluster for task in tasks if task.reason == TAINT_UNTOLERATED)) if tasks else ()


Groups = Mapping[tuple[str, str, str], Mapping[str, Collection[str]]]
"""By (namespace, "affinity" or "antiAffinity", group): the clusters of each binding of the group, by binding name."""


def neighbours_of(spec: ResourceBindingSpec, groups: Groups, *, own: str) -> Neighbours:
    """Return where the groups of a binding are placed. The binding itself (`own`: its name) and bindings without
    clusters are ignored."""
    mine = spec.workload_affinity_groups
    if mine is None:
        return ALONE

    def placed(way: str, group: str) -> list[frozenset[str]]:
        others = groups.get((spec.resource.namespace, way, group), {}) if group else {}
        return [frozenset(names) for binding, names in others.items() if binding != own and names]

    together, apart = placed("affinity", mine.affinity_group), placed("antiAffinity", mine.anti_affinity_group)
    return Neighbours(frozenset(together) if together else None, frozenset.union(*apart) if apart else None)
