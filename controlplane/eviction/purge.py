"""How a copy leaves: the target becomes a task, purged Directly or Gracefully (D13)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from controlplane.apimachinery.meta import to_seconds
from controlplane.kinds.binding import (
    TAINT_MANAGER,
    TAINT_UNTOLERATED,
    Binding,
    GracefulEvictionTask,
)
from controlplane.kinds.rows import Judgement, Stop
from controlplane.settings import Settings

MAX_MESSAGE = 1024


def purge_mode(binding: Binding, settings: Settings) -> str:
    """Return the purge mode of evictions by taints: the policy's, else no_execute_taint_eviction_purge_mode."""
    behaviour = None if binding.spec.failover is None else binding.spec.failover.cluster
    return settings.no_execute_taint_eviction_purge_mode if behaviour is None else behaviour.purge_mode


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
    """Return the binding with its target on the cluster moved into a task; a task already there is left as it is.

    `stops`: when nothing was evicted. Those since the taint are told with the cause, and how long its turn took.
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
    """Yield what an eviction has waited for since its taint, other than what the binding says of holds."""
    for one in stops:
        until = one.until or now  # they go on before anybody notes that they do
        if until > cause.time_added:
            seconds = (until - max(one.since, cause.time_added)).total_seconds()
            stopped = f"stopped from {_time_text(one.since)} until {_time_text(until)}, {one.why}"
            yield f"evictions to go on, {seconds:.0f} s: {stopped}"
    due = cause.due_at
    if due is not None and now - due >= timedelta(seconds=1):
        yield f"its turn, which came {(now - due).total_seconds():.0f} s after it was due at {_time_text(due)}"


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
    """Return the binding with its target on a cluster moved into a task; a task already there is left as it is, but for
    that of a part, which leaves with the rest now.

    Raises AssertionError where the binding has no target there.
    """
    target = binding.spec.target(cluster)
    assert target is not None, f"{binding.ref} has no target on {cluster}"
    rest = tuple(one for one in binding.spec.clusters if one.name != cluster)
    tasks, part = binding.spec.graceful_eviction_tasks, binding.spec.kept_beside(cluster)
    if part:
        tasks = tuple(one for one in tasks if one.from_cluster != cluster)
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
    binding: Binding, cluster: str, replicas: int, *, mode: str, reason: str, producer: str, message: str, now: datetime
) -> Binding:
    """Return the binding with so many replicas of a target moved into a task, which keeps them running; the target
    stays with the others. Only what goes back does that (`reason` is one of IN_PART).

    Raises AssertionError where the target has no more than those replicas, or its cluster a task already.
    """
    target = binding.spec.target(cluster)
    assert target is not None, f"{binding.ref} has no target on {cluster}"
    assert target.replicas > replicas, f"{binding.ref} would leave {cluster} altogether"
    assert binding.spec.task(cluster) is None, f"{binding.ref} is leaving {cluster} already"
    rest = replace(target, replicas=target.replicas - replicas)
    task = GracefulEvictionTask(
        from_cluster=cluster,
        purge_mode=mode,
        replicas=replicas,
        reason=reason,
        message=message[:MAX_MESSAGE],
        producer=producer,
        creation_timestamp=to_seconds(now),
    )
    return binding.with_spec(
        clusters=tuple(rest if one.name == cluster else one for one in binding.spec.clusters),
        graceful_eviction_tasks=(*binding.spec.graceful_eviction_tasks, task),
    )
