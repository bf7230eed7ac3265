"""When a task is cleared and the old copy may go, and what a recovery cancels (D11, D12; semantics 2.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import condition, to_seconds
from controlplane.apimachinery.times import later
from controlplane.kinds.binding import (
    HEALTHY,
    SCHEDULED,
    TAINT_UNTOLERATED,
    UNHEALTHY,
    AggregatedStatusItem,
    Binding,
    GracefulEvictionTask,
    TargetCluster,
)
from controlplane.kinds.policy import DIRECTLY
from controlplane.settings import Settings

EVICTION_STUCK = "EvictionStuck"  # condition type; its reason is one of STATES, or NotStuck
RESOURCE_HEALTH, SCHEDULED_BACK = "ResourceHealth", "ScheduledBack"
STATES = STUCK, WAITING_SOURCE, WAITING_WORKLOAD = "Stuck", "WaitingSource", "WaitingForWorkload"  # the gravest first

SMALLEST_STEP = timedelta(microseconds=1)
MAX_CHECK_INTERVAL = timedelta(seconds=60)
MAX_NAMES = 3  # names of what a copy stays for
CHECKS_PER_WAIT = 10  # how often is looked within the time that was waited already

DependentsByCluster = Mapping[str, Sequence[str]]
"""By cluster: what an object without pods is there for and that is still there (`companions`)."""


class ClusterState(msgspec.Struct, frozen=True):
    """What is known of a cluster that holds a copy or is being left. `ready`: it is, and lets us in.

    `observed_at` None: nobody probes it.
    """

    ready: bool
    moving: bool  # it carries a taint that moves workloads: it has not recovered
    observed_at: datetime | None = None


class ClearedTask(msgspec.Struct, frozen=True):
    """A task that goes, and why."""

    task: GracefulEvictionTask
    why: str


class WaitingTask(msgspec.Struct, frozen=True):
    """A task whose old copy stays. `state` is Stuck, WaitingSource where the source itself is down, or
    WaitingForWorkload where only what the object is there for has not left yet."""

    task: GracefulEvictionTask
    state: str
    waits_for: str


class TaskAssessment(msgspec.Struct, frozen=True):
    """What becomes of the tasks of a binding; `wake_at`: when the clock alone may change it.

    `overdue`: past their time; `waiting`: in time, but nothing of their own is missing any more.
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
    places: Mapping[str, ClusterState] | None = None,
    beside: DependentsByCluster | None = None,
    now: datetime,
) -> TaskAssessment:
    """Return which tasks are kept and which are cleared.

    `places` None: nothing is known of the clusters, and health is taken as it is reported. What is `beside` the copy on
    a cluster keeps it there as long as an unhealthy target would.
    """
    kept: list[GracefulEvictionTask] = []
    cleared: list[ClearedTask] = []
    overdue: list[WaitingTask] = []
    waiting: list[WaitingTask] = []
    wakes: list[datetime] = []
    for task in binding.spec.graceful_eviction_tasks:
        if task.creation_timestamp is None:
            task = replace(task, creation_timestamp=to_seconds(now))
            kept.append(task)
            wakes.append(deadline(task, settings) + SMALLEST_STEP)
            continue
        still = () if beside is None else beside.get(task.from_cluster, ())
        why = _clear_reason(binding, task, settings, places, still, now=now)
        if why:
            cleared.append(ClearedTask(task, why))
            continue
        kept.append(task)
        if task.suppress_deletion is not None:
            continue
        if now > deadline(task, settings):
            overdue.append(_waiting_task(binding, task, places, still))
        else:
            wakes.append(deadline(task, settings) + SMALLEST_STEP)
            if still and _resource_health(binding, task, places):
                waiting.append(_waiting_task(binding, task, places, still))
        if still:
            wakes.append(now + _check_interval(task, settings, now=now))
        if _needs_observation(binding, task, places):
            wakes.append(now + timedelta(seconds=settings.cluster_monitor_period))
    return TaskAssessment(tuple(kept), tuple(cleared), tuple(overdue), tuple(waiting), min(wakes, default=None))


def _check_interval(task: GracefulEvictionTask, settings: Settings, *, now: datetime) -> timedelta:
    """Return when to look again whether companions have left: no change of this binding says so. The longer it lasts
    the less often."""
    assert task.creation_timestamp is not None, f"task from {task.from_cluster} is not stamped yet"
    waited = (now - task.creation_timestamp) / CHECKS_PER_WAIT
    return max(timedelta(seconds=settings.cluster_monitor_period), min(waited, MAX_CHECK_INTERVAL))


def deadline(task: GracefulEvictionTask, settings: Settings) -> datetime:
    """Return when a task's time is over: its own gracePeriodSeconds wins over graceful_eviction_timeout."""
    assert task.creation_timestamp is not None, f"task from {task.from_cluster} is not stamped yet"
    own = task.grace_period_seconds
    return later(task.creation_timestamp, settings.graceful_eviction_timeout if own is None else own)


def _clear_reason(
    binding: Binding,
    task: GracefulEvictionTask,
    settings: Settings,
    places: Mapping[str, ClusterState] | None,
    still: Sequence[str],
    *,
    now: datetime,
) -> str:
    """Return why a task is cleared; "" where it is kept. `still`: what the copy is there for, and still there too.

    Purge ends no task that leaves Directly, where anything is known of clusters: it keeps no copy, but others from
    starting while that of a lost cluster may run (D14), and state for them (D15).
    """
    if places is not None and task.from_cluster not in places and not _keeps_state(binding, task, places):
        return "the cluster is gone"
    if task.suppress_deletion is not None:
        return "" if task.suppress_deletion else "suppressDeletion is false"
    if now > deadline(task, settings):
        if task.grace_period_seconds is not None:
            if not _last_healthy_copy(binding, task, places):
                return f"gracePeriodSeconds {task.grace_period_seconds} have passed"
        elif settings.on_graceful_timeout == "Purge" and (places is None or task.purge_mode != DIRECTLY):
            return f"graceful_eviction_timeout {settings.graceful_eviction_timeout:g} s has passed"
    for name in settings.evict_plugins:
        if CHECKS[name](binding, task, places) and not (still and name == RESOURCE_HEALTH):
            return name
    return ""


def _keeps_state(binding: Binding, task: GracefulEvictionTask, places: Mapping[str, ClusterState] | None) -> bool:
    """Test whether a task still keeps state for a copy that has not been healthy yet (D15)."""
    return bool(task.preserved_label_state) and not _resource_health(binding, task, places)


def _resource_health(binding: Binding, task: GracefulEvictionTask, places: Mapping[str, ClusterState] | None) -> bool:
    """All targets of the latest schedule result are healthy; an empty result never is (D11)."""
    current = binding.status.scheduler_observed_generation == binding.metadata.generation
    targets = binding.spec.clusters
    return current and bool(targets) and all(not unhealthy_reason(binding, one, task, places) for one in targets)


def _scheduled_back(binding: Binding, task: GracefulEvictionTask, places: Mapping[str, ClusterState] | None) -> bool:
    """The cluster is in the result again: the copy is wanted there (D12). One that gives a part back never left it."""
    cluster = task.from_cluster
    return binding.spec.target(cluster) is not None and not binding.spec.kept_beside(cluster)


CHECKS = {RESOURCE_HEALTH: _resource_health, SCHEDULED_BACK: _scheduled_back}


def unhealthy_reason(
    binding: Binding, target: TargetCluster, task: GracefulEvictionTask, places: Mapping[str, ClusterState] | None
) -> str:
    """Return why a target does not count as healthy for this task; "" where it does (D11)."""
    item = _status_item(binding, target.name)
    if item is not None and item.out_of_reach_since is not None:
        return f"{target.name}: the cluster is not Ready or does not let us in, its last word does not count"
    if item is None or item.health != HEALTHY:
        return f"{target.name}: health is {item.health if item and item.health else 'not reported'}"
    ready = (item.status or {}).get("readyReplicas")
    if isinstance(ready, int) and ready < target.replicas:
        return f"{target.name}: {ready} of {target.replicas} replicas are ready"
    if places is None:
        return ""
    place = places.get(target.name)
    if place is None or not place.ready:
        return f"{target.name}: the cluster is not Ready or does not let us in, its last word does not count"
    if _observed_before(place, task):
        return f"{target.name}: its health was observed before the eviction"
    return ""


def _observed_before(place: ClusterState, task: GracefulEvictionTask) -> bool:
    seen = place.observed_at
    return seen is not None and task.creation_timestamp is not None and seen < task.creation_timestamp


def _needs_observation(binding: Binding, task: GracefulEvictionTask, places: Mapping[str, ClusterState] | None) -> bool:
    """Test whether only a newer observation is missing: probes leave no change that would bring us back."""
    targets = [places.get(one.name) for one in binding.spec.clusters] if places is not None else []
    return any(place is not None and place.ready and _observed_before(place, task) for place in targets)


def _status_item(binding: Binding, cluster: str) -> AggregatedStatusItem | None:
    return next((one for one in binding.status.aggregated_status if one.cluster_name == cluster), None)


def _last_healthy_copy(binding: Binding, task: GracefulEvictionTask, places: Mapping[str, ClusterState] | None) -> bool:
    """Test whether the old copy may be the only healthy one: no target is, and it is not known to be unhealthy."""
    if any(not unhealthy_reason(binding, one, task, places) for one in binding.spec.clusters):
        return False
    source = _status_item(binding, task.from_cluster)
    return source is None or source.told_health != UNHEALTHY


def _waiting_task(
    binding: Binding, task: GracefulEvictionTask, places: Mapping[str, ClusterState] | None, still: Sequence[str]
) -> WaitingTask:
    """Return what a copy waits for."""
    source = None if places is None else places.get(task.from_cluster)
    reasons = [why for one in binding.spec.clusters if (why := unhealthy_reason(binding, one, task, places))]
    if not binding.spec.clusters:
        reasons = ["no cluster was found for the copy"]
    elif binding.status.scheduler_observed_generation < binding.metadata.generation:
        reasons.append("the scheduler has not dealt with the latest change")
    state = WAITING_WORKLOAD if still and not reasons else STUCK
    if source is not None and not source.ready:
        state = WAITING_SOURCE
    return WaitingTask(task, state, "; ".join((*reasons, *([_dependents_message(still)] if still else ()))))


def _dependents_message(still: Sequence[str]) -> str:
    """Return in words what has to leave first."""
    more = f" and {len(still) - MAX_NAMES} more" if len(still) > MAX_NAMES else ""
    return f"{', '.join(still[:MAX_NAMES])}{more} no longer runs there"


def with_copies_restored(
    binding: Binding, places: Mapping[str, ClusterState]
) -> tuple[Binding, tuple[ClearedTask, ...]]:
    """Return the binding with copies put back where a recovered cluster's task led nowhere (S001's six rows, D12).

    Only tasks of taint evictions, and only where rescheduling came out empty or failed; any other runs to its end.
    """
    if not scheduling_found_nothing(binding):
        return binding, ()
    cleared: list[ClearedTask] = []
    clusters, tasks = list(binding.spec.clusters), []
    for task in binding.spec.graceful_eviction_tasks:
        place = places.get(task.from_cluster)
        back = place is not None and not place.moving and task.reason == TAINT_UNTOLERATED
        if not back or binding.spec.target(task.from_cluster) is not None:
            tasks.append(task)
            continue
        replicas = _replicas_to_restore(binding, task, clusters)
        if replicas or not binding.workload:
            clusters.append(TargetCluster(task.from_cluster, replicas))
        cleared.append(ClearedTask(task, "the cluster recovered and no other place was found"))
    if not cleared:
        return binding, ()
    return binding.with_spec(clusters=tuple(clusters), graceful_eviction_tasks=tuple(tasks)), tuple(cleared)


def _replicas_to_restore(binding: Binding, task: GracefulEvictionTask, clusters: list[TargetCluster]) -> int:
    replicas = task.replicas or 0
    if binding.spec.placement is None or not binding.spec.placement.divided:
        return replicas
    return min(replicas, max(0, binding.spec.replicas - sum(one.replicas for one in clusters)))


def scheduling_found_nothing(binding: Binding) -> bool:
    """Test whether the latest scheduling came out empty or failed; one still to come is neither."""
    scheduled = condition(binding.status.conditions, SCHEDULED)
    generation = binding.metadata.generation
    if scheduled is not None and scheduled.status == "False":
        return scheduled.observed_generation is None or scheduled.observed_generation >= generation
    return not binding.spec.clusters and binding.status.scheduler_observed_generation >= generation
