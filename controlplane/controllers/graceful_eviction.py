"""GracefulEviction: stamps tasks, clears them when the old copy may go, undoes those a recovery cancels (D11, D12)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from controlplane.apimachinery.meta import Condition, Ref, condition, with_condition
from controlplane.clusters.health import heard_at
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.controllers.reads.placed import placed_on
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import Decision, Event, Put
from controlplane.engine.state import State, Watch
from controlplane.eviction import graceful, supporting_objects
from controlplane.kinds import BINDINGS, CLUSTER, COMPANIONS, FAILOVER_CONFIGURATION
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import EVICTING_EFFECTS, Cluster
from controlplane.kinds.rows import Observation
from controlplane.kinds.template import Template
from controlplane.propagation.bindings import binding_ref, template_ref
from controlplane.settings import Settings

SCHEDULED_WITHIN = timedelta(seconds=1)  # the scheduler has mostly decided by then, which makes the binding due anyway


class GracefulEvictionSnapshot(msgspec.Struct, frozen=True):
    """A binding with tasks, and what is known of its targets' and its tasks' clusters (absent: they are gone).

    `beside`: what it is there for and that is still there, by cluster.
    """

    subject: Binding
    places: dict[str, graceful.ClusterState]
    beside: graceful.DependentsByCluster


def _changed(old: Binding | None, new: Binding | None) -> bool:
    if new is None or (
        not new.spec.graceful_eviction_tasks and condition(new.status.conditions, graceful.EVICTION_STUCK) is None
    ):
        return False
    return old is None or old.spec != new.spec or old.status != new.status


def _scheduled(new: Binding) -> bool:
    return new.status.scheduler_observed_generation == new.metadata.generation


def _binding_changed(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    return (new.ref,) if new is not None and _changed(old, new) and _scheduled(new) else ()


def _not_yet_scheduled(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    """A binding that has just left a cluster: there is little to look at before the scheduler has decided where to."""
    return (new.ref,) if new is not None and _changed(old, new) and not _scheduled(new) else ()


def _cluster_changed(old: Cluster | None, new: Cluster | None) -> Iterable[Ref]:
    """A cluster concerns the tasks that leave it, or wait for it, when it recovers, answers, or no longer does."""
    if old is None or new is None:
        return () if old is None else (old.ref,)
    recovered = old.has_taint(*EVICTING_EFFECTS) and not new.has_taint(*EVICTING_EFFECTS)
    return (new.ref,) if recovered or old.answers != new.answers else ()


class GracefulEviction(Controller):
    name = "graceful_eviction"
    group = "failover"
    keys = BINDINGS
    watches = (
        *(Watch(kind, _binding_changed) for kind in BINDINGS),
        *(Watch(kind, _not_yet_scheduled, after=SCHEDULED_WITHIN) for kind in BINDINGS),
        Watch(CLUSTER, _cluster_changed, fan_out=True),
        Watch(FAILOVER_CONFIGURATION, lambda old, new: (FLEET,), fan_out=True),
    )
    due_at_start = (FLEET,)
    owns = Ownership(dict.fromkeys(BINDINGS, ("spec.clusters", "spec.graceful_eviction_tasks", "status.conditions")))
    batch = 1000

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return the bindings that leave a cluster, and those that leave another one for it; the settings say how long
        all that leave anything may take."""
        if origin.kind == FAILOVER_CONFIGURATION:
            names = [one.metadata.name for one in state.list(CLUSTER)]
            begin = Ref.parse(after) if after else None
            found = state.page_by_index(BINDINGS, "leaving", names, after=begin, limit=limit)
            return [one.ref for one in found], str(found[-1].ref) if len(found) >= limit else None
        return placed_on(state, [origin.name, f"to:{origin.name}"], index="leaving", after=after, limit=limit)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[GracefulEvictionSnapshot | None]:
        bindings = state.get(refs)
        names = sorted({name for binding in bindings.values() for name in _clusters(binding)})
        clusters = state.get([Ref(CLUSTER, "", name) for name in names])
        seen = state.rows(Observation, "key", names)
        places = {
            ref.name: graceful.ClusterState(
                cluster.answers,
                cluster.has_taint(*EVICTING_EFFECTS),
                next((heard_at(cluster, row) for row in seen.get(ref.name, ())), None),
            )
            for ref, cluster in clusters.items()
        }
        beside = _beside(state, [one for one in bindings.values() if supporting_objects.may_wait_for_dependents(one)])
        return [
            GracefulEvictionSnapshot(binding, places, beside.get(ref, {}))
            if (binding := bindings.get(ref)) is not None
            else None
            for ref in refs
        ]

    def decide(
        self, snapshot: GracefulEvictionSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        old = snapshot.subject
        if old.metadata.deletion_timestamp is not None:
            return Decision()
        binding, undone = graceful.with_copies_restored(old, snapshot.places)
        found = graceful.assess_tasks(binding, settings, clusters=snapshot.places, dependents=snapshot.beside, now=now)
        binding = old.with_spec(clusters=binding.spec.clusters, graceful_eviction_tasks=found.kept)
        binding = binding.with_status(conditions=_conditions(binding, found, now=now))
        return Decision(
            changes=(Put(binding, old),) if binding != old else (),
            events=(*_told_cleared(old, (*undone, *found.cleared)), *_told_stuck(old, binding)),
            wake_at=found.wake_at,
            reason="GracefulEviction",
        )


def _clusters(binding: Binding) -> Iterable[str]:
    yield from (one.name for one in binding.spec.clusters)
    yield from (task.from_cluster for task in binding.spec.graceful_eviction_tasks)


def _beside(state: State, waiting: Sequence[Binding]) -> dict[Ref, graceful.DependentsByCluster]:
    """Return what the objects of bindings are there for, by binding and cluster."""
    if not waiting:
        return {}
    templates: dict[Ref, Template] = state.get([template_ref(one) for one in waiting])
    asked = {ref: supporting_objects.dependents_query(one) for ref, one in templates.items()}
    values = sorted({one.value for one in asked.values() if one.value})
    found: dict[str, list[Template]] = {}
    for kind in COMPANIONS if values else ():
        for value, ones in state.by_index(kind, "companions", values).items():
            found.setdefault(value, []).extend(ones)
    chosen = {ref: supporting_objects.select_dependents(one, found.get(one.value, ())) for ref, one in asked.items()}
    bindings: dict[Ref, Binding] = state.get(sorted({binding_ref(ref) for refs in chosen.values() for ref in refs}))
    kinds = {ref: one.kind for ref, one in asked.items() if one.kind}
    on_members = state.kinds_on_members() if kinds else ()
    return {
        one.ref: supporting_objects.clusters_with_kind(kinds[ref], on_members)
        if (ref := template_ref(one)) in kinds
        else supporting_objects.dependents_by_cluster(chosen.get(ref, ()), bindings)
        for one in waiting
    }


def _conditions(binding: Binding, found: graceful.TaskAssessment, *, now: datetime) -> tuple[Condition, ...]:
    """Return the conditions with EvictionStuck telling which old copies stay past their time, and for what; or, False,
    which wait in time for what they are there for."""
    waiting = found.overdue or found.waiting
    if not waiting:
        if condition(binding.status.conditions, graceful.EVICTION_STUCK) is None:
            return binding.status.conditions
        told = Condition(graceful.EVICTION_STUCK, "False", "NotStuck", "no eviction task is past its time")
        return with_condition(binding.status.conditions, told, now=now)
    states = {one.state for one in waiting}
    reason = next(
        state for state in (graceful.STUCK, graceful.WAITING_SOURCE, graceful.WAITING_WORKLOAD) if state in states
    )
    parts = [f"the copy on {one.task.from_cluster} stays until: {one.waits_for or 'it is Ready'}" for one in waiting]
    told = Condition(graceful.EVICTION_STUCK, "True" if found.overdue else "False", reason, " | ".join(parts))
    return with_condition(binding.status.conditions, told, now=now)


def _told_cleared(binding: Binding, cleared: Iterable[graceful.ClearedTask]) -> Iterable[Event]:
    for one in cleared:
        message = f"task from cluster {one.task.from_cluster} is cleared: {one.why}"
        yield Event(binding, "EvictionTaskCleared", message)


def _told_stuck(old: Binding, new: Binding) -> Iterable[Event]:
    told, before = (condition(one.status.conditions, graceful.EVICTION_STUCK) for one in (new, old))
    known = before is not None and told is not None and (before.status, before.reason) == (told.status, told.reason)
    if told is not None and told.status == "True" and not known:
        yield Event(old, f"Eviction{told.reason}", told.message, warning=True)
