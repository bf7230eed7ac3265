"""Records of failovers: what was detected, decided, waited for and moved, by which rule, with times.

A record is computed only from the change log. A failover begins with the change of a binding that turns targets into
eviction tasks, and ends with the change that clears the last of these tasks. Changes of the clusters and Works in
between belong to it. Events are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from msgspec.structs import replace

from controlplane.apimachinery.meta import ObjectMeta, Ref, condition, to_seconds
from controlplane.apimachinery.names import execution_namespace, work_name
from controlplane.engine.state import Change
from controlplane.eviction.directly import DIRECTLY_WAITING
from controlplane.eviction.graceful import EVICTION_STUCK
from controlplane.eviction.pending import EVICTION_PENDING, waits_for
from controlplane.kind import KINDS, decode
from controlplane.kinds import CLUSTER, WORK
from controlplane.kinds import failover_record as kind
from controlplane.kinds.binding import (
    HEALTHY,
    IN_PART,
    PARTLY_REVERTED,
    REVERTED,
    TAINT_UNTOLERATED,
    Binding,
    GracefulEvictionTask,
    TargetCluster,
)
from controlplane.kinds.cluster import EVICTING_EFFECTS, READY, Cluster, Taint
from controlplane.kinds.failover_record import Durations, FailoverRecord, FailoverRecordStatus, Step

STEP_ORDER = {kind.WAITED_FOR: 0, kind.DECIDED: 1}  # steps of one change: these first
EVENTS_NAMESPACE = "default"  # namespace of records of cluster-scoped bindings, as Kubernetes does with Events
WRITTEN_WITHIN = timedelta(seconds=60)  # a change of a cluster is written at most this long after the time it names
MAX_READY_CHANGES = 10  # changes between False and Unknown that are followed back


class DecodedChange(NamedTuple):
    """A change with the decoded object before and after it. For a Work both are None: only its creation and deletion
    count."""

    change: Change
    old: Any
    new: Any


class Failover(NamedTuple):
    """One failover of a binding, given by the changes of this binding.

    `first`: the change that begins the failover. `since`: the later changes that belong to it. `pending`: the changes
    before it in which the binding reported what its evictions waited for.

    `previous` and `regained` limit what belongs to this failover, by the cluster that was left: the version with which
    an earlier failover left that cluster, and the version that placed the binding there again.
    """

    first: DecodedChange
    since: tuple[DecodedChange, ...]
    tasks: tuple[GracefulEvictionTask, ...]
    finished: bool
    pending: tuple[DecodedChange, ...] = ()
    previous: Mapping[str, int] = {}
    regained: Mapping[str, int] = {}


RelatedChanges = Mapping[Ref, Sequence[DecodedChange]]
"""Changes of clusters and Works, in order, by reference."""


def decode_changes(changes: Iterable[Change]) -> list[DecodedChange]:
    """Return changes in order, with their documents decoded. A document that two changes share is decoded once."""
    last: dict[Ref, tuple[bytes, Any]] = {}
    decoded = []
    for change in sorted(changes, key=lambda change: change.version):
        if change.ref.kind == WORK:
            decoded.append(DecodedChange(change, None, None))
            continue
        document, before = last.get(change.ref, (b"", None))
        old = before if change.old_document == document else _decoded(change.ref, change.old_document)
        new = None if change.type == "DELETED" else _decoded(change.ref, change.document)
        last[change.ref] = (change.document, new)
        decoded.append(DecodedChange(change, old, new))
    return decoded


def _decoded(ref: Ref, document: bytes | None) -> Any:
    return None if document is None else decode(KINDS[ref.kind], document)


def related_refs(begun: Iterable[Failover]) -> set[Ref]:
    """Return the clusters and Works whose changes belong to these failovers."""
    refs = set()
    for failover in begun:
        old: Binding = failover.first.old
        names = {task.from_cluster for task in failover.tasks}
        names |= {target.name for target in _targets_after(failover)}
        for name in names:
            refs |= {Ref(CLUSTER, "", name), _work(old, name)}
    return refs


def clusters_read_before(begun: Iterable[Failover]) -> set[tuple[Ref, int]]:
    """Return the clusters whose taints began failovers, each with the version of the change that began the failover.

    The record describes such a cluster as it was before that version (`change_times`).
    """
    return {
        (Ref(CLUSTER, "", task.from_cluster), failover.first.change.version)
        for failover in begun
        for task in failover.tasks
        if task.reason == TAINT_UNTOLERATED
    }


def change_times(cluster: Cluster) -> set[datetime]:
    """Return when a cluster got its present evicting taints and, unless it is Ready, when Ready last changed.

    The changes that wrote this were made within WRITTEN_WITHIN after these times.
    """
    since = not_ready_since(cluster)
    return {taint.time_added for taint in _evicting(cluster) if taint.time_added} | ({since} if since else set())


def not_ready_since(cluster: Cluster | None) -> datetime | None:
    """Return since when a cluster is not Ready; None: it is Ready, or Ready was never reported."""
    ready = None if cluster is None else condition(cluster.status.conditions, READY)
    return None if ready is None or ready.status == "True" else ready.last_transition_time


def _evicting(cluster: Cluster) -> list[Taint]:
    return [taint for taint in cluster.spec.taints if taint.effect in EVICTING_EFFECTS]


def records(begun: Iterable[Failover], around: Iterable[DecodedChange] = ()) -> tuple[FailoverRecord, ...]:
    """Return the records of failovers. `around`: in order, at least the changes of all `related_refs`."""
    by_ref: dict[Ref, list[DecodedChange]] = {}
    for decoded in around:
        by_ref.setdefault(decoded.change.ref, []).append(decoded)
    return tuple(_record(failover, by_ref) for failover in begun)


def binding_before_failover(changes: Iterable[Change]) -> Binding | None:
    """Return a binding as it was before its latest failover; None: it never had one.

    A revert does not count as a failover. So a second revert, for example after a request without an answer, changes
    nothing.
    """
    begun = [
        failover
        for failover in failovers(decode_changes(changes))
        if failover.tasks[0].reason not in (REVERTED, PARTLY_REVERTED)
    ]
    return begun[-1].first.old if begun else None


def record_name(binding: str, version: int) -> str:
    """Return the name of a record: the name of the binding and the version with which the failover began."""
    return f"{binding}.{version}"


def failovers(changes: Iterable[DecodedChange]) -> list[Failover]:
    """Return the failovers of a binding in the order they began, given all its changes.

    Failovers of one binding may overlap, and each ends on its own.
    """
    begun: list[Failover] = []
    latest: dict[str, int] = {}  # by cluster: index in `begun` of the last failover that left it
    pending: tuple[DecodedChange, ...] = ()
    for decoded in changes:
        for index, failover in enumerate(begun):
            if not failover.finished:
                finished = _tasks_cleared(decoded, failover.tasks)
                begun[index] = failover._replace(since=(*failover.since, decoded), finished=finished)
        for name, index in latest.items():
            placed = decoded.new is not None and decoded.new.spec.target(name) is not None
            if placed and name not in begun[index].regained:
                regained = {**begun[index].regained, name: decoded.change.version}
                begun[index] = begun[index]._replace(regained=regained)
        if started := new_tasks(decoded):
            names = [task.from_cluster for task in started]
            previous = {name: begun[latest[name]].first.change.version for name in names if name in latest}
            latest |= dict.fromkeys(names, len(begun))
            begun.append(Failover(decoded, (), started, finished=False, pending=pending, previous=previous))
        pending = _pending_changes(pending, decoded)
    return begun


def _pending_changes(before: tuple[DecodedChange, ...], decoded: DecodedChange) -> tuple[DecodedChange, ...]:
    """Return the changes in which a binding reported what its evictions wait for, up to and with this change.

    Empty once the binding reports that no eviction waits.
    """
    pending = None if decoded.new is None else condition(decoded.new.status.conditions, EVICTION_PENDING)
    if pending is None or pending.status != "True":
        return ()
    same = decoded.old is not None and pending == condition(decoded.old.status.conditions, EVICTION_PENDING)
    return before if same else (*before, decoded)


def new_tasks(decoded: DecodedChange) -> tuple[GracefulEvictionTask, ...]:
    """Return the tasks that a change of a binding made from its targets."""
    if decoded.old is None or decoded.new is None:
        return ()
    return tuple(
        task
        for task in decoded.new.spec.graceful_eviction_tasks
        if decoded.old.spec.task(task.from_cluster) is None and decoded.old.spec.target(task.from_cluster) is not None
    )


def _tasks_cleared(decoded: DecodedChange, tasks: Sequence[GracefulEvictionTask]) -> bool:
    return decoded.new is None or all(decoded.new.spec.task(task.from_cluster) is None for task in tasks)


def _targets_after(failover: Failover) -> tuple[TargetCluster, ...]:
    last = next((decoded.new for decoded in reversed(failover.since) if decoded.new is not None), failover.first.new)
    targets: tuple[TargetCluster, ...] = last.spec.clusters
    return targets


def _work(binding: Binding, cluster: str) -> Ref:
    about = binding.spec.resource
    return Ref(WORK, execution_namespace(cluster), work_name(about.kind, about.name, about.namespace))


def _record(failover: Failover, around: RelatedChanges) -> FailoverRecord:
    change, old = failover.first.change, failover.first.old
    steps = sorted(
        _steps(failover, around),
        key=lambda step: (step.version, STEP_ORDER.get(step.what, len(STEP_ORDER)), step.cluster),
    )
    start = steps[0].at
    timed = tuple(_with_seconds(step, start) for step in steps)
    task = failover.tasks[0]
    return FailoverRecord(
        api_version=kind.RESOURCE.api_version,
        kind=kind.RESOURCE.kind,
        metadata=ObjectMeta(
            name=record_name(change.ref.name, change.version),
            namespace=change.ref.namespace or EVENTS_NAMESPACE,
            uid=f"{old.metadata.uid}.{change.version}",
            resource_version=str(_version(failover, timed)),
            creation_timestamp=to_seconds(change.at),
        ),
        status=FailoverRecordStatus(
            binding=str(change.ref),
            resource=old.spec.resource,
            state=kind.FINISHED if failover.finished else kind.RUNNING,
            reason=task.reason,
            purge_mode=task.purge_mode,
            left=tuple(_replicas_left(old, task) for task in failover.tasks),
            before=old.spec.clusters,
            after=_targets_after(failover),
            preserved={key: value for left in failover.tasks for key, value in left.preserved_label_state.items()},
            durations=_durations(timed, finished=failover.finished),
            steps=timed,
        ),
    )


def _version(failover: Failover, steps: Sequence[Step]) -> int:
    """Return the version of the last change that the record shows: a step, or the deletion that ended the failover."""
    ended = failover.since[-1].change.version if failover.since and failover.finished else 0
    return max(failover.first.change.version, ended, *(step.version for step in steps))


def _replicas_left(old: Binding, task: GracefulEvictionTask) -> TargetCluster:
    """Return what a task took from a target: all replicas, or the part that a failback gives back."""
    target = old.spec.target(task.from_cluster)
    assert target is not None, "a failover begins with tasks made out of targets"
    return replace(target, replicas=task.replicas or 0) if task.reason in IN_PART else target


def _with_seconds(step: Step, start: datetime) -> Step:
    seconds = round((step.at - start).total_seconds(), 3)
    return Step(step.at, seconds, step.what, step.cluster, step.message, step.by, step.rule, step.version, step.cause)


def _step(change: Change, what: str, cluster: str, message: str) -> Step:
    return Step(change.at, 0, what, cluster, message, change.actor, change.reason, change.version, change.cause)


def _steps(failover: Failover, around: RelatedChanges) -> Iterator[Step]:
    for task in failover.tasks:
        yield from _detection_steps(task, failover, around)
        yield from _wait_steps(task, failover)
        for why in task.waited_for:
            yield _step(failover.first.change, kind.WAITED_FOR, task.from_cluster, why)
        yield _step(failover.first.change, kind.DECIDED, task.from_cluster, task.message or task.reason)
    yield from _binding_steps(failover)
    last = failover.since[-1].change.version if failover.since and failover.finished else None
    yield from _work_steps(failover, around, last=last)


def _detection_steps(task: GracefulEvictionTask, failover: Failover, around: RelatedChanges) -> Iterator[Step]:
    """Yield what was wrong with a cluster when a taint evicted from it: it was not Ready, and which taint it had.

    Failovers that a user or an unhealthy application began have no such steps. Only what the cluster reported at the
    eviction counts, and nothing because of which an earlier failover left it. So the steps depend neither on older
    outages nor on which other changes were read.
    """
    lines = [
        decoded
        for decoded in around.get(Ref(CLUSTER, "", task.from_cluster), ())
        if decoded.change.version < failover.first.change.version
    ]
    if task.reason != TAINT_UNTOLERATED or not lines or lines[-1].new is None:
        return
    cluster: Cluster = lines[-1].new
    lines = [decoded for decoded in lines if decoded.change.version > failover.previous.get(task.from_cluster, 0)]
    if (not_ready := _not_ready_change(cluster, lines)) is not None:
        ready = condition(not_ready.new.status.conditions, READY)
        assert ready is not None, "a cluster that is not Ready has the condition Ready"
        why = f"Ready is {ready.status} ({ready.reason}: {ready.message})"
        yield _step(not_ready.change, kind.SEEN, task.from_cluster, why)
    named = [taint for taint in _evicting(cluster) if f"{taint.key}:{taint.effect}" == task.taint]
    added = [
        (decoded, taint)
        for taint in named or _evicting(cluster)
        if (decoded := _taint_change(taint, lines)) is not None
    ]
    if added:
        last = max((decoded for decoded, _ in added), key=lambda decoded: decoded.change.version)
        names = ", ".join(f"{taint.key}:{taint.effect}" for decoded, taint in added if decoded is last)
        yield _step(last.change, kind.TAINTED, task.from_cluster, names)


def _not_ready_change(cluster: Cluster, lines: Sequence[DecodedChange]) -> DecodedChange | None:
    """Return the change since which a cluster was not Ready; None: it is not among these changes."""
    found, since = None, not_ready_since(cluster)
    for _ in range(MAX_READY_CHANGES):
        turns = [line for line in lines if since is not None and _reports_since(line, since, not_ready_since)]
        if not turns:
            break
        found = turns[-1]
        since = not_ready_since(found.old)
    return found


def _taint_change(taint: Taint, lines: Sequence[DecodedChange]) -> DecodedChange | None:
    """Return the change that added a taint to a cluster; None: it is not among these changes."""
    if taint.time_added is None:
        return None

    def has(cluster: Cluster | None) -> datetime | None:
        return taint.time_added if cluster is not None and taint in cluster.spec.taints else None

    return next((line for line in reversed(lines) if _reports_since(line, taint.time_added, has)), None)


def _reports_since(line: DecodedChange, moment: datetime, reading: Callable[[Cluster | None], datetime | None]) -> bool:
    """Test whether a change made a cluster report that something is true since this time."""
    within = moment <= line.change.at < moment + WRITTEN_WITHIN
    return within and reading(line.new) == moment and reading(line.old) != moment


def _wait_steps(task: GracefulEvictionTask, failover: Failover) -> Iterator[Step]:
    """Yield what the eviction from one cluster waited for, as the binding reported, since it last began to wait.

    EvictionPending reports evictions by taints only, so a Drain, a failback or a revert has no such steps.
    """
    if task.reason != TAINT_UNTOLERATED:
        return
    steps, before = list[Step](), ""
    for decoded in failover.pending:
        if decoded.change.version <= failover.previous.get(task.from_cluster, 0):
            continue
        waiting = waits_for(decoded.new, task.from_cluster)
        if not waiting:
            steps.clear()
        elif waiting != before:
            steps.append(_step(decoded.change, kind.WAITED_FOR, task.from_cluster, waiting))
        before = waiting
    yield from steps


def _binding_steps(failover: Failover) -> Iterator[Step]:
    """Yield the steps that the changes of the binding report after the eviction."""
    healthy = _healthy_targets(failover.first.new)
    if failover.tasks[0].reason == TAINT_UNTOLERATED and _gained(failover.first):
        yield _step(failover.first.change, kind.SCHEDULED, "", _placed_text(failover.first.new))
    for decoded in failover.since:
        old, new = decoded.old, decoded.new
        if old is None or new is None:
            continue
        if new.spec.clusters != old.spec.clusters and not new_tasks(decoded):
            yield _step(decoded.change, kind.SCHEDULED, "", _placed_text(new))
        yield from _condition_steps(decoded)
        now_healthy = _healthy_targets(new)
        for name in sorted(now_healthy - healthy):
            yield _step(decoded.change, kind.HEALTHY, name, "the copy is healthy")
        healthy = now_healthy
        for task in failover.tasks:
            if old.spec.task(task.from_cluster) is not None and new.spec.task(task.from_cluster) is None:
                yield _step(decoded.change, kind.CLEARED, task.from_cluster, "the old copy may be removed")


def _gained(decoded: DecodedChange) -> bool:
    """Test whether a change gave a binding replicas, or a copy, on some cluster: it was evicted and placed at once."""
    before = {target.name: target.replicas for target in decoded.old.spec.clusters}
    return any(target.replicas > before.get(target.name, -1) for target in decoded.new.spec.clusters)


def _placed_text(binding: Binding) -> str:
    return (
        ", ".join(
            f"{target.name}:{target.replicas}" if target.replicas else target.name for target in binding.spec.clusters
        )
        or "nowhere"
    )


def _healthy_targets(binding: Binding) -> set[str]:
    """Return the targets that are healthy with all their replicas ready."""
    reported = {item.cluster_name: item for item in binding.status.aggregated_status if item.health == HEALTHY}
    ready = {name: (item.status or {}).get("readyReplicas") for name, item in reported.items()}
    return {
        target.name
        for target in binding.spec.clusters
        if target.name in reported and not (isinstance(count := ready[target.name], int) and count < target.replicas)
    }


def _condition_steps(decoded: DecodedChange) -> Iterator[Step]:
    for type_ in (DIRECTLY_WAITING, EVICTION_STUCK):
        present, before = (condition(item.status.conditions, type_) for item in (decoded.new, decoded.old))
        if present is not None and (
            before is None or (present.status, present.reason) != (before.status, before.reason)
        ):
            yield _step(decoded.change, kind.WAITED_FOR, "", f"{present.reason}: {present.message}")


def _work_steps(failover: Failover, around: RelatedChanges, *, last: int | None) -> Iterator[Step]:
    """Yield when the Works of new copies were created and those of old copies were deleted.

    `last`: the version that ended the failover. A Work that is deleted after the binding was placed on its cluster
    again does not belong to this failover.
    """
    old, began = failover.first.old, failover.first.change.version
    left = {_work(old, task.from_cluster): task.from_cluster for task in failover.tasks}
    new = {
        _work(old, target.name): target.name
        for target in _targets_after(failover)
        if old.spec.target(target.name) is None
    }
    for work, cluster in new.items():
        for change in (decoded.change for decoded in around.get(work, ())):
            if change.version > began and change.type == "ADDED" and (last is None or change.version <= last):
                yield _step(change, kind.STARTED, cluster, "the Work for the cluster was created")
    for work, cluster in left.items():
        until = failover.regained.get(cluster)
        gone = (decoded.change for decoded in around.get(work, ()) if decoded.change.type == "DELETED")
        own = (change for change in gone if change.version > began and (until is None or change.version < until))
        if first := next(own, None):
            yield _step(first, kind.REMOVED, cluster, "the old copy is gone")


def _durations(steps: Sequence[Step], *, finished: bool) -> Durations:
    """Return the seconds that each part of the failover took."""

    def at(what: str, *, last: bool = False) -> float | None:
        moments = [step.seconds for step in steps if step.what == what]
        return None if not moments else max(moments) if last else min(moments)

    decided, placed, ended = at(kind.DECIDED), at(kind.SCHEDULED), at(kind.CLEARED, last=True)
    return Durations(
        detected=_seconds_between(at(kind.SEEN), at(kind.TAINTED)),
        waited=_seconds_between(at(kind.TAINTED), decided),
        scheduled=_seconds_between(decided, placed),
        started=_seconds_between(placed, at(kind.HEALTHY, last=True)),
        total=ended if finished else None,
    )


def _seconds_between(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None or end < start else round(end - start, 3)
