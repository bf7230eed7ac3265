"""Drains: moves all bindings away from a cluster at a rate of its own, on request [unjoin-and-drain].

A Drain works in rounds over the bindings on the cluster, page by page. It pauses while evictions from failed clusters
are due or while the eviction tier is not Normal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref, to_seconds
from controlplane.apimachinery.names import UNSCHEDULABLE_TAINT
from controlplane.controllers.reads import paging
from controlplane.controllers.reads.fleet_state import fleet_state, reason_to_pause
from controlplane.controllers.reads.queued_bindings import queued_bindings
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Event, Guard, Put, Save
from controlplane.engine.state import ReservedCapacity, State, Watch
from controlplane.eviction import rate
from controlplane.eviction.drain_refuge import drain_refuge
from controlplane.eviction.eligibility import has_finished
from controlplane.eviction.holds import Holds
from controlplane.eviction.purge import purge_mode, with_task
from controlplane.eviction.refuge import Reservation
from controlplane.insight.failure_outlook import Situation, dry_run_of
from controlplane.kinds import BINDINGS, CLUSTER, EVICTION_HOLD, MAINTENANCE_WINDOW
from controlplane.kinds.binding import DRAINED, Binding
from controlplane.kinds.binding.origin import with_departures
from controlplane.kinds.cluster import NO_SCHEDULE, Cluster, Taint
from controlplane.kinds.drain import DRAIN, FINISHED, PAUSED, RUNNING, STOPPED, Drain, Remaining
from controlplane.kinds.rows import CapacityReservation, FleetState, PlacementHint
from controlplane.propagation.bindings import template_of
from controlplane.scheduling.ledger import RESERVATION_EXPIRY
from controlplane.scheduling.question import Groups
from controlplane.scheduling.reserved_refuge import hinted
from controlplane.settings import Settings

REASON = DRAINED
PAGE = 200  # bindings read at once; each that leaves writes a binding and two Events, and a transaction takes about 400
SHOWN = 10  # entries of status.cannotLeave
CHECK_EVERY = timedelta(seconds=5)


class DrainSnapshot(msgspec.Struct, frozen=True):
    """A Drain, the bindings on its cluster that it checks next, and the state of the fleet."""

    subject: Drain
    page: tuple[Ref, ...]
    bindings: Mapping[Ref, Binding]  # those of the page
    not_evicted: int  # number of bindings in status.departing that are still on the cluster
    placed: int  # number of bindings on the cluster, those that are leaving it included
    leaving: int  # number of bindings that are leaving the cluster
    clusters: Mapping[str, Cluster]
    next_eviction: datetime | None  # due time of the first queued eviction; None: the queue is empty
    fleet: FleetState
    holds: Holds  # clusters in a MaintenanceWindow do not count as faulty; a window does not hold a Drain
    reserved_capacity: ReservedCapacity
    applications: Mapping[str, Sequence[Binding]]  # by application: the bindings that are parts of it
    groups: Groups  # the workload affinity groups of these bindings
    unread: Mapping[Ref, str]  # by binding that cannot be read: why


class Departure(NamedTuple):
    """A binding that leaves the cluster."""

    binding: Binding
    reserved: Reservation  # the capacity it will need elsewhere
    state: dict[str, str]  # labels for the new copy [state-preservation]


class DrainFindings(NamedTuple):
    """What was found in one page."""

    departures: tuple[Departure, ...]
    staying: tuple[Remaining, ...]
    finished: int  # copies that stay because they have finished
    after: str  # the last binding that was checked; "": the round is over
    more: bool  # further bindings of the page wait for a token


class Drains(Controller):
    """Key: a Drain. Writes its status, the taint of its cluster and the bindings that leave the cluster."""

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
        rows=(CapacityReservation, PlacementHint),
    )
    batch = 1  # each Drain reads a page of bindings

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[DrainSnapshot | None]:
        found: dict[Ref, Drain] = state.get(refs)
        return [self._snapshot(state, found[ref]) if ref in found else None for ref in refs]

    def _snapshot(self, state: State, drain: Drain) -> DrainSnapshot:
        name = drain.spec.cluster
        page = paging.next_bindings(state, "placed", name, after=drain.status.after, limit=PAGE)
        departing = tuple(map(Ref.parse, drain.status.departing))
        holds = Holds(tuple(state.list(EVICTION_HOLD)), tuple(state.list(MAINTENANCE_WINDOW)))
        read = queued_bindings(state, list(dict.fromkeys((*page, *departing))), with_labels=holds.needs_labels())
        found = read.bindings
        bindings = {ref: found[ref] for ref in page if ref in found}
        return DrainSnapshot(
            drain,
            page,
            bindings,
            sum(ref in found and found[ref].spec.target(name) is not None for ref in departing),
            paging.count_bindings(state, "placed", name),
            paging.count_bindings(state, "leaving", name),
            {cluster.metadata.name: cluster for cluster in state.list(CLUSTER)},
            state.next_eviction(),
            fleet_state(state),
            replace(holds, labels=read.labels),
            state.reserved_capacity(within=RESERVATION_EXPIRY),
            read.applications,
            read.groups,
            read.unread,
        )

    def decide(self, snapshot: DrainSnapshot, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        drain, status = snapshot.subject, snapshot.subject.status
        if drain.metadata.deletion_timestamp is not None or status.phase == FINISHED:
            return NOTHING
        name, cluster = drain.spec.cluster, snapshot.clusters.get(drain.spec.cluster)
        counts = {
            "moved": status.moved - snapshot.not_evicted,
            "departing": (),
            "leaving": snapshot.leaving,
            "remaining": snapshot.placed - snapshot.leaving,
        }
        if cluster is None:
            return _with_phase(drain, FINISHED, f"cluster {name} does not exist any more", now=now, **counts)
        if drain.spec.stop:
            return _with_phase(drain, STOPPED, "spec.stop is set", now=now, after="", **counts)
        if cluster.unreadable:
            return _with_phase(drain, PAUSED, cluster.unreadable, now=now, tokens=0.0, counted_at=now, **counts)
        if not any(taint.key == UNSCHEDULABLE_TAINT for taint in cluster.spec.taints):
            return _cordon(cluster, now=now)
        if not snapshot.placed:
            return _with_phase(drain, FINISHED, _over(name), now=now, cannot_leave=(), blocked=0, **counts)
        pause = _pause_reason(snapshot, settings, now=now)
        if pause:
            return _with_phase(drain, PAUSED, pause, now=now, tokens=0.0, counted_at=now, **counts)
        return _move_next(snapshot, cluster, settings, now=now)


def _over(cluster: str, finished: int = 0) -> str:
    """Return the message of a Drain that is over. `finished`: the copies that stay because they have finished."""
    left = f"nothing is left on cluster {cluster}"
    if finished:
        left = f"nothing but {finished} copies that have finished, and would run a second time, is left on {cluster}"
    return (
        f"{left}; it stays cordoned. To return what left it: "
        f"kubectl lifeboat uncordon {cluster}, then kubectl lifeboat failback {cluster}"
    )


def _cordon(cluster: Cluster, *, now: datetime) -> Decision:
    """Add the taint of `kubectl cordon` to the cluster, so that nothing is scheduled to it while it is emptied."""
    taint = Taint(UNSCHEDULABLE_TAINT, NO_SCHEDULE, time_added=to_seconds(now))
    new = cluster.with_spec(taints=(*cluster.spec.taints, taint))
    return Decision(changes=(Put(new, cluster),), wake_at=now, reason=REASON)


def _pause_reason(snapshot: DrainSnapshot, settings: Settings, *, now: datetime) -> str:
    return reason_to_pause(
        snapshot.clusters.values(), snapshot.fleet, snapshot.holds, snapshot.next_eviction, settings, now=now
    )


def _move_next(snapshot: DrainSnapshot, cluster: Cluster, settings: Settings, *, now: datetime) -> Decision:
    """Let the next bindings leave: as many as the bucket of the Drain has tokens for."""
    drain, status, rate_ = snapshot.subject, snapshot.subject.status, snapshot.subject.spec.rate
    bucket = None if status.counted_at is None else rate.Bucket(status.tokens, rate_, status.counted_at.timestamp())
    tokens = rate.take_tokens(bucket, 0, rate=rate_, at=now.timestamp()).bucket.tokens
    found = _check_page(snapshot, cluster, settings, most=int(tokens + 1e-9), now=now)
    taken = rate.take_tokens(bucket, len(found.departures), rate=rate_, at=now.timestamp())
    round_goes_on = bool(status.after)  # what earlier pages of the round have found counts
    blocked = (status.blocked if round_goes_on else 0) + len(found.staying)
    finished = (status.finished if round_goes_on else 0) + found.finished
    is_over = finished == snapshot.placed and not snapshot.leaving
    running = f"{blocked} bindings cannot leave: see status.cannotLeave" if blocked else ""
    decision = _with_phase(
        drain,
        FINISHED if is_over else RUNNING,
        _over(cluster.metadata.name, finished) if is_over else running,
        now=now,
        moved=status.moved - snapshot.not_evicted + len(found.departures),
        departing=tuple(str(departure.binding.ref) for departure in found.departures),
        leaving=snapshot.leaving + len(found.departures),
        remaining=snapshot.placed - snapshot.leaving - len(found.departures),
        cannot_leave=(*(status.cannot_leave if round_goes_on else ()), *found.staying)[:SHOWN],
        blocked=blocked,
        finished=finished,
        after=found.after,
        tokens=taken.bucket.tokens,
        counted_at=now,
    )
    if is_over:
        return decision
    if found.more:
        wait = max(rate.retry_delay(taken.next_in), rate.SHORTEST_PAUSE)
    else:  # The next page follows at once. The more bindings stay, the later the next round begins.
        wait = timedelta(0) if found.after else CHECK_EVERY * (1 + (blocked + finished) // PAGE)
    guards = (Guard(drain.ref, drain.metadata.generation), *snapshot.holds.guards())
    writes = tuple(_leave(each, cluster, drain, settings, guards=guards, now=now) for each in found.departures)
    return replace(decision, separate_decisions=writes, guards=guards if writes else (), wake_at=now + wait)


def _check_page(
    snapshot: DrainSnapshot, cluster: Cluster, settings: Settings, *, most: int, now: datetime
) -> DrainFindings:
    """Find a refuge for the bindings of the page, until `most` of them have one.

    Each refuge is reserved before the next binding is checked.
    """
    name = cluster.metadata.name
    clusters, parts = tuple(snapshot.clusters.values()), snapshot.applications
    situation = Situation(
        clusters, reserved_capacity=snapshot.reserved_capacity, applications=parts, groups=snapshot.groups
    )
    dry_run = dry_run_of(situation, settings)
    departures, staying, finished, last = list[Departure](), list[Remaining](), 0, snapshot.subject.status.after
    for ref in snapshot.page:
        if ref in snapshot.unread:
            staying.append(Remaining(str(ref), snapshot.unread[ref]))
        binding = snapshot.bindings.get(ref)
        placed = binding is not None and binding.spec.target(name) is not None
        if binding is not None and placed and has_finished(binding, name):
            finished += 1
        elif binding is not None and placed:
            if len(departures) >= most:
                return DrainFindings(tuple(departures), tuple(staying), finished, last, more=True)
            refuge, state = drain_refuge(
                binding, cluster, dry_run, snapshot.holds, settings, clusters=snapshot.clusters, now=now
            )
            if refuge.found:
                departures.append(Departure(binding, dry_run.reserve(binding, refuge, now=now), state.labels))
            else:
                staying.append(Remaining(str(ref), refuge.why))
        last = str(ref)
    return DrainFindings(
        tuple(departures), tuple(staying), finished, last if len(snapshot.page) >= PAGE else "", more=False
    )


def _leave(
    departure: Departure, cluster: Cluster, drain: Drain, settings: Settings, *, guards: Iterable[Guard], now: datetime
) -> Decision:
    """Return the write of one binding that leaves the cluster.

    It is stored only if the cluster, the Drain and all holds are still as they were read.
    """
    binding, name = departure.binding, cluster.metadata.name
    message = f"Drain {drain.metadata.name}: {drain.spec.reason or 'the cluster is drained'}"
    new = with_task(
        binding,
        name,
        mode=purge_mode(binding, settings),
        reason=REASON,
        producer=f"Drain/{drain.metadata.name}",
        message=message,
        preserved=departure.state,
        now=now,
    )
    abouts = (binding, template_of(binding))
    events = tuple(
        Event(about, "EvictWorkloadFromClusterSucceed", f"leaves cluster {name}: {message}") for about in abouts
    )
    guards = (Guard(cluster.ref, cluster.metadata.generation), *guards)
    new = with_departures(new, binding, now=now)
    reserved = departure.reserved
    rows = (*map(Save, reserved.reservations), *hinted(new, reserved.steered_to))
    return Decision(
        changes=(Put(new, binding), *rows),
        events=events,
        guards=guards,
        capacity_guards=reserved.capacity_guards,
        reason=REASON,
    )


def _with_phase(drain: Drain, phase: str, message: str, *, now: datetime, **fields: Any) -> Decision:
    """Return the write of a Drain with its progress, and when to look again.

    `wake_at` None: the Drain is finished, or it is stopped and no binding is leaving.
    """
    finished = to_seconds(now) if phase == FINISHED else None
    new = drain.with_status(phase=phase, message=message, finish_time=finished, **fields)
    events: Iterable[Event] = ()
    if phase != drain.status.phase:
        events = (Event(drain, f"Drain{phase}", message or f"cluster {drain.spec.cluster} is drained"),)
    return Decision(
        changes=(Put(new, drain),) if new is not drain else (),
        events=tuple(events),
        wake_at=None if phase == FINISHED or (phase == STOPPED and not new.status.leaving) else now + CHECK_EVERY,
        reason=REASON,
    )
