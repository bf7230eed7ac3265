"""GracefulEviction: ends eviction tasks once the old copy may be removed [graceful-timeout].

It also stamps new tasks with their time, and undoes tasks whose cluster has recovered [recovered-clusters-cancel].
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from controlplane.apimachinery.meta import Condition, Ref, condition, with_condition
from controlplane.clusters.health import heard_at
from controlplane.controllers.reads.bindings_on_clusters import bindings_on_clusters
from controlplane.controllers.reads.dependents import dependents_by_cluster
from controlplane.controllers.reads.fleet_state import FLEET, WORKERS_ROW, fleet_states, observations_of
from controlplane.controllers.reads.namespace_quotas import NO_QUOTAS, NamespaceQuotas, namespace_quotas
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import Decision, Event, Put, QuotaGuard
from controlplane.engine.state import State, Watch
from controlplane.eviction import graceful, supporting_objects
from controlplane.kinds import BINDINGS, CLUSTER, FAILOVER_CONFIGURATION
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import EVICTING_EFFECTS, Cluster
from controlplane.kinds.federated_quota import ENFORCEMENT_GATE
from controlplane.kinds.rows import FleetState, Observation, UnhealthyCopies
from controlplane.settings import Settings

QUOTA_RETRY = timedelta(minutes=1)  # after a copy was not restored, because a quota has no room for it
SCHEDULED_WITHIN = timedelta(seconds=1)  # by then the scheduler has usually decided, which makes the binding due


class GracefulEvictionSnapshot(msgspec.Struct, frozen=True):
    """A binding with the state of the clusters that it is placed on or evicted from.

    A cluster that does not exist any more is missing in `clusters`.
    """

    subject: Binding
    clusters: dict[str, graceful.ClusterState]
    dependents: graceful.DependentsByCluster  # workloads that still need the object of the binding, by cluster
    quotas: NamespaceQuotas = NO_QUOTAS  # read only for bindings whose copies may be restored
    unhealthy_on: Collection[str] = ()  # the clusters that it left because its copy was unhealthy there
    workers: FleetState | None = None  # when no worker ran; read only if that decides about old copies


def _concerns_tasks(old: Binding | None, new: Binding | None) -> bool:
    """Test whether a binding with eviction tasks, or with the condition EvictionStuck, has changed."""
    if new is None or (
        not new.spec.graceful_eviction_tasks and condition(new.status.conditions, graceful.EVICTION_STUCK) is None
    ):
        return False
    return old is None or old.spec != new.spec or old.status != new.status


def _is_scheduled(binding: Binding) -> bool:
    """Test whether the scheduler has processed the latest change of a binding."""
    return binding.status.scheduler_observed_generation == binding.metadata.generation


def _binding_changed(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    """A binding with tasks is due when it changed and the scheduler has processed the change."""
    return (new.ref,) if new is not None and _concerns_tasks(old, new) and _is_scheduled(new) else ()


def _unscheduled_changed(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    """A binding that was just evicted is due a little later, because the scheduler decides about it first."""
    return (new.ref,) if new is not None and _concerns_tasks(old, new) and not _is_scheduled(new) else ()


def _cluster_changed(old: Cluster | None, new: Cluster | None) -> Iterable[Ref]:
    """Bindings with tasks from or to a cluster are due when it recovers, starts or stops to answer, or is removed."""
    if old is None or new is None:
        return () if old is None else (old.ref,)
    recovered = old.has_taint(*EVICTING_EFFECTS) and not new.has_taint(*EVICTING_EFFECTS)
    return (new.ref,) if recovered or old.answers != new.answers else ()


class GracefulEviction(Controller):
    """Key: a binding. Writes its eviction tasks and the condition EvictionStuck."""

    name = "graceful_eviction"
    group = "failover"
    keys = BINDINGS
    watches = (
        *(Watch(kind, _binding_changed) for kind in BINDINGS),
        *(Watch(kind, _unscheduled_changed, after=SCHEDULED_WITHIN) for kind in BINDINGS),
        Watch(CLUSTER, _cluster_changed, fan_out=True),
        Watch(FAILOVER_CONFIGURATION, lambda old, new: (FLEET,), fan_out=True),
    )
    due_at_start = (FLEET,)
    owns = Ownership(dict.fromkeys(BINDINGS, ("spec.clusters", "spec.graceful_eviction_tasks", "status.conditions")))
    batch = 1000

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return the bindings that are evicted from a cluster, or to it.

        For the settings, return all bindings that are being evicted, because the settings limit how long that takes.
        """
        if origin.kind == FAILOVER_CONFIGURATION:
            return _all_leaving(state, after=after, limit=limit)
        names = [origin.name, f"to:{origin.name}"]
        return bindings_on_clusters(state, names, index="leaving", after=after, limit=limit)

    def load_for(
        self, state: State, refs: Sequence[Ref], settings: Settings
    ) -> Sequence[GracefulEvictionSnapshot | None]:
        return self.load(state, refs, workers=_workers(state, settings))

    def load(
        self, state: State, refs: Sequence[Ref], *, workers: FleetState | None = None
    ) -> Sequence[GracefulEvictionSnapshot | None]:
        bindings = state.get(refs)
        names = sorted({name for binding in bindings.values() for name in _clusters(binding)})
        states = _cluster_states(state, state.get([Ref(CLUSTER, "", name) for name in names]).values())
        waiting = [binding for binding in bindings.values() if supporting_objects.may_wait_for_dependents(binding)]
        dependents = dependents_by_cluster(state, waiting)
        left = _left_unhealthy(state, bindings.values())
        restored = (
            ref
            for ref, binding in bindings.items()
            if graceful.found_no_other_cluster(binding) or graceful.with_copies_restored(binding, states)[1]
        )
        quotas = namespace_quotas(state, restored)
        return [
            GracefulEvictionSnapshot(binding, states, dependents.get(ref, {}), quotas, left.get(ref, ()), workers)
            if (binding := bindings.get(ref)) is not None
            else None
            for ref in refs
        ]

    def looking(self, state: State, settings: Settings, *, now: datetime) -> Callable[[Any], Decision | None]:
        """Return a function that returns when to look again at a binding, see `Controller.looking`.

        It returns None if `decide` may change the binding, or if old copies may wait for another object.
        """
        states, workers = _cluster_states(state, state.list(CLUSTER)), _workers(state, settings)

        def look(binding: Binding) -> Decision | None:
            if supporting_objects.may_wait_for_dependents(binding) or graceful.found_no_other_cluster(binding):
                return None
            if graceful.with_copies_restored(binding, states)[1]:
                return None
            found = graceful.assess_tasks(binding, settings, clusters=states, dependents={}, workers=workers, now=now)
            spec, conditions = binding.spec, binding.status.conditions
            if found.kept != spec.graceful_eviction_tasks or _conditions(binding, found, now=now) != conditions:
                return None
            return Decision(wake_at=found.wake_at, reason="GracefulEviction")

        return look

    def decide(
        self, snapshot: GracefulEvictionSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        old = snapshot.subject
        if old.metadata.deletion_timestamp is not None:
            return Decision()
        binding, undone = graceful.with_copies_restored(
            old,
            snapshot.clusters,
            unhealthy_on=snapshot.unhealthy_on,
            overdue=graceful.overdue_on(old, settings, now=now),
        )
        refused, limits = _within_quotas(snapshot, binding, settings)
        if refused:
            binding, undone = old, ()
        found = graceful.assess_tasks(
            binding,
            settings,
            clusters=snapshot.clusters,
            dependents=snapshot.dependents,
            workers=snapshot.workers,
            now=now,
        )
        binding = old.with_spec(clusters=binding.spec.clusters, graceful_eviction_tasks=found.kept)
        binding = binding.with_status(conditions=_conditions(binding, found, now=now))
        return Decision(
            changes=(Put(binding, old),) if binding != old else (),
            events=(*refused, *_cleared_events(old, (*undone, *found.cleared)), *_stuck_events(old, binding)),
            quota_guards=limits,
            wake_at=min(found.wake_at or now + QUOTA_RETRY, now + QUOTA_RETRY) if refused else found.wake_at,
            reason="GracefulEviction",
        )


def _workers(state: State, settings: Settings) -> FleetState | None:
    """Return when no worker ran, for `on_graceful_timeout` Purge; None: that decides nothing."""
    return fleet_states(state, WORKERS_ROW)[0] if settings.on_graceful_timeout == "Purge" else None


def _all_leaving(state: State, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
    """Return one page of the bindings that are being evicted, and the next cursor: the reference of the last one."""
    names = [cluster.metadata.name for cluster in state.list(CLUSTER)]
    last = Ref.parse(after) if after else Ref("", "", "")
    found: list[Ref] = []
    for kind in sorted(kind for kind in BINDINGS if kind >= last.kind):
        begin = (last.namespace, last.name) if kind == last.kind else ("", "")
        found += state.refs_by_index(kind, "leaving", names, after=begin, limit=limit - len(found))
        if len(found) >= limit:
            return found, str(found[-1])
    return found, None


def _within_quotas(
    snapshot: GracefulEvictionSnapshot, restored: Binding, settings: Settings
) -> tuple[tuple[Event, ...], tuple[QuotaGuard, ...]]:
    """Return an Event if a quota has no room for the restored copies, and the guards of their write if it has room.

    Replicas that were evicted and are not placed again are no growth. If there is no room for more, the copy on the
    recovered cluster goes on running under its task, which is not counted [federated-quotas].
    """
    old = snapshot.subject
    if restored is old or not settings.gate(ENFORCEMENT_GATE):
        return (), ()
    room = snapshot.quotas.room()
    exceeded = room.take(old, restored, reserved=())
    if exceeded is None:
        return (), room.guards(old, restored, reserved=())
    message = f"the copies on recovered clusters do not become targets again: {exceeded}"
    return (Event(old, "CopyNotRestored", message, warning=True),), ()


def _cluster_states(state: State, clusters: Collection[Cluster]) -> dict[str, graceful.ClusterState]:
    """Return the states of clusters, by name."""
    observations = observations_of(state, sorted(cluster.metadata.name for cluster in clusters))
    return {cluster.metadata.name: _state_of(cluster, observations.get(cluster.metadata.name)) for cluster in clusters}


def _state_of(cluster: Cluster, row: Observation | None) -> graceful.ClusterState:
    observed_at = None if row is None else heard_at(cluster, row)
    return graceful.ClusterState(cluster.answers, cluster.has_taint(*EVICTING_EFFECTS), observed_at, row)


def _clusters(binding: Binding) -> Iterable[str]:
    """Yield the clusters that a binding is placed on or evicted from."""
    yield from (target.name for target in binding.spec.clusters)
    yield from (task.from_cluster for task in binding.spec.graceful_eviction_tasks)


def _left_unhealthy(state: State, bindings: Iterable[Binding]) -> dict[Ref, Collection[str]]:
    """Return the clusters that bindings have left because their copies were unhealthy there, if that may end."""
    refs = {str(binding.ref): binding.ref for binding in bindings if graceful.found_no_other_cluster(binding)}
    rows = state.rows(UnhealthyCopies, "key", sorted(refs)) if refs else {}
    return {refs[key]: tuple(row.moves) for key, ones in rows.items() for row in ones}


def _conditions(binding: Binding, found: graceful.TaskAssessment, *, now: datetime) -> tuple[Condition, ...]:
    """Return the conditions of a binding with EvictionStuck.

    True: the message names the old copies that stay longer than their grace period, and what each waits for. False: no
    copy does, and the message names the copies whose grace period has not ended.
    """
    waiting = found.overdue or found.waiting
    if not waiting:
        if condition(binding.status.conditions, graceful.EVICTION_STUCK) is None:
            return binding.status.conditions
        stuck = Condition(graceful.EVICTION_STUCK, "False", "NotStuck", "no old copy is past its grace period")
        return with_condition(binding.status.conditions, stuck, now=now)
    states = {task.state for task in waiting}
    reason = next(
        state for state in (graceful.STUCK, graceful.WAITING_SOURCE, graceful.WAITING_WORKLOAD) if state in states
    )
    parts = [
        f"the copy on {state.task.from_cluster} stays until: {state.waits_for or 'it is Ready'}" for state in waiting
    ]
    stuck = Condition(graceful.EVICTION_STUCK, "True" if found.overdue else "False", reason, " | ".join(parts))
    return with_condition(binding.status.conditions, stuck, now=now)


def _cleared_events(binding: Binding, cleared: Iterable[graceful.ClearedTask]) -> Iterable[Event]:
    for ended in cleared:
        message = f"the eviction task from cluster {ended.task.from_cluster} is cleared: {ended.why}"
        yield Event(binding, "EvictionTaskCleared", message)


def _stuck_events(old: Binding, new: Binding) -> Iterable[Event]:
    stuck, before = (condition(side.status.conditions, graceful.EVICTION_STUCK) for side in (new, old))
    if stuck is None or stuck.status != "True":
        return
    if before is None or (before.status, before.reason) != (stuck.status, stuck.reason):
        yield Event(old, f"Eviction{stuck.reason}", stuck.message, warning=True)
