"""EvictionPending: what the rows of the eviction queue mean for their binding, as a condition."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from controlplane.kinds.binding import TAINT_UNTOLERATED, Binding
from controlplane.kinds.rows import ABANDONED, ENDED, EVICTED, HELD, QUEUED, Eviction
from controlplane.meta import Condition, condition

EVICTION_PENDING: Final = "EvictionPending"
"""Condition type: True/Queued, True/Held, False/Evicted, False/Abandoned."""

DUE: Final = "due "


def pending(binding: Binding, rows: Iterable[Eviction], before: Condition | None) -> Condition | None:
    """Return what the rows of a binding mean for it; None where nothing is or was to be said."""
    waiting = sorted((row for row in rows if row.due_at is not None), key=lambda row: row.cluster)
    if waiting:
        reason = HELD if any(row.held for row in waiting) else QUEUED
        return Condition(EVICTION_PENDING, "True", reason, "; ".join(_waits(row) for row in waiting))
    over = [row for row in rows if row.state in ENDED and row.ended_at is not None]
    if over:
        last = max(over, key=lambda row: (row.ended_at, row.cluster))
        return Condition(EVICTION_PENDING, "False", last.state, f"cluster {last.cluster}: {last.message}")
    if before is None or before.status != "True":
        return None
    if any(task.reason == TAINT_UNTOLERATED for task in binding.spec.graceful_eviction_tasks):
        return Condition(EVICTION_PENDING, "False", EVICTED, "evicted; the cluster has recovered since")
    return Condition(EVICTION_PENDING, "False", ABANDONED, "no taint moves this workload any more")


def told_evicted(binding: Binding) -> Condition | None:
    """Return the condition that says the binding was evicted and nothing of it waits any more; None: it says else."""
    told = condition(binding.status.conditions, EVICTION_PENDING)
    return told if told is not None and told.reason == EVICTED else None


def waits_for(told: Condition | None, cluster: str) -> str:
    """Return what the condition says the eviction from a cluster waits for; "" where it says nothing of it."""
    if told is None or told.status != "True":
        return ""
    found = re.search(rf"(?:^|; )cluster {re.escape(cluster)}: (.*?)(?=; cluster [^ :]+: |$)", told.message, re.DOTALL)
    if found is None:
        return ""
    return f"{QUEUED}: {found[1]}" if found[1].startswith(DUE) else found[1]


def _waits(row: Eviction) -> str:
    due = "" if row.due_at is None else f"{row.due_at:%Y-%m-%dT%H:%M:%SZ}"
    if row.state == QUEUED and not row.held:
        return f"cluster {row.cluster}: {DUE}{due}"
    return f"cluster {row.cluster}: {row.reason or row.state}: {row.message}"
