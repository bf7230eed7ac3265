"""Which copies leave because the application itself fails, and when to look again [application-failover]."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from controlplane.eviction.application_failover import MAX_CLUSTERS_LEFT, decide_application_failover
from controlplane.kinds.binding import Binding
from controlplane.settings import Settings
from tests.conformance.compare import equivalent
from tests.conformance.documents import typed

Document = dict[str, Any]

STAYS = "[broken-release]: a version unhealthy on several clusters leaves two of them"
NOT_COUNTED = "a copy that is no target is not counted: it cannot leave"


def run(given: Document) -> Document:
    binding = typed(given["binding"], Binding)
    now = typed(given["now"], datetime)
    since = typed(given["unhealthySince"] or {}, dict[str, datetime])
    found = decide_application_failover(binding, since, Settings(), now=now)
    before = {task.from_cluster for task in binding.spec.graceful_eviction_tasks}
    tasks = msgspec.to_builtins(found.binding.spec.graceful_eviction_tasks)
    for task in tasks:
        if task["fromCluster"] not in before:
            task.pop("creationTimestamp")  # the original stamps it later, in another controller
    wait = 0 if found.wake_at is None else (found.wake_at - now).total_seconds()
    return {
        "clusters": msgspec.to_builtins(found.binding.spec.clusters),
        "gracefulEvictionTasks": tasks,
        "requeueAfterSeconds": round(wait, 3),
        "unhealthySinceAfter": msgspec.to_builtins(found.since),
    }


def agree(expect: Document, result: Document) -> bool:
    return equivalent(expect, result)


def differs(given: Document, expect: Document, result: Document) -> str | None:
    return _version_stays(given, expect, result) or _not_counted(given, expect, result)


def _version_stays(given: Document, expect: Document, result: Document) -> str | None:
    """The original lets a version leave every cluster it is unhealthy on; here it stays after two [broken-release]."""
    before = len(given["binding"]["spec"].get("gracefulEvictionTasks") or [])
    tasks, stay = expect["gracefulEvictionTasks"] or [], before + MAX_CLUSTERS_LEFT
    ill = {task["fromCluster"] for task in tasks[stay:]}
    kept = [one for one in result["clusters"] if one["name"] not in ill]
    same = equivalent(tasks[:stay], result["gracefulEvictionTasks"]) and equivalent(expect["clusters"] or [], kept)
    left = {task["fromCluster"] for task in tasks[before:stay]}
    return STAYS if ill and same and not any(one["name"] in left for one in result["clusters"]) else None


def _not_counted(given: Document, expect: Document, result: Document) -> str | None:
    """The original also counts copies that are no targets: they cannot leave, so nothing is waited for."""
    parts = ("clusters", "gracefulEvictionTasks", "unhealthySinceAfter")
    targets = {one["name"] for one in given["binding"]["spec"].get("clusters") or []}
    tasks = {one["fromCluster"] for one in given["binding"]["spec"].get("gracefulEvictionTasks") or []}
    elsewhere = any(
        one.get("health") == "Unhealthy" and one["clusterName"] not in targets | tasks
        for one in (given["binding"].get("status") or {}).get("aggregatedStatus") or ()
    )
    theirs, ours = expect["requeueAfterSeconds"], result["requeueAfterSeconds"]
    sooner = theirs < ours or not ours
    return NOT_COUNTED if elsewhere and sooner and all(equivalent(expect[one], result[one]) for one in parts) else None
