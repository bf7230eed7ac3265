"""Drains: empties clusters on request, one binding after the other, while nothing worse is going on (D20)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from controlplane import health
from controlplane.controllers.controller import Controller, Ownership
from controlplane.controllers.evictions import template_of
from controlplane.controllers.fleet import fleet_state
from controlplane.controllers.labels import workload_labels
from controlplane.decision import NOTHING, Decision, Event, Guard, Put
from controlplane.eviction import rate
from controlplane.eviction.holds import Holds
from controlplane.eviction.purge import leaving, purge_mode
from controlplane.eviction.refuge import refuge
from controlplane.kinds import BINDINGS, CLUSTER, EVICTION_HOLD, MAINTENANCE_WINDOW
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import NO_SCHEDULE, Cluster, Taint
from controlplane.kinds.drain import DRAIN, FINISHED, PAUSED, RUNNING, STOPPED, Drain, Remaining
from controlplane.kinds.home import departed
from controlplane.kinds.maintenance_window import MaintenanceWindow
from controlplane.kinds.rows import Eviction, FleetState, Promise
from controlplane.meta import Ref, to_seconds
from controlplane.names import UNSCHEDULABLE_TAINT
from controlplane.readiness import Rehearsal, Situation
from controlplane.settings import Settings
from controlplane.state import State, Watch

REASON = "Drain"
PAGE = 1000
SHOWN = 10
LOOK = timedelta(seconds=5)
EVER = datetime.max.replace(tzinfo=UTC)


class Draining(msgspec.Struct, frozen=True):
    """A drain, what is on its cluster, and what is true of the fleet."""

    subject: Drain
    cluster: Cluster | None
    bindings: tuple[Binding, ...]
    clusters: tuple[Cluster, ...]
    heads: tuple[Eviction, ...]  # the next failure evictions
    fleet: FleetState
    holds: Holds
    windows: tuple[MaintenanceWindow, ...]  # they keep clusters out of the fleet's health, and no drain waiting
    promises: tuple[Promise, ...]


class Drains(Controller):
    """Key: a Drain."""

    name = "drains"
    group = "scheduling"
    keys = (DRAIN,)
    watches = (Watch(DRAIN, lambda old, new: () if new is None or (old and old.spec == new.spec) else (new.ref,)),)
    owns = Ownership(
        {
            DRAIN: ("status",),
            CLUSTER: ("spec.taints",),
            **dict.fromkeys(BINDINGS, ("spec.clusters", "spec.graceful_eviction_tasks", "metadata.annotations")),
        }
    )
    batch = 10  # each reads as much as PAGE bindings

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Draining | None]:
        found: dict[Ref, Drain] = state.get(refs)
        clusters = tuple(state.list(CLUSTER))
        known = {one.metadata.name: one for one in clusters}
        promised = state.rows(Promise, "cluster", list(known)).values()
        promises = tuple(row for rows in promised for row in rows)
        heads, fleet = tuple(state.queue_heads(due_by=EVER, limit=1)), fleet_state(state)
        placed = _placed(state, {one.spec.cluster for one in found.values()})
        holds, windows = Holds(tuple(state.list(EVICTION_HOLD))), tuple(state.list(MAINTENANCE_WINDOW))
        if holds.needs_labels():
            labels = workload_labels(state, (one for on in placed.values() for one in on))
            holds = msgspec.structs.replace(holds, labels=labels)
        return [
            None
            if (drain := found.get(ref)) is None
            else Draining(
                drain,
                known.get(drain.spec.cluster),
                placed[drain.spec.cluster],
                clusters,
                heads,
                fleet,
                holds,
                windows,
                promises,
            )
            for ref in refs
        ]

    def decide(self, snapshot: Draining, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        drain, cluster = snapshot.subject, snapshot.cluster
        if drain.metadata.deletion_timestamp is not None or drain.status.phase == FINISHED:
            return NOTHING
        name = drain.spec.cluster
        staying = [one for one in snapshot.bindings if one.spec.target(name) is not None]
        going = [one for one in snapshot.bindings if one.spec.task(name) is not None]
        counts = {"leaving": len(going), "remaining": len(staying)}
        if cluster is None:
            return _said(drain, FINISHED, f"cluster {name} is gone", now=now, **counts)
        if drain.spec.stop:
            return _said(drain, STOPPED, "spec.stop is set", now=now, **counts)
        if not staying and not going:
            return _said(drain, FINISHED, f"nothing is left on cluster {name}", now=now, **counts)
        if not any(taint.key == UNSCHEDULABLE_TAINT for taint in cluster.spec.taints):
            return _cordoned(cluster, now=now)
        paused = _paused(snapshot, settings, now=now)
        if paused:
            return _said(drain, PAUSED, paused, now=now, tokens=0.0, counted_at=now, **counts)
        return _moving(snapshot, cluster, staying, len(going), settings, now=now)


def _placed(state: State, clusters: Collection[str]) -> dict[str, tuple[Binding, ...]]:
    """Return by cluster the first bindings placed on it or leaving it."""
    found = [state.by_index(kind, "placed", clusters, limit=PAGE) for kind in BINDINGS]
    return {name: tuple(one for of in found for one in of.get(name, ()))[:PAGE] for name in clusters}


def _cordoned(cluster: Cluster, *, now: datetime) -> Decision:
    """Return the cluster with kubectl cordon's taint: nothing may come while everything goes."""
    taint = Taint(UNSCHEDULABLE_TAINT, NO_SCHEDULE, time_added=to_seconds(now))
    new = cluster.with_spec(taints=(*cluster.spec.taints, taint))
    return Decision(changes=(Put(new, cluster),), wake_at=now, reason=REASON)


def _paused(snapshot: Draining, settings: Settings, *, now: datetime) -> str:
    """Return what a drain gives way to; "" where nothing."""
    if any(row.due_at is not None and row.due_at <= now for row in snapshot.heads):
        return "evictions from failed clusters are due: they go first"
    maintained = Holds(windows=snapshot.windows).maintained(now=now)
    tier = health.in_force(health.fleet_health(snapshot.clusters, maintained=maintained), snapshot.fleet, settings)
    return "" if tier.name == health.NORMAL else f"the fleet is not well: {tier.why}"


def _moving(
    snapshot: Draining, cluster: Cluster, staying: Sequence[Binding], going: int, settings: Settings, *, now: datetime
) -> Decision:
    """Let as many bindings leave as the drain's own bucket has tokens for."""
    drain, name = snapshot.subject, snapshot.subject.spec.cluster
    status = drain.status
    known = (
        None
        if status.counted_at is None
        else rate.Bucket(status.tokens, drain.spec.rate, status.counted_at.timestamp())
    )
    room = rate.take(known, 0, rate=drain.spec.rate, at=now.timestamp()).bucket.tokens
    rehearsal = Rehearsal(Situation(snapshot.clusters, promises=snapshot.promises), settings, now=now)
    riders, blocked = list[Decision](), list[Remaining]()
    for binding in staying:
        if len(riders) >= int(room + 1e-9):
            break
        why = _obstacle(binding, cluster, snapshot.holds, now=now)
        if not why:
            place = refuge(binding, {name}, rehearsal.without(binding, name), settings, source_ready=True)
            why = "" if place.found else place.why
        if why:
            blocked.append(Remaining(str(binding.ref), why))
        else:
            riders.append(_left(binding, cluster, drain, settings, now=now))
    taken = rate.take(known, len(riders), rate=drain.spec.rate, at=now.timestamp())
    looked = len(riders) + len(blocked) >= len(staying)
    said = _said(
        drain,
        RUNNING,
        f"{len(blocked)} bindings cannot leave" if blocked else "",
        now=now,
        moved=status.moved + len(riders),
        leaving=going + len(riders),
        remaining=len(staying) - len(riders),
        cannot_leave=tuple(blocked[:SHOWN]) if blocked or looked else status.cannot_leave,
        tokens=taken.bucket.tokens,
        counted_at=now,
    )
    wait = LOOK if looked else timedelta(seconds=max(taken.next_in, 0.001))
    return msgspec.structs.replace(said, riders=tuple(riders), wake_at=now + wait)


def _obstacle(binding: Binding, cluster: Cluster, holds: Holds, *, now: datetime) -> str:
    if binding.spec.placement is None:
        return "it has no placement: nothing says where else it may run"
    row = Eviction("", str(binding.ref), cluster.metadata.name)
    return holds.why(row, binding, cluster, now=now)[1]


def _left(binding: Binding, cluster: Cluster, drain: Drain, settings: Settings, *, now: datetime) -> Decision:
    name = cluster.metadata.name
    message = f"Drain {drain.metadata.name}: {drain.spec.reason or 'the cluster is to be emptied'}"
    new = leaving(
        binding,
        name,
        mode=purge_mode(binding, settings),
        reason=REASON,
        producer=f"Drain/{drain.metadata.name}",
        message=message,
        now=now,
    )
    abouts = (binding, template_of(binding))
    events = tuple(Event(one, "EvictWorkloadFromClusterSucceed", f"leaves cluster {name}: {message}") for one in abouts)
    guard = Guard(cluster.ref, cluster.metadata.generation)
    new = departed(new, binding, now=now)
    return Decision(changes=(Put(new, binding),), events=events, guards=(guard,), reason=REASON)


def _said(drain: Drain, phase: str, message: str, *, now: datetime, **fields: Any) -> Decision:
    """Return the drain with its progress; what is over is not looked at again."""
    finished = to_seconds(now) if phase == FINISHED else None
    new = drain.with_status(phase=phase, message=message, finish_time=finished, **fields)
    events: Iterable[Event] = ()
    if phase != drain.status.phase:
        events = (Event(drain, f"Drain{phase}", message or f"cluster {drain.spec.cluster} is being emptied"),)
    return Decision(
        changes=(Put(new, drain),) if new is not drain else (),
        events=tuple(events),
        wake_at=None if phase in (FINISHED, STOPPED) else now + LOOK,
        reason=REASON,
    )
