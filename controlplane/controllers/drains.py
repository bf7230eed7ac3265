"""Drains: empties clusters on request, one binding after the other, while nothing worse is going on (D20)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref, to_seconds
from controlplane.apimachinery.names import UNSCHEDULABLE_TAINT
from controlplane.controllers.reads import paging
from controlplane.controllers.reads.applications import applications, workload_groups
from controlplane.controllers.reads.fleet_state import fleet_state, reason_to_pause
from controlplane.controllers.reads.workload_labels import workload_labels
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Event, Guard, Put, Save
from controlplane.engine.state import ReservedCapacity, State, Watch
from controlplane.eviction import rate
from controlplane.eviction.holds import Holds
from controlplane.eviction.purge import purge_mode, with_task
from controlplane.eviction.refuge import DryRunResult, Reservation, refuge_from
from controlplane.eviction.state_preservation import PreservedState, missing_state_reason, preserved_state
from controlplane.insight.readiness import Situation, dry_run_of
from controlplane.kinds import BINDINGS, CLUSTER, EVICTION_HOLD, MAINTENANCE_WINDOW
from controlplane.kinds.binding import Binding
from controlplane.kinds.binding.origin import departed
from controlplane.kinds.cluster import NO_SCHEDULE, Cluster, Taint
from controlplane.kinds.drain import DRAIN, FINISHED, PAUSED, RUNNING, STOPPED, Drain, Remaining
from controlplane.kinds.rows import Eviction, FleetState, Promise
from controlplane.propagation.bindings import template_of
from controlplane.scheduling.ledger import PROMISE_ENDS_AFTER
from controlplane.scheduling.question import Groups
from controlplane.settings import Settings

REASON = "Drain"
PAGE = 200  # one look writes a binding and two Events for each, at most; a transaction takes about 600 objects
SHOWN = 10
LOOK = timedelta(seconds=5)


class Draining(msgspec.Struct, frozen=True):
    """A drain, the next of what is on its cluster, and what is true of the fleet."""

    subject: Drain
    page: tuple[Ref, ...]
    bindings: Mapping[Ref, Binding]  # of the page
    placed: int  # bindings on the cluster or leaving it
    leaving: int  # of those
    clusters: Mapping[str, Cluster]
    next_eviction: datetime | None  # when the next of a failed cluster is due
    fleet: FleetState
    holds: Holds  # windows keep clusters out of the fleet's health, and no drain waiting
    promised: ReservedCapacity
    applications: Mapping[str, Sequence[Binding]]  # the parts of those that these bindings are parts of
    groups: Groups  # the workload affinity groups these bindings are in


class Going(NamedTuple):
    """A binding that leaves, the room it will need, and the state it takes along (D15)."""

    binding: Binding
    reserved: Reservation
    state: dict[str, str]


class Looked(NamedTuple):
    """What one look comes to. `after`: how far the page was looked through, "" the round is over; `more`: others of it
    wait for a token."""

    going: tuple[Going, ...]
    staying: tuple[Remaining, ...]
    after: str
    more: bool


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
        },
        rows=(Promise,),
    )
    batch = 1  # each reads a page of its own

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Draining | None]:
        found: dict[Ref, Drain] = state.get(refs)
        return [self._one(state, found[ref]) if ref in found else None for ref in refs]

    def _one(self, state: State, drain: Drain) -> Draining:
        name = drain.spec.cluster
        page = paging.page(state, "placed", name, after=drain.status.after, limit=PAGE)
        bindings: dict[Ref, Binding] = state.get(page)
        holds = Holds(tuple(state.list(EVICTION_HOLD)), tuple(state.list(MAINTENANCE_WINDOW)))
        if holds.needs_labels():
            holds = replace(holds, labels=workload_labels(state, bindings.values()))
        return Draining(
            drain,
            page,
            bindings,
            paging.count(state, "placed", name),
            paging.count(state, "leaving", name),
            {one.metadata.name: one for one in state.list(CLUSTER)},
            state.next_eviction(),
            fleet_state(state),
            holds,
            state.reserved_capacity(within=PROMISE_ENDS_AFTER),
            applications(state, bindings.values()),
            workload_groups(state, bindings.values()),
        )

    def decide(self, snapshot: Draining, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        drain, status = snapshot.subject, snapshot.subject.status
        if drain.metadata.deletion_timestamp is not None or status.phase == FINISHED:
            return NOTHING
        name, cluster = drain.spec.cluster, snapshot.clusters.get(drain.spec.cluster)
        counts = {"leaving": snapshot.leaving, "remaining": snapshot.placed - snapshot.leaving}
        if cluster is None:
            return _said(drain, FINISHED, f"cluster {name} is gone", now=now, **counts)
        if drain.spec.stop:
            return _said(drain, STOPPED, "spec.stop is set", now=now, after="", **counts)
        if not any(taint.key == UNSCHEDULABLE_TAINT for taint in cluster.spec.taints):
            return _cordoned(cluster, now=now)
        if not snapshot.placed:
            message = f"nothing is left on cluster {name}"
            return _said(drain, FINISHED, message, now=now, cannot_leave=(), blocked=0, **counts)
        paused = _pause_reason(snapshot, settings, now=now)
        if paused:
            return _said(drain, PAUSED, paused, now=now, tokens=0.0, counted_at=now, **counts)
        return _moving(snapshot, cluster, settings, now=now)


def _cordoned(cluster: Cluster, *, now: datetime) -> Decision:
    """Return the cluster with kubectl cordon's taint: nothing may come while everything goes."""
    taint = Taint(UNSCHEDULABLE_TAINT, NO_SCHEDULE, time_added=to_seconds(now))
    new = cluster.with_spec(taints=(*cluster.spec.taints, taint))
    return Decision(changes=(Put(new, cluster),), wake_at=now, reason=REASON)


def _pause_reason(snapshot: Draining, settings: Settings, *, now: datetime) -> str:
    return reason_to_pause(
        snapshot.clusters.values(), snapshot.fleet, snapshot.holds, snapshot.next_eviction, settings, now=now
    )


def _moving(snapshot: Draining, cluster: Cluster, settings: Settings, *, now: datetime) -> Decision:
    """Let as many bindings leave as the drain's own bucket has tokens for."""
    drain, status, rate_ = snapshot.subject, snapshot.subject.status, snapshot.subject.spec.rate
    known = None if status.counted_at is None else rate.Bucket(status.tokens, rate_, status.counted_at.timestamp())
    room = rate.take_tokens(known, 0, rate=rate_, at=now.timestamp()).bucket.tokens
    found = _looked(snapshot, cluster, settings, most=int(room + 1e-9), now=now)
    taken = rate.take_tokens(known, len(found.going), rate=rate_, at=now.timestamp())
    amid = bool(status.after)  # a round goes on: what it has found before counts
    blocked = (status.blocked if amid else 0) + len(found.staying)
    said = _said(
        drain,
        RUNNING,
        f"{blocked} bindings cannot leave: see status.cannotLeave" if blocked else "",
        now=now,
        moved=status.moved + len(found.going),
        leaving=snapshot.leaving + len(found.going),
        remaining=snapshot.placed - snapshot.leaving - len(found.going),
        cannot_leave=(*(status.cannot_leave if amid else ()), *found.staying)[:SHOWN],
        blocked=blocked,
        after=found.after,
        tokens=taken.bucket.tokens,
        counted_at=now,
    )
    if found.more:
        wait = max(rate.retry_delay(taken.next_in), rate.SHORTEST_PAUSE)
    else:  # the next page at once; a round that is over has looked at so many in vain, and gives others time
        wait = timedelta(0) if found.after else LOOK * (1 + blocked // PAGE)
    guards = (Guard(drain.ref, drain.metadata.generation), *snapshot.holds.guards())
    riders = tuple(_left(one, cluster, drain, settings, guards=guards, now=now) for one in found.going)
    return replace(said, separate_decisions=riders, guards=guards if riders else (), wake_at=now + wait)


def _looked(snapshot: Draining, cluster: Cluster, settings: Settings, *, most: int, now: datetime) -> Looked:
    """Look through the page until so many have a place to go to; each of them takes its room before the next is asked
    about."""
    name = cluster.metadata.name
    clusters, parts = tuple(snapshot.clusters.values()), snapshot.applications
    situation = Situation(clusters, promised=snapshot.promised, applications=parts, groups=snapshot.groups)
    rehearsal = dry_run_of(situation, settings)
    going, staying, last = list[Going](), list[Remaining](), snapshot.subject.status.after
    for ref in snapshot.page:
        binding = snapshot.bindings.get(ref)
        if binding is not None and binding.spec.target(name) is not None:
            if len(going) >= most:
                return Looked(tuple(going), tuple(staying), last, more=True)
            state = preserved_state(binding, name, settings)
            why = _obstacle(binding, cluster, state, snapshot.holds, settings, now=now)
            answer = DryRunResult(refused=why) if why else rehearsal.without(binding, {name})
            place = refuge_from(binding, {name}, answer, settings, source_ready=True)
            if place.found:
                going.append(Going(binding, rehearsal.taken(binding, place, now=now), state.labels))
            else:
                staying.append(Remaining(str(ref), place.why))
        last = str(ref)
    return Looked(tuple(going), tuple(staying), last if len(snapshot.page) >= PAGE else "", more=False)


def _obstacle(
    binding: Binding, cluster: Cluster, state: PreservedState, holds: Holds, settings: Settings, *, now: datetime
) -> str:
    if binding.spec.placement is None:
        return "it has no placement: nothing says where else it may run"
    if lacking := missing_state_reason(state, cluster.metadata.name, settings):
        return lacking
    row = Eviction("", str(binding.ref), cluster.metadata.name)
    return holds.why(row, binding, cluster, now=now)[1]


def _left(
    going: Going, cluster: Cluster, drain: Drain, settings: Settings, *, guards: Iterable[Guard], now: datetime
) -> Decision:
    """Return the write of one that leaves: while its cluster is what it was, and nobody stops or holds it."""
    binding, name = going.binding, cluster.metadata.name
    message = f"Drain {drain.metadata.name}: {drain.spec.reason or 'the cluster is to be emptied'}"
    new = with_task(
        binding,
        name,
        mode=purge_mode(binding, settings),
        reason=REASON,
        producer=f"Drain/{drain.metadata.name}",
        message=message,
        preserved=going.state,
        now=now,
    )
    abouts = (binding, template_of(binding))
    events = tuple(Event(one, "EvictWorkloadFromClusterSucceed", f"leaves cluster {name}: {message}") for one in abouts)
    stands = (Guard(cluster.ref, cluster.metadata.generation), *guards)
    new = departed(new, binding, now=now)
    rows, rooms = map(Save, going.reserved.promises), going.reserved.rooms
    return Decision(
        changes=(Put(new, binding), *rows), events=events, guards=stands, capacity_guards=rooms, reason=REASON
    )


def _said(drain: Drain, phase: str, message: str, *, now: datetime, **fields: Any) -> Decision:
    """Return the drain with its progress; what is over, or stopped with nothing on its way, is not looked at again."""
    finished = to_seconds(now) if phase == FINISHED else None
    new = drain.with_status(phase=phase, message=message, finish_time=finished, **fields)
    events: Iterable[Event] = ()
    if phase != drain.status.phase:
        events = (Event(drain, f"Drain{phase}", message or f"cluster {drain.spec.cluster} is being emptied"),)
    return Decision(
        changes=(Put(new, drain),) if new is not drain else (),
        events=tuple(events),
        wake_at=None if phase == FINISHED or (phase == STOPPED and not new.status.leaving) else now + LOOK,
        reason=REASON,
    )
