"""Failbacks: brings back what left its clusters, one binding after the other, until the first failure (D19, D23)."""

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
from controlplane.controllers.reads.fleet_state import fleet_state, reason_to_pause
from controlplane.controllers.reads.workload_labels import workload_labels
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Event, Guard, Put, Save
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
from controlplane.kinds.rows import Eviction, FleetState, Promise
from controlplane.propagation.bindings import template_of
from controlplane.scheduling.ledger import PROMISE_ENDS_AFTER
from controlplane.settings import Settings

PAGE = 500
SHOWN = 10
PLANS_SHOWN = 100
LOOK = timedelta(seconds=5)


class FailingBack(msgspec.Struct, frozen=True):
    """A failback, the next of what has left, what is on its way, and what is true of the fleet."""

    subject: Failback
    page: tuple[Ref, ...]
    bindings: Mapping[Ref, Binding]  # of the page, and on their way
    labels: Mapping[Ref, dict[str, str]]  # of their workloads, where somebody chooses by them
    clusters: dict[str, Cluster]
    next_eviction: datetime | None  # when the next of a failed cluster is due
    fleet: FleetState
    holds: Holds
    promised: ReservedCapacity
    beyond: int  # bindings its present round has still before it, the page included


class Round(NamedTuple):
    """What one look comes to: ways that are taken, bindings that stay, and how far the page was looked through."""

    ways: tuple[tuple[Binding, failback.FailbackPlan], ...]
    staying: tuple[Staying, ...]
    after: str  # "" the round is over
    unseen: int  # of the page


class Failbacks(Controller):
    """Key: a Failback."""

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
        rows=(Promise,),
    )
    batch = 1  # each reads a page of its own

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[FailingBack | None]:
        found: dict[Ref, Failback] = state.get(refs)
        return [self._one(state, found[ref]) if ref in found else None for ref in refs]

    def _one(self, state: State, one: Failback) -> FailingBack:
        clusters: dict[str, Cluster] = {each.metadata.name: each for each in state.list(CLUSTER)}
        page, beyond = _page(state, one)
        bindings: dict[Ref, Binding] = state.get({*page, *(Ref.parse(way.binding) for way in one.status.returning)})
        holds = Holds(tuple(state.list(EVICTION_HOLD)), tuple(state.list(MAINTENANCE_WINDOW)))
        labels: dict[Ref, dict[str, str]] = {}
        if one.spec.selector is not None or holds.needs_labels():
            labels = workload_labels(state, bindings.values())
        return FailingBack(
            one,
            page,
            bindings,
            labels,
            clusters,
            state.next_eviction(),
            fleet_state(state),
            replace(holds, labels=labels),
            state.reserved_capacity(within=PROMISE_ENDS_AFTER),
            beyond,
        )

    def decide(self, snapshot: FailingBack, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        one, status, spec = snapshot.subject, snapshot.subject.status, snapshot.subject.spec
        if one.metadata.deletion_timestamp is not None or status.phase == FINISHED:
            return NOTHING
        if not spec.stop and (status.phase == FAILED or (status.phase == PLANNED and spec.dry_run)):
            return NOTHING
        back, returning, failed = _arrived(snapshot, settings, now=now)
        returned = status.returned + back
        counts = {"returned": returned, "returning": returning}
        if spec.stop:
            return _said(one, STOPPED, "spec.stop is set", now=now, failed=None, after="", **counts)
        why = failback.unfit_reason(snapshot.clusters.get(spec.cluster), spec.cluster, now=now) if spec.cluster else ""
        if failed is None and why and (returned or returning):
            failed = Staying("", why, spec.cluster)
        if failed is not None:
            told = f"{failed.binding}: {failed.message}" if failed.binding else failed.message
            return _said(one, FAILED, told, now=now, failed=failed, **counts)
        if spec.dry_run:
            return _planned(snapshot, settings, now=now)
        waits = why or _pause_reason(snapshot, settings, now=now)
        if waits:
            return _said(one, PAUSED, waits, now=now, tokens=0.0, counted_at=now, **counts)
        return _moving(snapshot, settings, returned, returning, now=now)


def _page(state: State, one: Failback) -> tuple[tuple[Ref, ...], int]:
    """Return the next bindings a failback may be about, in the order of their names, and how many there are beyond."""
    spec = one.spec
    if spec.binding:
        return (failback.binding_ref(spec.binding),), 1
    value, after = spec.cluster or origin.ANY, "" if spec.dry_run else one.status.after
    return paging.page(state, "left", value, after=after, limit=PAGE), paging.count(state, "left", value, after=after)


def _pause_reason(snapshot: FailingBack, settings: Settings, *, now: datetime) -> str:
    return reason_to_pause(
        snapshot.clusters.values(), snapshot.fleet, snapshot.holds, snapshot.next_eviction, settings, now=now
    )


# What is on its way


def _arrived(
    snapshot: FailingBack, settings: Settings, *, now: datetime
) -> tuple[int, tuple[Returning, ...], Staying | None]:
    """Return how many of those on their way are back now, which are still on it, and the first failure.

    Resumed, they have as much time again.
    """
    back, still, failed = 0, list[Returning](), None
    resumed = snapshot.subject.status.phase == STOPPED and not snapshot.subject.spec.stop
    for seen in snapshot.subject.status.returning:
        one = replace(seen, since=to_seconds(now)) if resumed else seen
        binding = snapshot.bindings.get(Ref.parse(one.binding))
        if binding is None or binding.metadata.deletion_timestamp is not None:
            continue
        known = origin.home(binding)
        left = None if known is None else known.left.get(one.cluster)
        if left is not None and left < one.since:
            continue  # somebody else wrote the binding just then: it has not begun, and the next round sees it
        why = _failure(binding, one, snapshot.clusters, settings, now=now)
        failed = failed or (Staying(one.binding, why, one.cluster) if why else None)
        if binding.spec.target(one.cluster) is None:
            continue
        if why or _ailing(binding, one, snapshot.clusters) or _tasks(binding):
            still.append(one)
        else:
            back += 1
    return back, tuple(still), failed


def _failure(
    binding: Binding, one: Returning, clusters: Mapping[str, Cluster], settings: Settings, *, now: datetime
) -> str:
    """Return why a way back has failed; "" where it has not."""
    if binding.spec.target(one.cluster) is None:
        return f"it was taken off cluster {one.cluster} again"
    unfit = failback.unfit_reason(clusters.get(one.cluster), one.cluster, seasoned=False, now=now)
    if unfit:
        return unfit
    if now <= one.since + _patience(settings):
        return ""
    ailing, left = _ailing(binding, one, clusters), [task.from_cluster for task in _tasks(binding)]
    seconds = _patience(settings).total_seconds()
    if ailing:
        return f"after {seconds:g} s the copy it goes back to is not healthy: {ailing}"
    return f"after {seconds:g} s the old copy on {', '.join(left)} cannot be let go: see EvictionStuck" if left else ""


def _patience(settings: Settings) -> timedelta:
    return timedelta(seconds=settings.graceful_eviction_timeout)


def _ailing(binding: Binding, one: Returning, clusters: Mapping[str, Cluster]) -> str:
    """Return why the copy something goes back to does not count as healthy; "" where it does."""
    target = binding.spec.target(one.cluster)
    if target is None:
        return f"{one.cluster}: no copy is placed there"
    if binding.status.scheduler_observed_generation < binding.metadata.generation:
        return "the scheduler has not dealt with the latest change"
    places = {name: graceful.ClusterState(each.ready == health.TRUE, moving=False) for name, each in clusters.items()}
    return graceful.unhealthy_reason(binding, target, GracefulEvictionTask("", creation_timestamp=one.since), places)


def _tasks(binding: Binding) -> tuple[GracefulEvictionTask, ...]:
    """Return the stamped tasks a failback made. What only waits for its companions to follow is back: it neither
    keeps them from their turn nor fails with them."""
    said = condition(binding.status.conditions, graceful.EVICTION_STUCK)
    if said is not None and said.reason == graceful.WAITING_WORKLOAD:
        return ()
    tasks = binding.spec.graceful_eviction_tasks
    return tuple(one for one in tasks if one.reason.startswith(FAILED_BACK) and one.creation_timestamp is not None)


# What goes next


def _moving(
    snapshot: FailingBack, settings: Settings, returned: int, returning: tuple[Returning, ...], *, now: datetime
) -> Decision:
    """Let as many bindings go back as there are tokens, and no more than may be on their way at once."""
    one, status, spec = snapshot.subject, snapshot.subject.status, snapshot.subject.spec
    known = None if status.counted_at is None else rate.Bucket(status.tokens, spec.rate, status.counted_at.timestamp())
    room = rate.take_tokens(known, 0, rate=spec.rate, at=now.timestamp()).bucket.tokens
    free = spec.at_once - len(returning)
    found = _round(snapshot, settings, most=min(int(room + 1e-9), free), now=now)
    taken = rate.take_tokens(known, len(found.ways), rate=spec.rate, at=now.timestamp())
    looked = found.unseen < len(snapshot.page) or not snapshot.page
    stay = (status.blocked if status.after else 0) + len(found.staying)  # of this round so far
    amid = bool(status.after) or not looked  # a round goes on: what it has found before counts
    staying = (*(status.cannot_return if amid else ()), *found.staying)
    blocked = stay if looked else status.blocked
    sent = tuple(Returning(str(binding.ref), way.cluster, to_seconds(now)) for binding, way in found.ways)
    returning = (*returning, *sent)
    progress = {"returned": returned, "returning": returning, "after": found.after, "blocked": blocked}
    if not found.after and not found.unseen and not blocked and not returning:
        return _said(one, FINISHED, "everything is back", now=now, remaining=0, cannot_return=(), **progress)
    said = _said(
        one,
        RUNNING,
        f"{blocked} bindings cannot go back: see status.cannotReturn" if blocked else "",
        now=now,
        remaining=stay + snapshot.beyond - (len(snapshot.page) - found.unseen),
        cannot_return=staying[:SHOWN],
        tokens=taken.bucket.tokens,
        counted_at=now,
        **progress,
    )
    wait = max(rate.retry_delay(taken.next_in), rate.SHORTEST_PAUSE)
    guards = (Guard(one.ref, one.metadata.generation), *snapshot.holds.guards()) if found.ways else ()
    return replace(
        said,
        guards=guards,
        separate_decisions=tuple(_back(binding, way, snapshot, guards=guards, now=now) for binding, way in found.ways),
        wake_at=_next(found, 0 if returning else blocked, full=len(sent) >= free, token=wait, now=now),
    )


def _next(found: Round, in_vain: int, *, full: bool, token: timedelta, now: datetime) -> datetime:
    """Return when to look again: for what is on its way, for the next token, or at once for the next page. A round
    that is over and has looked at many in vain gives others time."""
    if full:
        return now + LOOK
    if not (found.unseen or found.after):
        return now + LOOK * (1 + in_vain // PAGE)
    return now + token if found.unseen else now


def _round(snapshot: FailingBack, settings: Settings, *, most: int, now: datetime) -> Round:
    """Look through the page until so many have a way back."""
    trial = failback.FailbackPlanner(tuple(snapshot.clusters.values()), snapshot.promised, settings, now=now)
    ways, staying = list[tuple[Binding, failback.FailbackPlan]](), list[Staying]()
    last = snapshot.subject.status.after
    for seen, ref in enumerate(snapshot.page):
        if len(ways) >= most:
            return Round(tuple(ways), tuple(staying), last, len(snapshot.page) - seen)
        binding = snapshot.bindings.get(ref)
        if binding is not None:
            for found in _ways(snapshot, binding, trial, now=now):
                if isinstance(found, Staying):
                    staying.append(found)
                else:
                    ways.append((binding, found))
        last = str(ref)
    return Round(tuple(ways), tuple(staying), last if len(snapshot.page) >= PAGE else "", 0)


def _ways(
    snapshot: FailingBack, binding: Binding, trial: failback.FailbackPlanner, *, now: datetime
) -> Iterator[failback.FailbackPlan | Staying]:
    """Yield the first way a binding can take and, for each cluster it cannot go back to now, why."""
    spec, known, gone = snapshot.subject.spec, origin.home(binding), False
    on_its_way = {one.binding for one in snapshot.subject.status.returning}
    if known is None or binding.metadata.deletion_timestamp is not None or str(binding.ref) in on_its_way:
        return
    if spec.selector is not None and not matches(spec.selector, snapshot.labels.get(binding.ref, {})):
        return
    for name in sorted(known.left) if not spec.cluster else [spec.cluster]:
        if name not in known.left:
            continue
        if gone:
            yield Staying(str(binding.ref), "it goes back to one cluster after the other", name)
            continue
        found = _way(snapshot, binding, known, name, trial, now=now)
        gone = isinstance(found, failback.FailbackPlan)
        yield found if isinstance(found, failback.FailbackPlan) else Staying(str(binding.ref), found.why, name)


def _way(
    snapshot: FailingBack,
    binding: Binding,
    known: origin.Home,
    name: str,
    trial: failback.FailbackPlanner,
    *,
    now: datetime,
) -> failback.FailbackPlan | failback.FailbackBlocked:
    one, holds = snapshot.subject, snapshot.holds
    why = failback.unfit_reason(snapshot.clusters.get(name), name, seasoned=not one.spec.dry_run, now=now)
    if not why and name in holds.maintained(now=now):
        why = f"cluster {name} is in a MaintenanceWindow"
    if why:
        return failback.FailbackBlocked(why)

    def held(giver: str) -> str:
        cluster, row = snapshot.clusters.get(giver), Eviction("", str(binding.ref), giver)
        return "" if cluster is None else holds.why(row, binding, cluster, now=now)[1]

    errand = failback.FailbackRequest(f"Failback/{one.metadata.name}", _message(one, name), held)
    return trial.way(binding, known, name, errand)


def _message(one: Failback, cluster: str) -> str:
    return f"Failback {one.metadata.name}: {one.spec.reason or f'cluster {cluster} is well again'}"


def _back(
    binding: Binding, way: failback.FailbackPlan, snapshot: FailingBack, *, guards: Iterable[Guard], now: datetime
) -> Decision:
    """Return the write of one way back: while its cluster is what it was, and nobody stops the failback or holds
    more."""
    cluster, one = snapshot.clusters[way.cluster], snapshot.subject
    whence = f" from {', '.join(way.leaves)}" if way.leaves else ""
    message = f"goes back to cluster {way.cluster}{whence}: {_message(one, way.cluster)}"
    return Decision(
        changes=(Put(way.binding, binding), *(Save(row) for row in way.promises)),
        events=tuple(Event(about, "WorkloadFailback", message) for about in (binding, template_of(binding))),
        guards=(Guard(cluster.ref, cluster.metadata.generation), *guards),
        capacity_guards=way.rooms,
        reason="Failback",
    )


def _planned(snapshot: FailingBack, settings: Settings, *, now: datetime) -> Decision:
    """Say what would go back, of the first PAGE bindings; nothing is written but that."""
    found = _round(snapshot, settings, most=PAGE, now=now)
    plans = tuple(Planned(str(one.ref), way.cluster, way.replicas, way.leaves) for one, way in found.ways)
    first = f" of the first {PAGE}" if len(snapshot.page) >= PAGE else ""
    message = f"{len(plans)} bindings{first} would go back, {len(found.staying)} cannot; set spec.dryRun to false"
    homes = {plan.cluster: snapshot.clusters[plan.cluster] for plan in plans}
    moments = {name: moment for name, one in homes.items() if (moment := failback.fit_since(one)) and moment > now}
    if moments:
        begins = ", ".join(f"{name} from {moment:%Y-%m-%dT%H:%M:%SZ} on" for name, moment in sorted(moments.items()))
        message += f". A cluster has to be Ready for 10 minutes before anything goes back to it: {begins}"
    return _said(
        snapshot.subject,
        PLANNED,
        message,
        now=now,
        remaining=len(plans) + len(found.staying),
        planned=plans[:PLANS_SHOWN],
        cannot_return=found.staying[:SHOWN],
    )


def _said(one: Failback, phase: str, message: str, *, now: datetime, **fields: Any) -> Decision:
    """Return the failback with its progress; what is over, or stopped with nothing on its way, is not looked at
    again."""
    complete = Condition(COMPLETE, "True" if phase == FINISHED else "False", phase, message)
    new = one.with_status(
        phase=phase,
        message=message,
        conditions=with_condition(one.status.conditions, complete, now=now),
        finish_time=to_seconds(now) if phase == FINISHED else None,
        **fields,
    )
    changed, over = phase != one.status.phase, phase in (FINISHED, FAILED, PLANNED)
    event = Event(one, f"Failback{phase}", message or "what has left is brought back", warning=phase == FAILED)
    return Decision(
        changes=(Put(new, one),) if new is not one else (),
        events=(event,) if changed else (),
        wake_at=None if over or (phase == STOPPED and not new.status.returning) else now + LOOK,
        reason="Failback",
    )
