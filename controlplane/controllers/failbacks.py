"""Failbacks: moves bindings back to the clusters they were evicted from, until the first failure [recovered-clusters].

A Failback works in rounds. A round reads the bindings that have left a cluster page by page, in the order of their
names. It moves as many back as its rate and its limit of simultaneous moves allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, Ref, condition, to_seconds, with_condition
from controlplane.apimachinery.selectors import matches
from controlplane.clusters import health
from controlplane.controllers.reads import paging
from controlplane.controllers.reads.fleet_state import fleet_and_workers, observations_of, reason_to_pause
from controlplane.controllers.reads.namespace_quotas import NO_QUOTAS, NamespaceQuotas, Room, namespace_quotas
from controlplane.controllers.reads.queued_bindings import queued_bindings
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Event, Guard, Put, QuotaGuard, Save
from controlplane.engine.state import ReservedCapacity, State, Watch
from controlplane.eviction import failback, graceful, rate
from controlplane.eviction.holds import Holds
from controlplane.kinds import BINDINGS, CLUSTER, EVICTION_HOLD, MAINTENANCE_WINDOW
from controlplane.kinds.binding import FAILED_BACK, Binding, GracefulEvictionTask, origin
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.failback import (
    COMPLETE,
    FAILBACK,
    FAILED,
    FINISHED,
    PAUSED,
    PLANNED,
    RUNNING,
    STOPPED,
    Failback,
    Planned,
    Returning,
    Staying,
)
from controlplane.kinds.federated_quota import ENFORCEMENT_GATE
from controlplane.kinds.rows import CapacityReservation, FleetState, Observation
from controlplane.propagation.bindings import template_of
from controlplane.scheduling.ledger import RESERVATION_EXPIRY
from controlplane.settings import Settings

PAGE = 500  # bindings read at once
SHOWN = 10  # entries of status.cannotReturn
PLANS_SHOWN = 100  # entries of status.planned
CHECK_EVERY = timedelta(seconds=5)
UNSTORED = "its return was not stored, because something that it rests on changed meanwhile; it is made again"


class FailbackSnapshot(msgspec.Struct, frozen=True):
    """A Failback, the bindings it may move next, those on their way back, and the state of the fleet."""

    subject: Failback
    page: tuple[Ref, ...]
    bindings: Mapping[Ref, Binding]  # those of the page and those on their way back
    labels: Mapping[Ref, dict[str, str]]  # of their workloads; empty if neither a selector nor a hold needs them
    clusters: dict[str, Cluster]
    next_eviction: datetime | None  # due time of the first queued eviction; None: the queue is empty
    fleet: FleetState
    workers: FleetState
    holds: Holds
    reserved_capacity: ReservedCapacity
    left_in_round: int  # bindings left in the present round, the page included
    quotas: NamespaceQuotas  # of the namespaces of these bindings
    unread: Mapping[Ref, str] = {}  # by binding that cannot be read: why
    observations: Mapping[str, Observation] = {}  # of the clusters that bindings are on their way back to


class FailbackFindings(NamedTuple):
    """What was found in one page: the plans to carry out and the bindings that cannot go back."""

    plans: tuple[tuple[Binding, failback.FailbackPlan], ...]
    staying: tuple[Staying, ...]
    after: str  # the last binding that was checked; "": the round is over
    unchecked: int  # bindings of the page that were not checked, because no more may move now


class Moves(NamedTuple):
    """What has become of the bindings on their way back: how many have arrived, those that have not, and the first
    failure.

    `unstored`: those whose move lost against another write. They are behind the present round: the next one moves them.
    A binding that a user took off the cluster meanwhile is in none of them.
    """

    arrived: int
    returning: tuple[Returning, ...]
    failed: Staying | None
    unstored: tuple[Staying, ...]


class Failbacks(Controller):
    """Key: a Failback. Writes its status and the bindings that it moves back."""

    name = "failbacks"
    group = "scheduling"
    keys = (FAILBACK,)
    watches = (Watch(FAILBACK, lambda old, new: () if new is None or (old and old.spec == new.spec) else (new.ref,)),)
    owns = Ownership(
        {
            FAILBACK: ("status",),
            **dict.fromkeys(
                BINDINGS,
                (
                    "spec.clusters",
                    "spec.graceful_eviction_tasks",
                    "metadata.annotations",
                    "status.scheduler_observed_affinity_name",
                ),
            ),
        },
        rows=(CapacityReservation,),
    )
    batch = 1  # each Failback reads a page of bindings

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[FailbackSnapshot | None]:
        found: dict[Ref, Failback] = state.get(refs)
        return [self._snapshot(state, found[ref]) if ref in found else None for ref in refs]

    def _snapshot(self, state: State, subject: Failback) -> FailbackSnapshot:
        clusters: dict[str, Cluster] = {cluster.metadata.name: cluster for cluster in state.list(CLUSTER)}
        page, left_in_round = _page(state, subject)
        returning = (Ref.parse(move.binding) for move in subject.status.returning)
        holds = Holds(tuple(state.list(EVICTION_HOLD)), tuple(state.list(MAINTENANCE_WINDOW)))
        with_labels = subject.spec.selector is not None or holds.needs_labels()
        read = queued_bindings(state, list(dict.fromkeys((*page, *returning))), with_labels=with_labels)
        return FailbackSnapshot(
            subject,
            page,
            read.bindings,
            read.labels,
            clusters,
            state.next_eviction(),
            *fleet_and_workers(state),
            replace(holds, labels=read.labels),
            state.reserved_capacity(within=RESERVATION_EXPIRY),
            left_in_round,
            namespace_quotas(state, read.bindings),
            read.unread,
            observations_of(state, sorted({move.cluster for move in subject.status.returning})),
        )

    def decide(self, snapshot: FailbackSnapshot, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        subject, status, spec = snapshot.subject, snapshot.subject.status, snapshot.subject.spec
        if subject.metadata.deletion_timestamp is not None or status.phase == FINISHED:
            return NOTHING
        if not spec.stop and (status.phase == FAILED or (status.phase == PLANNED and spec.dry_run)):
            return NOTHING
        moves = _check_returning(snapshot, settings, now=now)
        returning, failed, returned = moves.returning, moves.failed, status.returned + moves.arrived
        counts = {"returned": returned, "returning": returning}
        if spec.stop:
            return _with_phase(subject, STOPPED, "spec.stop is set", now=now, failed=None, after="", **counts)
        unfit = (
            failback.unfit_reason(snapshot.clusters.get(spec.cluster), spec.cluster, now=now) if spec.cluster else ""
        )
        if failed is None and unfit and (returned or returning):
            failed = Staying("", unfit, spec.cluster)
        if failed is not None:
            message = f"{failed.binding}: {failed.message}" if failed.binding else failed.message
            return _with_phase(subject, FAILED, message, now=now, failed=failed, **counts)
        if spec.dry_run:
            return _dry_run(snapshot, settings, returning, now=now)
        pause = unfit or _pause_reason(snapshot, settings, now=now)
        if pause:
            after = "" if moves.unstored else status.after
            return _with_phase(subject, PAUSED, pause, now=now, tokens=0.0, counted_at=now, after=after, **counts)
        return _move_next(snapshot, settings, returned, moves, now=now)


def _page(state: State, subject: Failback) -> tuple[tuple[Ref, ...], int]:
    """Return the next bindings that a Failback may move, in the order of their names, and how many its round has left.

    The number includes the page.
    """
    spec = subject.spec
    if spec.binding:
        return (failback.binding_ref(spec.binding),), 1
    value, after = spec.cluster or origin.ANY, "" if spec.dry_run else subject.status.after
    return paging.next_bindings(state, "left", value, after=after, limit=PAGE), paging.count_bindings(
        state, "left", value, after=after
    )


def _pause_reason(snapshot: FailbackSnapshot, settings: Settings, *, now: datetime) -> str:
    return reason_to_pause(
        snapshot.clusters.values(), snapshot.fleet, snapshot.holds, snapshot.next_eviction, settings, now=now
    )


def _check_returning(snapshot: FailbackSnapshot, settings: Settings, *, now: datetime) -> Moves:
    """Check the bindings on their way back. If a stopped Failback is resumed, the time limit of each starts again."""
    arrived, returning, failed, unstored = 0, list[Returning](), None, list[Staying]()
    resumed = snapshot.subject.status.phase == STOPPED and not snapshot.subject.spec.stop
    for recorded in snapshot.subject.status.returning:
        move = replace(recorded, since=to_seconds(now)) if resumed else recorded
        ref = Ref.parse(move.binding)
        if ref in snapshot.unread:
            returning.append(move)
            continue
        binding = snapshot.bindings.get(ref)
        if binding is None or binding.metadata.deletion_timestamp is not None:
            continue
        home = origin.origin_of(binding)
        left_at = None if home is None else home.left.get(move.cluster)
        if left_at is not None and left_at <= move.since:  # whole seconds
            if snapshot.subject.status.after:  # else the round begins now, and gets to it
                unstored.append(Staying(move.binding, UNSTORED, move.cluster))
            continue
        if left_at is None and binding.spec.target(move.cluster) is None:
            continue  # no failover took it away: a user has scaled, placed or edited the workload
        failure = _failure(binding, move, snapshot, settings, now=now)
        failed = failed or (Staying(move.binding, failure, move.cluster) if failure else None)
        if binding.spec.target(move.cluster) is None:
            continue
        if failure or _unhealthy_reason(binding, move, snapshot.clusters) or _failback_tasks(binding):
            returning.append(move)
        else:
            arrived += 1
    return Moves(arrived, tuple(returning), failed, tuple(unstored))


def _failure(
    binding: Binding, move: Returning, snapshot: FailbackSnapshot, settings: Settings, *, now: datetime
) -> str:
    """Return why the move of a binding back to a cluster has failed, "" if it has not [outage-of-our-own]."""
    clusters, observed = snapshot.clusters, snapshot.observations.get(move.cluster)
    if binding.spec.target(move.cluster) is None:
        return f"the binding has left cluster {move.cluster} again in a failover"
    unfit = failback.unfit_reason(clusters.get(move.cluster), move.cluster, require_ready_time=False, now=now)
    if unfit:
        return unfit
    limit = settings.graceful_eviction_timeout
    if now <= health.ends_observed(move.since, limit, observed, settings, workers=snapshot.workers, now=now):
        return ""
    unhealthy, tasks = _unhealthy_reason(binding, move, clusters), _failback_tasks(binding)
    if unhealthy:
        return f"after {limit:g} s the copy on {move.cluster} is not healthy: {unhealthy}"
    if not tasks:
        return ""
    sources = ", ".join(task.from_cluster for task in tasks)
    return (
        f"after {limit:g} s the old copy on {sources} cannot be removed: see the condition EvictionStuck of the binding"
    )


def _unhealthy_reason(binding: Binding, move: Returning, clusters: Mapping[str, Cluster]) -> str:
    """Return why the copy on the cluster that a binding goes back to does not count as healthy, "" if it does."""
    target = binding.spec.target(move.cluster)
    if target is None:
        return f"{move.cluster}: no copy is placed there"
    if not graceful.is_scheduled(binding):
        return "the scheduler has not processed the latest change of the binding"
    states = {
        name: graceful.ClusterState(cluster.ready == health.TRUE, evicting=False) for name, cluster in clusters.items()
    }
    return graceful.unhealthy_reason(binding, target, GracefulEvictionTask("", creation_timestamp=move.since), states)


def _failback_tasks(binding: Binding) -> tuple[GracefulEvictionTask, ...]:
    """Return the tasks of failbacks that are still to be done for a binding.

    Empty if the tasks only wait for workloads that depend on the binding: the binding itself is back then. It must not
    keep those workloads from their turn, and does not fail with them.
    """
    stuck = condition(binding.status.conditions, graceful.EVICTION_STUCK)
    if stuck is not None and stuck.reason == graceful.WAITING_WORKLOAD:
        return ()
    tasks = binding.spec.graceful_eviction_tasks
    return tuple(task for task in tasks if task.reason.startswith(FAILED_BACK) and task.creation_timestamp is not None)


def _move_next(
    snapshot: FailbackSnapshot, settings: Settings, returned: int, moves: Moves, *, now: datetime
) -> Decision:
    """Move the next bindings back: as many as the bucket has tokens for, and no more than spec.atOnce at a time."""
    subject, status, spec = snapshot.subject, snapshot.subject.status, snapshot.subject.spec
    bucket = None if status.counted_at is None else rate.Bucket(status.tokens, spec.rate, status.counted_at.timestamp())
    tokens = rate.take_tokens(bucket, 0, rate=spec.rate, at=now.timestamp()).bucket.tokens
    free = spec.at_once - len(moves.returning)
    found = _check_page(snapshot, settings, moves.returning, most=min(int(tokens + 1e-9), free), now=now)
    taken = rate.take_tokens(bucket, len(found.plans), rate=spec.rate, at=now.timestamp())
    checked = found.unchecked < len(snapshot.page) or not snapshot.page
    blocked_so_far = (status.blocked if status.after else 0) + len(moves.unstored) + len(found.staying)
    round_goes_on = bool(status.after) or not checked  # what earlier pages of the round have found counts
    staying = (*(status.cannot_return if round_goes_on else ()), *moves.unstored, *found.staying)
    blocked = blocked_so_far if checked else status.blocked + len(moves.unstored)
    started = tuple(Returning(str(binding.ref), plan.cluster, to_seconds(now)) for binding, plan in found.plans)
    returning = (*moves.returning, *started)
    progress = {"returned": returned, "returning": returning, "after": found.after, "blocked": blocked}
    if not found.after and not found.unchecked and not blocked and not returning:
        message = "all bindings are back"
        return _with_phase(subject, FINISHED, message, now=now, remaining=0, cannot_return=(), **progress)
    decision = _with_phase(
        subject,
        RUNNING,
        f"{blocked} bindings cannot go back: see status.cannotReturn" if blocked else "",
        now=now,
        remaining=blocked_so_far + snapshot.left_in_round - (len(snapshot.page) - found.unchecked),
        cannot_return=staying[:SHOWN],
        tokens=taken.bucket.tokens,
        counted_at=now,
        **progress,
    )
    wait = max(rate.retry_delay(taken.next_in), rate.SHORTEST_PAUSE)
    guards = (Guard(subject.ref, subject.metadata.generation), *snapshot.holds.guards()) if found.plans else ()
    room = (snapshot.quotas if settings.gate(ENFORCEMENT_GATE) else NO_QUOTAS).room()
    return replace(
        decision,
        guards=guards,
        separate_decisions=tuple(
            _move_back(binding, plan, snapshot, guards=guards, limits=room.guards(binding, plan.binding))
            for binding, plan in found.plans
        ),
        wake_at=_wake_at(found, 0 if returning else blocked, full=len(started) >= free, token=wait, now=now),
    )


def _wake_at(found: FailbackFindings, in_vain: int, *, full: bool, token: timedelta, now: datetime) -> datetime:
    """Return when to look again.

    `full`: spec.atOnce bindings are returning. `token`: the time until the next token. `in_vain`: bindings of
    a finished round that cannot go back. The more there are, the later the next round begins.
    """
    if full:
        return now + CHECK_EVERY
    if not (found.unchecked or found.after):
        return now + CHECK_EVERY * (1 + in_vain // PAGE)
    return now + token if found.unchecked else now


def _check_page(
    snapshot: FailbackSnapshot, settings: Settings, returning: Iterable[Returning], *, most: int, now: datetime
) -> FailbackFindings:
    """Plan the return of the bindings of the page, until `most` plans are made.

    `returning`: those that are on their way back now, as `_check_returning` found. A move that was not stored is not
    among them, and is planned again.
    """
    on_their_way = {move.binding for move in returning}
    planner = failback.FailbackPlanner(tuple(snapshot.clusters.values()), snapshot.reserved_capacity, settings, now=now)
    room = (snapshot.quotas if settings.gate(ENFORCEMENT_GATE) else NO_QUOTAS).room()
    plans, staying = list[tuple[Binding, failback.FailbackPlan]](), list[Staying]()
    last = snapshot.subject.status.after
    for checked, ref in enumerate(snapshot.page):
        if len(plans) >= most:
            return FailbackFindings(tuple(plans), tuple(staying), last, len(snapshot.page) - checked)
        if ref in snapshot.unread and str(ref) not in on_their_way:
            staying.append(Staying(str(ref), snapshot.unread[ref], snapshot.subject.spec.cluster))
        binding = snapshot.bindings.get(ref)
        if binding is not None and str(ref) not in on_their_way:
            for found in _plans(snapshot, binding, planner, room, now=now):
                if isinstance(found, Staying):
                    staying.append(found)
                else:
                    plans.append((binding, found))
        last = str(ref)
    return FailbackFindings(tuple(plans), tuple(staying), last if len(snapshot.page) >= PAGE else "", 0)


def _plans(
    snapshot: FailbackSnapshot, binding: Binding, planner: failback.FailbackPlanner, room: Room, *, now: datetime
) -> Iterator[failback.FailbackPlan | Staying]:
    """Yield the first plan that moves a binding back, and a reason for each cluster it cannot go back to now."""
    spec, home, planned = snapshot.subject.spec, origin.origin_of(binding), False
    if home is None or binding.metadata.deletion_timestamp is not None:
        return
    if spec.selector is not None and not matches(spec.selector, snapshot.labels.get(binding.ref, {})):
        return
    for name in sorted(home.left) if not spec.cluster else [spec.cluster]:
        if name not in home.left:
            continue
        if planned:
            yield Staying(str(binding.ref), "a binding goes back to its clusters one after the other", name)
            continue
        found = _plan(snapshot, binding, home, name, planner, now=now)
        if isinstance(found, failback.FailbackPlan) and (exceeded := room.take(binding, found.binding)):
            found = failback.FailbackBlocked(str(exceeded))  # [federated-quotas]
        planned = isinstance(found, failback.FailbackPlan)
        yield found if isinstance(found, failback.FailbackPlan) else Staying(str(binding.ref), found.why, name)


def _plan(
    snapshot: FailbackSnapshot,
    binding: Binding,
    home: origin.Origin,
    name: str,
    planner: failback.FailbackPlanner,
    *,
    now: datetime,
) -> failback.FailbackPlan | failback.FailbackBlocked:
    """Return how a binding goes back to one cluster, or why it cannot now."""
    subject, holds = snapshot.subject, snapshot.holds
    reason = failback.unfit_reason(
        snapshot.clusters.get(name), name, require_ready_time=not subject.spec.dry_run, now=now
    )
    if not reason and name in holds.maintained(now=now):
        reason = f"cluster {name} is in a MaintenanceWindow"
    if reason:
        return failback.FailbackBlocked(reason)

    def held(source: str) -> str:
        cluster = snapshot.clusters.get(source)
        return "" if cluster is None else holds.why_asked(binding, cluster, now=now)[1]

    request = failback.FailbackRequest(f"Failback/{subject.metadata.name}", _message(subject, name), held)
    return planner.plan(binding, home, name, request)


def _message(subject: Failback, cluster: str) -> str:
    return f"Failback {subject.metadata.name}: {subject.spec.reason or f'cluster {cluster} has recovered'}"


def _move_back(
    binding: Binding,
    plan: failback.FailbackPlan,
    snapshot: FailbackSnapshot,
    *,
    guards: Iterable[Guard],
    limits: tuple[QuotaGuard, ...],
) -> Decision:
    """Return the write that moves one binding back.

    It is stored only if the cluster, the Failback and all holds are still as they were read, and if the quotas of its
    namespace still have room (`limits`).
    """
    cluster, subject = snapshot.clusters[plan.cluster], snapshot.subject
    sources = f" from {', '.join(plan.leaves)}" if plan.leaves else ""
    message = f"goes back to cluster {plan.cluster}{sources}: {_message(subject, plan.cluster)}"
    return Decision(
        changes=(Put(plan.binding, binding), *(Save(row) for row in plan.reservations)),
        events=tuple(Event(about, "WorkloadFailback", message) for about in (binding, template_of(binding))),
        guards=(Guard(cluster.ref, cluster.metadata.generation), *guards),
        capacity_guards=plan.capacity_guards,
        quota_guards=limits,
        reason="Failback",
    )


def _dry_run(
    snapshot: FailbackSnapshot, settings: Settings, returning: Iterable[Returning], *, now: datetime
) -> Decision:
    """Write into the status of the Failback which of the first PAGE bindings would go back. No binding is changed."""
    found = _check_page(snapshot, settings, returning, most=PAGE, now=now)
    plans = tuple(Planned(str(binding.ref), plan.cluster, plan.replicas, plan.leaves) for binding, plan in found.plans)
    first = f" of the first {PAGE}" if len(snapshot.page) >= PAGE else ""
    message = f"{len(plans)} bindings{first} would go back, {len(found.staying)} cannot; set spec.dryRun to false"
    clusters = {plan.cluster: snapshot.clusters[plan.cluster] for plan in plans}
    later = {
        name: at for name, cluster in clusters.items() if (at := failback.ready_long_enough_at(cluster)) and at > now
    }
    if later:
        starts = ", ".join(f"{name} from {at:%Y-%m-%dT%H:%M:%SZ} on" for name, at in sorted(later.items()))
        message += f". A cluster has to be Ready for 10 minutes before anything goes back to it: {starts}"
    return _with_phase(
        snapshot.subject,
        PLANNED,
        message,
        now=now,
        remaining=len(plans) + len(found.staying),
        planned=plans[:PLANS_SHOWN],
        cannot_return=found.staying[:SHOWN],
    )


def _with_phase(subject: Failback, phase: str, message: str, *, now: datetime, **fields: Any) -> Decision:
    """Return the write of a Failback with its progress, and when to look again.

    `wake_at` None: the Failback is over, or it is stopped and no binding is on its way back.
    """
    complete = Condition(COMPLETE, "True" if phase == FINISHED else "False", phase, message)
    new = subject.with_status(
        phase=phase,
        message=message,
        conditions=with_condition(subject.status.conditions, complete, now=now),
        finish_time=to_seconds(now) if phase == FINISHED else None,
        **fields,
    )
    changed, over = phase != subject.status.phase, phase in (FINISHED, FAILED, PLANNED)
    event = Event(subject, f"Failback{phase}", message or "bindings go back", warning=phase == FAILED)
    return Decision(
        changes=(Put(new, subject),) if new is not subject else (),
        events=(event,) if changed else (),
        wake_at=None if over or (phase == STOPPED and not new.status.returning) else now + CHECK_EVERY,
        reason="Failback",
    )
