"""Drills: runs a game day to its end, by a simulated loss or by Drains, and keeps the report.

A simulated drill is over in one decision. A drill of mode Drain creates a Drain for each cluster, checks the copies of
the workloads every few seconds, and ends when all clusters are empty, when nothing more can leave, or when its time is
over. With `spec.returns` it then uncordons the clusters, and waits for the Failbacks that return the workloads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, ObjectMeta, OwnerReference, Ref, to_seconds, with_condition
from controlplane.apimachinery.names import UNSCHEDULABLE_TAINT
from controlplane.apimachinery.uids import child_uid
from controlplane.controllers.reads.supposed_snapshot import count_concerned, supposed_snapshot
from controlplane.controllers.reads.workload_labels import workload_labels
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Event, Put
from controlplane.engine.state import State, Watch
from controlplane.insight import drill_report
from controlplane.insight.changes import ClustersLost
from controlplane.insight.drill_report import Measured
from controlplane.insight.supposed.snapshot import Snapshot
from controlplane.insight.what_if import what_if
from controlplane.kinds import BINDINGS, CLUSTER, drain, failback
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.drain import Drain, DrainSpec
from controlplane.kinds.drill import (
    COMPLETE,
    DRILL,
    FAILED,
    MOST_SIMULATED,
    OF_DRILL,
    RETURNING,
    RUNNING,
    SIMULATED,
    Drill,
    DrillStatus,
    Finding,
    drain_name,
)
from controlplane.kinds.failback import Failback, FailbackSpec
from controlplane.settings import Settings

ORDERS: Final = (drain.DRAIN, failback.FAILBACK)
ENDED: Final = (failback.FINISHED, failback.FAILED)  # phases of a Failback; a Drain has no phase Failed
CHECK_EVERY = timedelta(seconds=5)
TRIED_FOR = timedelta(minutes=2)
"""How long workloads that cannot return are tried again after the last return. A cluster reports the room that its old
copies have left at least once a minute."""
HEALTHY = "Healthy"
_API_VERSION = "failover.lifeboat.io/v1alpha1"


class DrillSnapshot(msgspec.Struct, frozen=True):
    """A Drill with what its mode needs.

    bindings: those on the clusters that the criteria count. clusters: by name. drains, failbacks: by name, those of the
    drill that exist. supposed: of a simulated drill, what the answer is computed from.
    """

    subject: Drill
    bindings: Mapping[Ref, Binding] = {}
    clusters: Mapping[str, Cluster] = {}
    drains: Mapping[str, Drain] = {}
    failbacks: Mapping[str, Failback] = {}
    supposed: Snapshot | None = None
    too_many: bool = False  # a simulated drill concerns more than MOST_SIMULATED bindings


def _drill_changed(old: Drill | None, new: Drill | None) -> Iterable[Ref]:
    return () if new is None or (old and old.spec == new.spec) else (new.ref,)


def _order_changed(old: Drain | Failback | None, new: Drain | Failback | None) -> Iterable[Ref]:
    """A drill is due when one of its Drains or Failbacks changed its phase, or was deleted."""
    present = new or old
    name = "" if present is None else present.metadata.labels.get(OF_DRILL, "")
    same = old is not None and new is not None and old.status.phase == new.status.phase
    return (Ref(DRILL, "", name),) if name and not same else ()


class Drills(Controller):
    """Key: a Drill. Writes its status, creates and stops its Drains and Failbacks, and uncordons its clusters."""

    name = "drills"
    group = "propagation"
    keys = (DRILL,)
    watches = (Watch(DRILL, _drill_changed), *(Watch(kind, _order_changed) for kind in ORDERS))
    owns = Ownership({DRILL: ("status",), **dict.fromkeys(ORDERS, ("create", "spec.stop")), CLUSTER: ("spec.taints",)})
    batch = 1  # each Drill reads the bindings on its clusters

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[DrillSnapshot | None]:
        found: dict[Ref, Drill] = state.get(refs)
        return [_snapshot(state, found[ref]) if ref in found else None for ref in refs]

    def decide(self, snapshot: DrillSnapshot, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        drill = snapshot.subject
        if drill.metadata.deletion_timestamp is not None or drill.is_over:
            return NOTHING
        if drill.spec.stop:
            return _over(snapshot, drill_report.stopped(drill, "spec.stop is set", now=now))
        if snapshot.too_many:
            why = f"more than {MOST_SIMULATED} workloads are concerned: choose fewer clusters, or ask lifeboat whatif"
            return _over(snapshot, drill_report.stopped(drill, why, now=now))
        if snapshot.supposed is not None:
            effects = what_if(snapshot.supposed, [ClustersLost(drill.spec.clusters)], settings, now=now)
            watched = frozenset(map(str, snapshot.bindings))
            return _over(snapshot, drill_report.simulated(drill, effects, watched, now=now))
        if drill.status.start_time is None:
            return _begun(snapshot, now=now)
        return _return_checked(snapshot, now=now) if drill.status.phase == RETURNING else _checked(snapshot, now=now)


def _snapshot(state: State, drill: Drill) -> DrillSnapshot:
    if drill.is_over:
        return DrillSnapshot(drill)
    names = list(dict.fromkeys(drill.spec.clusters))
    supposed, bindings = None, dict[Ref, Binding]()
    if drill.spec.mode == SIMULATED:
        created = drill.metadata.creation_timestamp
        assert created is not None, "a stored drill has a creation time"
        # Settings and time are read only for edits of policies and of FailoverConfiguration/default.
        asked = [ClustersLost(drill.spec.clusters)]
        if count_concerned(state, asked, limit=MOST_SIMULATED + 1) > MOST_SIMULATED:
            return DrillSnapshot(drill, too_many=True)
        supposed = supposed_snapshot(state, asked, settings=Settings(), base=Settings(), now=created)
        bindings = {ref: one for ref, one in supposed.bindings.items() if any(map(one.spec.target, names))}
    else:
        for kind in BINDINGS:
            for ones in state.by_index(kind, "placed", names).values():
                bindings |= {one.ref: one for one in ones}
    labels = workload_labels(state, bindings.values()) if drill.spec.selector is not None else {}
    counted = {
        ref: one
        for ref, one in bindings.items()
        if not one.spec.required_by and drill.spec.watches(one.spec.resource.namespace, labels.get(ref, {}))
    }
    if supposed is not None:
        return DrillSnapshot(drill, counted, supposed=supposed)
    orders = [Ref(kind, "", drain_name(drill, name)) for kind in ORDERS for name in names]
    stored = state.get([*orders, *(Ref(CLUSTER, "", name) for name in names)])
    mine = {
        ref: one
        for ref, one in stored.items()
        if ref.kind in ORDERS and one.metadata.labels.get(OF_DRILL) == drill.metadata.name
    }
    drains, failbacks = ({ref.name: one for ref, one in mine.items() if ref.kind == kind} for kind in ORDERS)
    clusters = {ref.name: one for ref, one in stored.items() if ref.kind == CLUSTER}
    return DrillSnapshot(drill, counted, clusters, drains, failbacks)


def _begun(snapshot: DrillSnapshot, *, now: datetime) -> Decision:
    """Create the Drains, and count the workloads and their healthy copies before anything moves."""
    drill = snapshot.subject
    names = list(dict.fromkeys(drill.spec.clusters))
    placed = {ref: one for ref, one in snapshot.bindings.items() if any(map(one.spec.target, names))}
    message = f"draining {', '.join(names)}"
    running = Condition(COMPLETE, "False", RUNNING, message)
    status = replace(
        drill.status,
        phase=RUNNING,
        message=message,
        start_time=to_seconds(now),
        workloads=len(placed),
        cordoned_before=tuple(name for name in names if _is_cordoned(snapshot.clusters.get(name))),
        conditions=with_condition(drill.status.conditions, running, now=now),
    )
    status = _with_health(drill, status, placed.values(), when=" before the drill began")
    creates = (
        Put(_drain_of(drill, name, now=now), None) for name in names if drain_name(drill, name) not in snapshot.drains
    )
    begun = Event(drill, "DrillStarted", f"{message}, {len(placed)} workloads: {drill.spec.reason or 'a drill'}")
    new = replace(drill, status=status)
    return Decision(
        changes=(*creates, Put(new, drill)), events=(begun,), wake_at=now + CHECK_EVERY, reason="DrillStarted"
    )


def _meta(drill: Drill, cluster: str, role: str, *, now: datetime) -> ObjectMeta:
    """Return the metadata of a Drain or Failback of a drill. Deleting the drill deletes it."""
    name, owner = drain_name(drill, cluster), drill.metadata
    return ObjectMeta(
        name=name,
        uid=child_uid(owner.uid, role, name),
        generation=1,
        creation_timestamp=to_seconds(now),
        labels={OF_DRILL: owner.name},
        owner_references=(OwnerReference(_API_VERSION, "Drill", owner.name, owner.uid),),
    )


def _why(drill: Drill) -> str:
    return f"Drill {drill.metadata.name}: {drill.spec.reason or 'a game day'}"


def _drain_of(drill: Drill, cluster: str, *, now: datetime) -> Drain:
    spec = DrainSpec(cluster, drill.spec.rate, False, _why(drill))
    return Drain(_API_VERSION, "Drain", _meta(drill, cluster, "drain", now=now), spec)


def _failback_of(drill: Drill, cluster: str, *, now: datetime) -> Failback:
    spec = FailbackSpec(cluster=cluster, rate=drill.spec.rate, reason=_why(drill))
    return Failback(_API_VERSION, "Failback", _meta(drill, cluster, "failback", now=now), spec)


def _is_cordoned(cluster: Cluster | None) -> bool:
    return cluster is not None and any(taint.key == UNSCHEDULABLE_TAINT for taint in cluster.spec.taints)


def _checked(snapshot: DrillSnapshot, *, now: datetime) -> Decision:
    """Return the progress, or the report if the drill is over."""
    drill, drains = snapshot.subject, snapshot.drains
    names = list(dict.fromkeys(drill.spec.clusters))
    missing = [name for name in names if drain_name(drill, name) not in drains]
    if missing:
        why = f"the Drain of {', '.join(missing)} was deleted"
        return _over(snapshot, drill_report.stopped(drill, why, now=now))
    staying = {ref: one for ref, one in snapshot.bindings.items() if any(map(one.spec.target, names))}
    status = replace(drill.status, moved=max(0, drill.status.workloads - len(staying)))
    status = _with_health(drill, status, snapshot.bindings.values())
    started = drill.status.start_time
    assert started is not None, "a drill that is checked has begun"
    took, limit = (now - started).total_seconds(), drill.spec.criteria.max_duration_seconds
    ended = all(one.status.phase == drain.FINISHED or _is_stuck(one) for one in drains.values())
    if ended or took >= limit:
        measured = Measured(
            took if ended else None,
            tuple(_unplaced(staying.values(), drains.values())),
            len(staying),
            status.least_healthy_copies,
            unknown="" if ended else f"not over after {limit} s",
        )
        if drill.spec.returns:
            return _returning(snapshot, replace(drill, status=status), measured, now=now)
        status = replace(status, remarks=(f"cordoned: {', '.join(names)}; afterwards: {_afterwards(names)}",))
        return _over(snapshot, drill_report.report(replace(drill, status=status), measured, now=now))
    pauses = [
        f"{one.spec.cluster}: {one.status.message}" for one in drains.values() if one.status.phase == drain.PAUSED
    ]
    left = sum(one.status.leaving for one in drains.values())
    message = "; ".join([f"{status.moved} of {status.workloads} workloads moved, {left} leaving", *pauses])
    new = replace(drill, status=replace(status, message=message))
    return Decision(
        changes=() if new == drill else (Put(new, drill),), wake_at=now + CHECK_EVERY, reason="DrillChecked"
    )


def _afterwards(names: Sequence[str]) -> str:
    return ", ".join(f"lifeboat uncordon {name}, lifeboat failback {name}" for name in names)


def _is_stuck(one: Drain) -> bool:
    """Test whether everything that can leave has left, and the rest has no place."""
    status = one.status
    return status.phase == drain.RUNNING and not status.leaving and 0 < status.remaining <= status.blocked


def _unplaced(bindings: Iterable[Binding], drains: Iterable[Drain]) -> Iterable[Finding]:
    """Yield the workloads that stayed, with the reasons that the Drains give."""
    reasons = {one.binding: one.message for found in drains for one in found.status.cannot_leave}
    for binding in bindings:
        yield Finding(str(binding.ref), reasons.get(str(binding.ref), "has not left"))


def _with_health(drill: Drill, status: DrillStatus, bindings: Iterable[Binding], *, when: str = "") -> DrillStatus:
    """Return the status with the lowest number of healthy copies seen so far, and the workloads below the minimum."""
    least = drill.spec.criteria.min_healthy_copies
    counts = {one.ref: _healthy(one) for one in bindings if one.workload} if least else {}
    lowest = min(
        [*counts.values(), *([] if status.least_healthy_copies is None else [status.least_healthy_copies])],
        default=None,
    )
    known = {one.binding for one in status.findings}
    new = [
        Finding(str(ref), f"{count} healthy copies{when}, needed {least}")
        for ref, count in counts.items()
        if count < least and str(ref) not in known
    ]
    return replace(status, least_healthy_copies=lowest, findings=(*status.findings, *new)[: drill_report.SHOWN])


def _healthy(binding: Binding) -> int:
    return sum(one.health == HEALTHY for one in binding.status.aggregated_status)


def _returning(snapshot: DrillSnapshot, drill: Drill, measured: Measured, *, now: datetime) -> Decision:
    """Stop the Drains, uncordon the clusters that the drill has cordoned, and create a Failback for each."""
    names = [name for name in dict.fromkeys(drill.spec.clusters) if name in snapshot.clusters]
    uncordoned = [
        Put(one.with_spec(taints=tuple(taint for taint in one.spec.taints if taint.key != UNSCHEDULABLE_TAINT)), one)
        for name in names
        if _is_cordoned(one := snapshot.clusters[name]) and name not in drill.status.cordoned_before
    ]
    creates = [
        Put(_failback_of(drill, name, now=now), None)
        for name in names
        if drain_name(drill, name) not in snapshot.failbacks
    ]
    status = drill_report.returning(drill, measured, now=now)
    return Decision(
        changes=(*_stops(snapshot), *uncordoned, *creates, Put(replace(drill, status=status), snapshot.subject)),
        events=(Event(drill, "DrillReturning", status.message),),
        wake_at=now + CHECK_EVERY,
        reason="DrillReturning",
    )


def _return_checked(snapshot: DrillSnapshot, *, now: datetime) -> Decision:
    """Return the progress of the Failbacks, or the report if all of them have ended."""
    drill, failbacks = snapshot.subject, snapshot.failbacks
    missing = [name for name in snapshot.clusters if drain_name(drill, name) not in failbacks]
    if missing:
        why = f"the Failback of {', '.join(missing)} was deleted"
        return _over(snapshot, drill_report.stopped(drill, why, now=now))
    count = sum(one.status.returned for one in failbacks.values())
    idle_since = None
    if all(_has_ended(one) or _is_blocked(one) for one in failbacks.values()):
        idle_since = drill.status.idle_since or to_seconds(now)
        if all(map(_has_ended, failbacks.values())) or now >= idle_since + TRIED_FOR:
            return _over(snapshot, drill_report.returned(drill, count, tuple(_away(failbacks.values())), now=now))
    waits = [
        f"{one.spec.cluster}: {one.status.message}"
        for one in failbacks.values()
        if one.status.phase == failback.PAUSED or _is_blocked(one)
    ]
    message = "; ".join([f"{count} workloads have returned", *waits])
    new = replace(drill, status=replace(drill.status, returned=count, message=message, idle_since=idle_since))
    return Decision(
        changes=() if new == drill else (Put(new, drill),), wake_at=now + CHECK_EVERY, reason="DrillChecked"
    )


def _has_ended(one: Failback) -> bool:
    """Test whether a Failback has returned everything, has failed, or was stopped."""
    return one.status.phase in (*ENDED, failback.STOPPED)


def _is_blocked(one: Failback) -> bool:
    """Test whether nothing returns, and nothing more can return now."""
    status = one.status
    return status.phase == failback.RUNNING and not status.returning and 0 < status.remaining <= status.blocked


def _away(failbacks: Iterable[Failback]) -> Iterable[Finding]:
    """Yield the workloads that have not returned, with the reasons that the Failbacks give."""
    for one in failbacks:
        status = one.status
        staying = (*((status.failed,) if status.failed is not None else ()), *status.cannot_return)
        yield from (Finding(each.binding, f"has not returned: {each.message}") for each in staying)
        if status.phase != failback.FINISHED and not staying:
            yield Finding(f"Failback {one.metadata.name}", status.message or status.phase)


def _stops(snapshot: DrillSnapshot) -> Iterable[Put]:
    """Yield the writes that stop the Drains and Failbacks of a drill that still run."""
    orders: tuple[Drain | Failback, ...] = (*snapshot.drains.values(), *snapshot.failbacks.values())
    for one in orders:
        if one.status.phase not in ENDED and not one.spec.stop:
            yield Put(one.with_spec(stop=True), one)


def _over(snapshot: DrillSnapshot, status: DrillStatus) -> Decision:
    """Return the write of the report. Drains and Failbacks that still run are stopped."""
    drill = snapshot.subject
    event = Event(drill, f"Drill{status.result or status.phase}", status.message, warning=status.result == FAILED)
    return Decision(
        changes=(*_stops(snapshot), Put(replace(drill, status=status), drill)), events=(event,), reason="DrillOver"
    )
