"""GracefulEviction: stamps tasks, clears them when the old copy may go, undoes those a recovery cancels (D11, D12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from controlplane.controllers.controller import Controller, Ownership
from controlplane.controllers.placed import placed_on
from controlplane.decision import Decision, Event, Put
from controlplane.eviction import graceful
from controlplane.health import heard_at
from controlplane.kinds import BINDINGS, CLUSTER
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import EVICTING_EFFECTS, Cluster
from controlplane.kinds.rows import Observation
from controlplane.meta import Condition, Ref, condition, with_condition
from controlplane.settings import Settings
from controlplane.state import State, Watch

EVICTION_STUCK = "EvictionStuck"  # condition type; its reason is Stuck or WaitingSource


class GracefulEvictionSnapshot(msgspec.Struct, frozen=True):
    """A binding with tasks, and what is known of its targets' and its tasks' clusters (absent: they are gone)."""

    subject: Binding
    places: dict[str, graceful.Place]


def _binding_changed(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    if new is None or (
        not new.spec.graceful_eviction_tasks and condition(new.status.conditions, EVICTION_STUCK) is None
    ):
        return ()
    same = old is not None and old.spec == new.spec and old.status == new.status
    return () if same else (new.ref,)


def _cluster_changed(old: Cluster | None, new: Cluster | None) -> Iterable[Ref]:
    """A cluster concerns the tasks that leave it, or wait for it, when it recovers, answers, or no longer does."""
    if old is None or new is None:
        return () if old is None else (old.ref,)
    recovered = old.has_taint(*EVICTING_EFFECTS) and not new.has_taint(*EVICTING_EFFECTS)
    return (new.ref,) if recovered or old.answers != new.answers else ()


class GracefulEviction(Controller):
    name = "graceful_eviction"
    group = "scheduling"
    keys = BINDINGS
    watches = (
        *(Watch(kind, _binding_changed) for kind in BINDINGS),
        Watch(CLUSTER, _cluster_changed, fan_out=True),
    )
    owns = Ownership(dict.fromkeys(BINDINGS, ("spec.clusters", "spec.graceful_eviction_tasks", "status.conditions")))
    batch = 1000

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return the bindings that leave a cluster, and those that leave another one for it."""
        return placed_on(state, [origin.name, f"to:{origin.name}"], index="leaving", after=after, limit=limit)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[GracefulEvictionSnapshot | None]:
        bindings = state.get(refs)
        names = sorted({name for binding in bindings.values() for name in _clusters(binding)})
        clusters = state.get([Ref(CLUSTER, "", name) for name in names])
        seen = state.rows(Observation, "key", names)
        places = {
            ref.name: graceful.Place(
                cluster.answers,
                cluster.has_taint(*EVICTING_EFFECTS),
                next((heard_at(cluster, row) for row in seen.get(ref.name, ())), None),
            )
            for ref, cluster in clusters.items()
        }
        return [
            GracefulEvictionSnapshot(binding, places) if (binding := bindings.get(ref)) is not None else None
            for ref in refs
        ]

    def decide(
        self, snapshot: GracefulEvictionSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        old = snapshot.subject
        if old.metadata.deletion_timestamp is not None:
            return Decision()
        binding, undone = graceful.restored(old, snapshot.places)
        found = graceful.assess(binding, settings, places=snapshot.places, now=now)
        binding = old.with_spec(clusters=binding.spec.clusters, graceful_eviction_tasks=found.kept)
        binding = binding.with_status(conditions=_conditions(binding, found.overdue, now=now))
        return Decision(
            changes=(Put(binding, old),) if binding != old else (),
            events=(*_told_cleared(old, (*undone, *found.cleared)), *_told_stuck(old, binding)),
            wake_at=found.wake_at,
            reason="GracefulEviction",
        )


def _clusters(binding: Binding) -> Iterable[str]:
    yield from (one.name for one in binding.spec.clusters)
    yield from (task.from_cluster for task in binding.spec.graceful_eviction_tasks)


def _conditions(binding: Binding, overdue: Sequence[graceful.Overdue], *, now: datetime) -> tuple[Condition, ...]:
    """Return the conditions with EvictionStuck telling which old copies stay past their time, and for what."""
    if not overdue:
        if condition(binding.status.conditions, EVICTION_STUCK) is None:
            return binding.status.conditions
        told = Condition(EVICTION_STUCK, "False", "NotStuck", "no eviction task is past its time")
    else:
        states: Mapping[str, None] = dict.fromkeys(one.state for one in overdue)
        reason = graceful.STUCK if graceful.STUCK in states else graceful.WAITING_SOURCE
        parts = [
            f"the copy on {one.task.from_cluster} stays until: {one.waits_for or 'it is Ready'}" for one in overdue
        ]
        told = Condition(EVICTION_STUCK, "True", reason, " | ".join(parts))
    return with_condition(binding.status.conditions, told, now=now)


def _told_cleared(binding: Binding, cleared: Iterable[graceful.Cleared]) -> Iterable[Event]:
    for one in cleared:
        message = f"task from cluster {one.task.from_cluster} is cleared: {one.why}"
        yield Event(binding, "EvictionTaskCleared", message)


def _told_stuck(old: Binding, new: Binding) -> Iterable[Event]:
    told, before = (condition(one.status.conditions, EVICTION_STUCK) for one in (new, old))
    if told is not None and told.status == "True" and (before is None or before.reason != told.reason):
        yield Event(old, f"Eviction{told.reason}", told.message, warning=True)
