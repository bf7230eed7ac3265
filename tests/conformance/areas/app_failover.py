"""Which copies leave because the application itself fails, and when to look again (semantics 2.12)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from controlplane.eviction.application import course
from controlplane.kinds.binding import Binding
from controlplane.settings import Settings
from tests.conformance.compare import equivalent, without_nulls

Document = dict[str, Any]


def run(given: Document) -> Document:
    binding = msgspec.convert(without_nulls(given["binding"]), Binding)
    now = msgspec.convert(given["now"], datetime)
    since = msgspec.convert(given["unhealthySince"] or {}, dict[str, datetime])
    found = course(binding, since, Settings(), now=now)
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
    """The original also counts copies that are no targets: they cannot leave, so nothing is waited for."""
    same = all(equivalent(expect[part], result[part]) for part in ("clusters", "gracefulEvictionTasks"))
    targets = {one["name"] for one in given["binding"]["spec"].get("clusters") or []}
    elsewhere = any(
        one.get("health") == "Unhealthy" and one["clusterName"] not in targets
        for one in (given["binding"].get("status") or {}).get("aggregatedStatus") or ()
    )
    return "a copy that is no target is not counted: it cannot leave" if same and elsewhere else None
