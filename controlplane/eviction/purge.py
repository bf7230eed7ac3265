"""How a copy leaves a cluster: its target becomes a graceful eviction task, purged Directly or Gracefully
[purge-modes]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache

from msgspec.structs import replace

from controlplane.apimachinery.meta import to_seconds
from controlplane.kinds.binding import (
    TAINT_MANAGER,
    TAINT_UNTOLERATED,
    Binding,
    GracefulEvictionTask,
)
from controlplane.kinds.policy import GRACEFULLY
from controlplane.kinds.rows import Judgement, Stop
from controlplane.settings import Settings

MAX_MESSAGE = 1024


def purge_mode(binding: Binding, settings: Settings) -> str:
    """Return the purge mode of evictions by taints: that of the policy, else no_execute_taint_eviction_purge_mode."""
    behaviour = None if binding.spec.failover is None else binding.spec.failover.cluster
    return settings.no_execute_taint_eviction_purge_mode if behaviour is None else behaviour.purges


def is_eviction(old: Binding | None, new: Binding) -> bool:
    """Test whether a change of a binding evicts a copy."""
    return old is not None and len(new.spec.graceful_eviction_tasks) > len(old.spec.graceful_eviction_tasks)


def with_taint_task(
    binding: Binding,
    cluster: str,
    cause: Judgement,
    settings: Settings,
    *,
    preserved: Mapping[str, str],
    stops: Iterable[Stop] = (),
    now: datetime,
) -> Binding:
    """Return the binding with its target on the cluster moved into a task, because of a taint.

    The task records what the eviction waited for since the taint was added. `stops`: times in which no evictions took
    place.
    """
    return with_task(
        binding,
        cluster,
        mode=purge_mode(binding, settings),
        reason=TAINT_UNTOLERATED,
        producer=TAINT_MANAGER,
        message=f"taint {cause.key}:{cause.effect} of {_time_text(cause.time_added)}",
        preserved=preserved,
        taint=f"{cause.key}:{cause.effect}",
        waited_for=tuple(_waited_for(cause, stops, now=now)),
        now=now,
    )


def _waited_for(cause: Judgement, stops: Iterable[Stop], *, now: datetime) -> Iterable[str]:
    """Yield what an eviction waited for since its taint was added, apart from holds: stops, and its turn in
    the queue."""
    for stop in stops:
        until = stop.until or now  # evictions resume before the end of the stop is stored
        if until > cause.time_added:
            seconds = (until - max(stop.since, cause.time_added)).total_seconds()
            stopped = f"stopped from {_time_text(stop.since)} until {_time_text(until)}, {stop.why}"
            yield f"evictions to resume, {seconds:.0f} s: {stopped}"
    due = cause.due_at
    if due is not None and now - due >= timedelta(seconds=1):
        late = (now - due).total_seconds()
        yield f"its turn in the queue, which came {late:.0f} s after it was due at {_time_text(due)}"


@lru_cache(maxsize=1024)  # many evictions name the same times
def _time_text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def with_task(
    binding: Binding,
    cluster: str,
    *,
    mode: str,
    reason: str,
    producer: str,
    message: str,
    preserved: Mapping[str, str] | None = None,
    taint: str = "",
    waited_for: tuple[str, ...] = (),
    now: datetime,
) -> Binding:
    """Return the binding with its target on a cluster moved into a task.

    A task that exists for the cluster is kept, except a partial one (`with_partial_task`): it is replaced by a task for
    all replicas. Raises AssertionError if the binding has no target on the cluster.
    """
    target = binding.spec.target(cluster)
    assert target is not None, f"{binding.ref} has no target on {cluster}"
    rest = tuple(item for item in binding.spec.clusters if item.name != cluster)
    tasks, part = binding.spec.graceful_eviction_tasks, binding.spec.replicas_returning(cluster)
    if part:
        tasks = tuple(entry for entry in tasks if entry.from_cluster != cluster)
    if part or binding.spec.task(cluster) is None:
        task = GracefulEvictionTask(
            from_cluster=cluster,
            purge_mode=mode,
            replicas=(target.replicas + part) or None,
            reason=reason,
            message=message[:MAX_MESSAGE],
            producer=producer,
            preserved_label_state=dict(preserved or {}),
            creation_timestamp=to_seconds(now),
            taint=taint,
            waited_for=waited_for,
        )
        tasks = (*tasks, task)
    return binding.with_spec(clusters=rest, graceful_eviction_tasks=tasks)


def with_partial_task(
    binding: Binding, cluster: str, replicas: int, *, reason: str, producer: str, message: str, now: datetime
) -> Binding:
    """Return the binding with some replicas of a target moved into a task, which keeps them running for now.

    The target keeps the other replicas. Only failbacks and reverts call this, so `reason` is one of IN_PART. The part
    leaves Gracefully, whatever the purge mode of the policy is: the copy works, and nothing is wrong with its cluster
    [no-healthy-copy-lost]. Raises AssertionError if the target has no more than these replicas, or if its cluster has a
    task.
    """
    target = binding.spec.target(cluster)
    assert target is not None, f"{binding.ref} has no target on {cluster}"
    assert target.replicas > replicas, f"{binding.ref} would leave {cluster} altogether"
    assert binding.spec.task(cluster) is None, f"{binding.ref} is leaving {cluster} already"
    rest = replace(target, replicas=target.replicas - replicas)
    task = GracefulEvictionTask(
        from_cluster=cluster,
        purge_mode=GRACEFULLY,
        replicas=replicas,
        reason=reason,
        message=message[:MAX_MESSAGE],
        producer=producer,
        creation_timestamp=to_seconds(now),
    )
    return binding.with_spec(
        clusters=tuple(rest if item.name == cluster else item for item in binding.spec.clusters),
        graceful_eviction_tasks=(*binding.spec.graceful_eviction_tasks, task),
    )


def in_one_edit(old: Binding, new: Binding) -> Binding:
    """Return the old binding with the targets and tasks of the new one, as one edit that raises the generation once."""
    return old.with_spec(clusters=new.spec.clusters, graceful_eviction_tasks=new.spec.graceful_eviction_tasks)
