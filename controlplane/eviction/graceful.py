"""Graceful eviction: when a task is cleared so that the old copy may be removed, and what a recovery cancels.

See [graceful-eviction], [graceful-timeout] and [recovered-clusters-cancel].
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import condition, to_seconds
from controlplane.apimachinery.times import later
from controlplane.clusters import health
from controlplane.kinds.binding import (
    APPLICATION_FAILURE,
    HEALTHY,
    IN_PART,
    MOVED,
    PARTLY_RESTORED,
    SCHEDULED,
    TAINT_UNTOLERATED,
    UNHEALTHY,
    AggregatedStatusItem,
    Binding,
    GracefulEvictionTask,
    TargetCluster,
    origin,
)
from controlplane.kinds.policy import DIRECTLY
from controlplane.kinds.rows import FleetState, Observation
from controlplane.scheduling.unstarted import given_back
from controlplane.settings import Settings

EVICTION_STUCK = "EvictionStuck"  # condition type; its reason is one of STATES, or NotStuck
RESOURCE_HEALTH, SCHEDULED_BACK = "ResourceHealth", "ScheduledBack"
# The most severe state first.
STATES = STUCK, WAITING_SOURCE, WAITING_WORKLOAD = "Stuck", "WaitingSource", "WaitingForWorkload"

SMALLEST_STEP = timedelta(microseconds=1)
MAX_CHECK_INTERVAL = timedelta(seconds=60)
MAX_NAMES = 3  # dependents named in a message
CHECKS_PER_WAIT = 10  # the interval between checks is the time waited so far, divided by this

DependentsByCluster = Mapping[str, Sequence[str]]
"""By cluster: the objects that still run there and need this object (`supporting_objects`)."""


class ClusterState(msgspec.Struct, frozen=True):
    """The state of a cluster that has a copy, or is being left.

    `ready`: the cluster is Ready and access is not lost. `evicting`: it has a taint that evicts workloads, so it has
    not recovered. `observed_at` None: no probe observes it. `observation`: says when it was not observed.
    """

    ready: bool
    evicting: bool
    observed_at: datetime | None = None
    observation: Observation | None = None


class ClearedTask(msgspec.Struct, frozen=True):
    """A task that is cleared, with the reason."""

    task: GracefulEvictionTask
    why: str


class WaitingTask(msgspec.Struct, frozen=True):
    """A task whose old copy stays. `state` is the reason of the condition EvictionStuck.

    Stuck: its time is over and a new copy is not healthy. WaitingSource: the cluster of the old copy is down.
    WaitingForWorkload: only objects that need this object still run there.
    """

    task: GracefulEvictionTask
    state: str
    waits_for: str


class TaskAssessment(msgspec.Struct, frozen=True):
    """The result for all tasks of a binding. `wake_at`: when it may change without any change of an object.

    `overdue`: tasks whose time is over. `waiting`: tasks in time that wait only for objects that need this object.
    """

    kept: tuple[GracefulEvictionTask, ...]
    cleared: tuple[ClearedTask, ...] = ()
    overdue: tuple[WaitingTask, ...] = ()
    waiting: tuple[WaitingTask, ...] = ()
    wake_at: datetime | None = None


def assess_tasks(
    binding: Binding,
    settings: Settings,
    *,
    clusters: Mapping[str, ClusterState] | None = None,
    dependents: DependentsByCluster | None = None,
    workers: FleetState | None = None,
    now: datetime,
) -> TaskAssessment:
    """Return which tasks of a binding are kept and which are cleared.

    `clusters` None: nothing is known about the clusters, and the reported health counts as it is. `dependents`: objects
    that still need the old copy. They keep it as an unhealthy target would. `workers`: see `health.ends_observed`.
    """
    kept: list[GracefulEvictionTask] = []
    cleared: list[ClearedTask] = []
    overdue: list[WaitingTask] = []
    waiting: list[WaitingTask] = []
    wakes: list[datetime] = []
    for task in binding.spec.graceful_eviction_tasks:
        if task.creation_timestamp is None:
            kept.append(replace(task, creation_timestamp=to_seconds(now)))
            wakes.append(deadline(kept[-1], settings) + SMALLEST_STEP)
            continue
        remaining = () if dependents is None else dependents.get(task.from_cluster, ())
        ends = deadline(task, settings)
        purged_at = _purged_at(binding, task, settings, clusters, workers, now=now)
        is_over = now > (ends if purged_at is None else purged_at)
        why = _clear_reason(binding, task, settings, clusters, remaining, is_over=is_over)
        if why:
            cleared.append(ClearedTask(task, why))
            for rest in _surplus_of_target(binding, task, why):
                kept.append(replace(rest, creation_timestamp=to_seconds(now)))
                wakes.append(deadline(kept[-1], settings) + SMALLEST_STEP)
            continue
        kept.append(task)
        if task.suppress_deletion is not None:
            continue
        if now > ends:
            if not _waits_for_nothing(binding, task, clusters):
                overdue.append(_waiting_task(binding, task, clusters, remaining))
            if purged_at is not None and now <= purged_at:
                wakes.append(purged_at + SMALLEST_STEP)
        else:
            wakes.append(ends + SMALLEST_STEP)
            if remaining and _resource_health(binding, task, clusters):
                waiting.append(_waiting_task(binding, task, clusters, remaining))
        if remaining:
            wakes.append(now + _check_interval(task, settings, now=now))
        if _needs_observation(binding, task, clusters):
            wakes.append(now + timedelta(seconds=settings.cluster_monitor_period))
    return TaskAssessment(tuple(kept), tuple(cleared), tuple(overdue), tuple(waiting), min(wakes, default=None))


def _check_interval(task: GracefulEvictionTask, settings: Settings, *, now: datetime) -> timedelta:
    """Return how long to wait before the next check whether dependents have left. No change of the binding reports
    this.

    The interval grows with the time that the task has waited.
    """
    assert task.creation_timestamp is not None, f"task from {task.from_cluster} is not stamped yet"
    waited = (now - task.creation_timestamp) / CHECKS_PER_WAIT
    return max(timedelta(seconds=settings.cluster_monitor_period), min(waited, MAX_CHECK_INTERVAL))


def deadline(task: GracefulEvictionTask, settings: Settings) -> datetime:
    """Return when the time of a task is over: its gracePeriodSeconds, else the setting graceful_eviction_timeout."""
    assert task.creation_timestamp is not None, f"task from {task.from_cluster} is not stamped yet"
    own = task.grace_period_seconds
    return later(task.creation_timestamp, settings.graceful_eviction_timeout if own is None else own)


def _purged_at(
    binding: Binding,
    task: GracefulEvictionTask,
    settings: Settings,
    clusters: Mapping[str, ClusterState] | None,
    workers: FleetState | None,
    *,
    now: datetime,
) -> datetime | None:
    """Return when on_graceful_timeout Purge clears a task, as far as is known now; None: it does not.

    Time in which a target or the cluster that is left was not observed, or no worker ran, because the control plane was
    away, does not count: a copy without any target had no chance to get one [outage-of-our-own].
    """
    since = task.creation_timestamp
    if since is None or task.grace_period_seconds is not None or settings.on_graceful_timeout != "Purge":
        return None
    names = (task.from_cluster, *(target.name for target in binding.spec.clusters))
    rows = [state.observation for name in names if (state := (clusters or {}).get(name)) is not None]
    limit = settings.graceful_eviction_timeout
    return max(health.ends_observed(since, limit, row, settings, workers=workers, now=now) for row in (None, *rows))


def overdue_on(binding: Binding, settings: Settings, *, now: datetime) -> tuple[str, ...]:
    """Return the clusters of the tasks whose time is over."""
    stamped = [task for task in binding.spec.graceful_eviction_tasks if task.creation_timestamp is not None]
    return tuple(task.from_cluster for task in stamped if now > deadline(task, settings))


def _clear_reason(
    binding: Binding,
    task: GracefulEvictionTask,
    settings: Settings,
    clusters: Mapping[str, ClusterState] | None,
    remaining: Sequence[str],
    *,
    is_over: bool,
) -> str:
    """Return why a task is cleared; "": it is kept.

    `remaining`: objects on the cluster that still need the copy. `is_over`: the deadline of the task has passed.

    on_graceful_timeout Purge clears no Directly task while the clusters are known. Such a task keeps new copies from
    starting while the old one may run [directly-unreachable], and carries the preserved state [state-preservation].
    """
    if clusters is not None and task.from_cluster not in clusters and not _keeps_state(binding, task, clusters):
        return "the cluster has been removed"
    if task.suppress_deletion is not None:
        return "" if task.suppress_deletion else "suppressDeletion is false"
    if is_over:
        if task.grace_period_seconds is not None:
            if not _last_healthy_copy(binding, task, clusters):
                return f"gracePeriodSeconds {task.grace_period_seconds} have passed"
        elif settings.on_graceful_timeout == "Purge" and (clusters is None or task.purge_mode != DIRECTLY):
            return f"graceful_eviction_timeout {settings.graceful_eviction_timeout:g} s has passed"
    for name in settings.evict_plugins:
        if CHECKS[name](binding, task, clusters) and not (remaining and name == RESOURCE_HEALTH):
            return name
    return ""


def _keeps_state(binding: Binding, task: GracefulEvictionTask, clusters: Mapping[str, ClusterState] | None) -> bool:
    """Test whether a task has preserved state for a new copy that has not been healthy yet."""
    return bool(task.preserved_label_state) and not _resource_health(binding, task, clusters)


def _resource_health(binding: Binding, task: GracefulEvictionTask, clusters: Mapping[str, ClusterState] | None) -> bool:
    """Test whether all targets of the latest scheduling result are healthy. Without targets they are not
    [graceful-timeout], unless the workload is scaled to zero.

    A Directly task stays then: it keeps new copies from starting while the old one may run, if the workload is scaled
    up again.
    """
    current, targets = is_scheduled(binding), binding.spec.clusters
    if current and not targets:
        return binding.scaled_to_zero and task.purge_mode != DIRECTLY
    return current and all(not unhealthy_reason(binding, target, task, clusters) for target in targets)


def is_scheduled(binding: Binding) -> bool:
    """Test whether the scheduler has processed the latest change of a binding, so that its targets are those it wants.

    They are too if the change is refused, for example a scale-up by a quota, and all evicted copies are placed again
    since they left. A Failback or a revert places the copies itself that it moves.
    """
    if binding.status.scheduler_observed_generation == binding.metadata.generation:
        return True
    scheduled = condition(binding.status.conditions, SCHEDULED)
    if scheduled is None or scheduled.status != "False":
        return False
    tasks = [task for task in binding.spec.graceful_eviction_tasks if task.reason not in IN_PART | MOVED]
    return not origin.waits(binding) and all(origin.placed_again(binding, task.from_cluster) for task in tasks)


def _scheduled_back(binding: Binding, task: GracefulEvictionTask, clusters: Mapping[str, ClusterState] | None) -> bool:
    """Test whether the cluster of a task is a target again, so that its copy stays [recovered-clusters-cancel].

    A target that only gives back some of its replicas never left, so it does not count.
    """
    cluster = task.from_cluster
    return binding.spec.target(cluster) is not None and not binding.spec.replicas_returning(cluster)


CHECKS = {RESOURCE_HEALTH: _resource_health, SCHEDULED_BACK: _scheduled_back}


def unhealthy_reason(
    binding: Binding, target: TargetCluster, task: GracefulEvictionTask, clusters: Mapping[str, ClusterState] | None
) -> str:
    """Return why a target does not count as healthy for a task; "": it does [graceful-timeout]."""
    item = _status_item(binding, target.name)
    if item is not None and item.out_of_reach_since is not None:
        return f"{target.name}: the cluster is not Ready or access to it is lost, so its last report does not count"
    if item is None or item.health != HEALTHY:
        return f"{target.name}: health is {item.health if item and item.health else 'not reported'}"
    ready = (item.status or {}).get("readyReplicas")
    wanted = min(target.replicas, 1) if item.scaled_by_member else target.replicas
    if isinstance(ready, int) and ready < wanted:
        return f"{target.name}: {ready} of {wanted} replicas are ready"
    if clusters is None:
        return ""
    state = clusters.get(target.name)
    if state is None or not state.ready:
        return f"{target.name}: the cluster is not Ready or access to it is lost, so its last report does not count"
    if health.fails(state.observation):
        return f"{target.name}: the last probe of the cluster failed, so its last report does not count"
    if _observed_before(state, task):
        return f"{target.name}: its health was observed before the eviction"
    return ""


def _observed_before(state: ClusterState, task: GracefulEvictionTask) -> bool:
    observed_at = state.observed_at
    return observed_at is not None and task.creation_timestamp is not None and observed_at < task.creation_timestamp


def _needs_observation(
    binding: Binding, task: GracefulEvictionTask, clusters: Mapping[str, ClusterState] | None
) -> bool:
    """Test whether only a newer observation of a target is missing. Probes change no object, so the task is checked
    again."""
    targets = [clusters.get(cluster.name) for cluster in binding.spec.clusters] if clusters is not None else []
    return any(
        state is not None and state.ready and (_observed_before(state, task) or health.fails(state.observation))
        for state in targets
    )


def _status_item(binding: Binding, cluster: str) -> AggregatedStatusItem | None:
    return next((item for item in binding.status.aggregated_status if item.cluster_name == cluster), None)


def _last_healthy_copy(
    binding: Binding, task: GracefulEvictionTask, clusters: Mapping[str, ClusterState] | None
) -> bool:
    """Test whether the old copy may be the last healthy one: no target is healthy, and it is not known to
    be unhealthy."""
    if any(not unhealthy_reason(binding, cluster, task, clusters) for cluster in binding.spec.clusters):
        return False
    source = _status_item(binding, task.from_cluster)
    return source is None or source.reported_health != UNHEALTHY


def _waiting_task(
    binding: Binding, task: GracefulEvictionTask, clusters: Mapping[str, ClusterState] | None, remaining: Sequence[str]
) -> WaitingTask:
    """Return the task with what its old copy waits for."""
    source = None if clusters is None else clusters.get(task.from_cluster)
    reasons = [why for cluster in binding.spec.clusters if (why := unhealthy_reason(binding, cluster, task, clusters))]
    if not binding.spec.clusters and not binding.scaled_to_zero:
        reasons = ["no cluster was found for the copy"]
    elif not is_scheduled(binding):
        reasons.append("the scheduler has not processed the latest change")
    state = WAITING_WORKLOAD if remaining and not reasons else STUCK
    if source is not None and not source.ready:
        state = WAITING_SOURCE
    return WaitingTask(task, state, "; ".join((*reasons, *([_dependents_message(remaining)] if remaining else ()))))


def _waits_for_nothing(
    binding: Binding, task: GracefulEvictionTask, clusters: Mapping[str, ClusterState] | None
) -> bool:
    """Test whether a Directly task stays only until a workload that is scaled to zero is scaled up again.

    Its cluster answers, so the old copy is removed, and no new copy is wanted.
    """
    state = None if clusters is None else clusters.get(task.from_cluster)
    unwanted = binding.scaled_to_zero and not binding.spec.clusters
    return unwanted and task.purge_mode == DIRECTLY and state is not None and state.ready


def _dependents_message(remaining: Sequence[str]) -> str:
    """Return which objects have to leave the cluster first, as text."""
    more = f" and {len(remaining) - MAX_NAMES} more" if len(remaining) > MAX_NAMES else ""
    return f"{', '.join(remaining[:MAX_NAMES])}{more} no longer runs on the cluster"


def with_copies_restored(
    binding: Binding,
    clusters: Mapping[str, ClusterState],
    *,
    unhealthy_on: Collection[str] = (),
    overdue: Collection[str] = (),
) -> tuple[Binding, tuple[ClearedTask, ...]]:
    """Return the binding with its copies restored on recovered clusters, and the tasks that this clears.

    Only tasks of evictions by taints and of application failover are considered, and only if scheduling failed or found
    no cluster. All other tasks run to their end [recovered-clusters-cancel]. Replicas of a restored copy that are
    placed elsewhere by now get a task of their own (`_surplus`), or come back if they have not started (`given_back`).
    If all of them are, the task stays until those are healthy. `unhealthy_on`: the clusters that the binding has left
    because its copy was unhealthy there. `overdue`: see `overdue_on`.
    """
    if not scheduling_found_nothing(binding):
        return binding, ()
    cleared: list[ClearedTask] = []
    targets, tasks = list(binding.spec.clusters), []
    for task in binding.spec.graceful_eviction_tasks:
        why = _reason_to_restore(binding, task, clusters.get(task.from_cluster), unhealthy_on, overdue)
        if not why or binding.spec.target(task.from_cluster) is not None:
            tasks.append(task)
            continue
        rest = list(given_back(binding, task, targets))
        replicas = _replicas_to_restore(binding, task, rest)
        whole = not binding.workload or bool(binding.spec.components)  # such a copy has no number of replicas
        if not whole and not replicas and _needed_until_healthy(binding, task, clusters):
            tasks.append(task)
            continue
        if whole or replicas:
            targets = [*rest, TargetCluster(task.from_cluster, replicas)]
            tasks += _surplus(binding, task, replicas)
        cleared.append(ClearedTask(task, f"{why} and no other cluster was found"))
    if not cleared:
        return binding, ()
    return binding.with_spec(clusters=tuple(targets), graceful_eviction_tasks=tuple(tasks)), tuple(cleared)


def found_no_other_cluster(binding: Binding) -> bool:
    """Test whether application failover evicted a copy for which the scheduler has found no other cluster."""
    tasks = binding.spec.graceful_eviction_tasks
    return any(task.reason == APPLICATION_FAILURE for task in tasks) and scheduling_found_nothing(binding)


def _reason_to_restore(
    binding: Binding,
    task: GracefulEvictionTask,
    state: ClusterState | None,
    unhealthy_on: Collection[str],
    overdue: Collection[str],
) -> str:
    """Return why a copy of a binding without another cluster becomes a target again; "": it does not.

    It does not if it was placed again since it left. Then a later change is refused, which is no reason to go back.
    A copy that only followed an unhealthy part of its application is not in `unhealthy_on`. It was healthy all the
    time, and a restored one would follow again. A person clears a task with purge mode Never.
    """
    name = task.from_cluster
    if state is None or state.evicting or (origin.placed_again(binding, name) and not origin.waits(binding)):
        return ""
    if task.reason == TAINT_UNTOLERATED:
        return "the cluster recovered"
    if task.reason != APPLICATION_FAILURE or task.suppress_deletion is not None or not state.ready:
        return ""
    item = _status_item(binding, name)
    if item is not None and item.health == HEALTHY and name in unhealthy_on:
        return "the copy is healthy again"
    # With purge mode Directly the old copy may be gone, and does not become healthy then.
    starts_again = task.purge_mode == DIRECTLY and name in overdue and not task.preserved_label_state
    return "the copy starts again" if starts_again else ""


def _needed_until_healthy(binding: Binding, task: GracefulEvictionTask, clusters: Mapping[str, ClusterState]) -> bool:
    """Test whether the old copy of a task stays because its replicas do not run on other clusters yet."""
    targets = binding.spec.clusters
    return task.purge_mode != DIRECTLY and any(unhealthy_reason(binding, one, task, clusters) for one in targets)


def _surplus(binding: Binding, task: GracefulEvictionTask, restored: int) -> tuple[GracefulEvictionTask, ...]:
    """Return the task of the replicas that a restored copy has above its target: they stay until all targets are
    healthy, because they may be the only ones that run [no-healthy-copy-lost]. (): there are none.

    After an eviction with purge mode Directly these have started elsewhere (`given_back`), and must not run here as
    well. The grace period of the eviction does not count for them, because the cluster that they are on is well.
    """
    more = min(task.replicas or 0, binding.spec.replicas) - restored
    if more <= 0 or task.purge_mode == DIRECTLY:
        return ()
    rest = GracefulEvictionTask(
        from_cluster=task.from_cluster,
        purge_mode=task.purge_mode,
        replicas=more,
        reason=PARTLY_RESTORED,
        message="a part of the copy is restored, and the other replicas run until those on other clusters are healthy",
        producer=task.producer,
    )
    return (rest,)


def _surplus_of_target(binding: Binding, task: GracefulEvictionTask, why: str) -> tuple[GracefulEvictionTask, ...]:
    """Return the task of the replicas that a target does not get back, because other clusters have got them.

    `why`: why the task of its copy is cleared. They stay unless all targets are healthy, as those of a restored copy.
    """
    target = binding.spec.target(task.from_cluster)
    return () if target is None or why != SCHEDULED_BACK else _surplus(binding, task, target.replicas)


def _replicas_to_restore(binding: Binding, task: GracefulEvictionTask, targets: list[TargetCluster]) -> int:
    replicas = task.replicas or 0
    if binding.spec.placement is None or not binding.spec.placement.divided:
        return replicas
    return min(replicas, max(0, binding.spec.replicas - sum(target.replicas for target in targets)))


def scheduling_found_nothing(binding: Binding) -> bool:
    """Test whether the latest scheduling failed or found no cluster. False while scheduling has not run yet."""
    scheduled = condition(binding.status.conditions, SCHEDULED)
    generation = binding.metadata.generation
    if scheduled is not None and scheduled.status == "False":
        return scheduled.observed_generation is None or scheduled.observed_generation >= generation
    return not binding.spec.clusters and binding.status.scheduler_observed_generation >= generation
