"""Which graceful eviction tasks are cleared, under the settings that restore the older behaviour [graceful-timeout]."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from controlplane.apimachinery.meta import ObjectMeta
from controlplane.eviction.graceful import RESOURCE_HEALTH, TaskAssessment, assess_tasks, deadline
from controlplane.kinds.binding import (
    AggregatedStatusItem,
    Binding,
    GracefulEvictionTask,
    ObjectReference,
    ResourceBindingSpec,
    ResourceBindingStatus,
    TargetCluster,
)
from controlplane.settings import Settings
from tests.conformance.compare import equivalent
from tests.conformance.documents import typed

Document = dict[str, Any]

EMPTY_TARGETS = "[graceful-timeout] an empty schedule result never counts as healthy"
FEWER_READY = "[graceful-timeout] fewer ready replicas than asked never count as healthy"
LAST_COPY = "[graceful-timeout] a gracePeriodSeconds never removes the last healthy copy"


def run(given: Document) -> Document:
    binding, settings, now = _read(given)
    found = assess_tasks(binding, settings, now=now)
    return {
        "keptTasks": msgspec.to_builtins(found.kept),
        "evictedClusters": [one.task.from_cluster for one in found.cleared],
        "nextRetrySeconds": _next_retry(found, settings, now=now),
    }


def _next_retry(found: TaskAssessment, settings: Settings, *, now: datetime) -> float:
    """Return the seconds to the earliest deadline of a kept task that has one."""
    waits = [(deadline(task, settings) - now).total_seconds() for task in found.kept if task.suppress_deletion is None]
    return min(waits, default=0)


def agree(expect: Document, result: Document) -> bool:
    wait, ours = expect["nextRetrySeconds"], result["nextRetrySeconds"]
    retries = wait == ours or (wait <= 0 and ours <= 0)
    return retries and all(equivalent(expect[part], result[part]) for part in ("keptTasks", "evictedClusters"))


def differs(given: Document, expect: Document, result: Document) -> str | None:
    """We keep what the original lets go: a task whose workload has no healthy copy anywhere else."""
    gone = set(expect["evictedClusters"]) - set(result["evictedClusters"])
    rest = [task for task in result["keptTasks"] if task["fromCluster"] not in gone]
    if set(result["evictedClusters"]) - set(expect["evictedClusters"]) or not equivalent(expect["keptTasks"], rest):
        return None
    binding, settings, now = _read(given)
    reasons = [
        _kept_for(given, task, late=now > deadline(task, settings))
        for task in binding.spec.graceful_eviction_tasks
        if task.from_cluster in gone
    ]
    return reasons[0] if reasons and all(reasons) else None


def _kept_for(given: Document, task: GracefulEvictionTask, *, late: bool) -> str:
    """Return why a task the original lets go is kept; "" where there is no reason."""
    targets = {one["name"]: one.get("replicas", 0) for one in given["clusters"] or []}
    healthy = [
        (one["clusterName"], (one.get("status") or {}).get("readyReplicas"))
        for one in given["aggregatedStatus"] or []
        if one["clusterName"] in targets and one.get("health") == "Healthy"
    ]
    short = {name for name, ready in healthy if ready is not None and ready < targets[name]}
    if late:
        return LAST_COPY if task.grace_period_seconds is not None and len(short) == len(healthy) else ""
    if not targets:
        return EMPTY_TARGETS
    return FEWER_READY if short else ""


def _read(given: Document) -> tuple[Binding, Settings, datetime]:
    spec = ResourceBindingSpec(
        resource=ObjectReference("apps/v1", "Deployment", "web"),
        clusters=typed(given["clusters"] or [], tuple[TargetCluster, ...]),
        graceful_eviction_tasks=typed(given["gracefulEvictionTasks"] or [], tuple[GracefulEvictionTask, ...]),
    )
    status = ResourceBindingStatus(
        scheduler_observed_generation=given["schedulerObservedGeneration"],
        aggregated_status=typed(given["aggregatedStatus"] or [], tuple[AggregatedStatusItem, ...]),
    )
    settings = Settings(
        graceful_eviction_timeout=given["gracefulEvictionTimeoutSeconds"],
        on_graceful_timeout="Purge",
        evict_plugins=(RESOURCE_HEALTH,),
    )
    binding = Binding("", "", ObjectMeta(generation=given["generation"]), spec, status)
    return binding, settings, typed(given["now"], datetime)
