"""EvictionPending: what the rows of the eviction queue mean for their binding, as a condition."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from controlplane.apimachinery.meta import Condition, condition
from controlplane.eviction import operator_orders
from controlplane.kinds.binding import TAINT_UNTOLERATED, Binding
from controlplane.kinds.eviction import cause
from controlplane.kinds.rows import ABANDONED, ENDED, EVICTED, HELD, QUEUED, Eviction

EVICTION_PENDING: Final = "EvictionPending"
"""Condition type: True/Queued, True/Held, False/Evicted, False/Abandoned, False/Recovered, False/Reverted."""
RECOVERED, REVERTED = "Recovered", "Reverted"

DUE: Final = "due "


def pending_condition(
    binding: Binding, rows: Iterable[Eviction], before: Condition | None, *, stopped: str = ""
) -> Condition | None:
    """Return what the rows of a binding mean for it; None where nothing is or was to be said.

    `stopped`: why nothing is evicted at present; "" evictions go on.
    """
    waiting = sorted((row for row in rows if row.due_at is not None), key=lambda row: row.cluster)
    if waiting:
        reason = HELD if any(row.held for row in waiting) else QUEUED
        given = operator_orders.orders_by_cluster(binding)
        told = "; ".join(_waiting_text(row, given.get(row.cluster, ()), stopped) for row in waiting)
        return Condition(EVICTION_PENDING, "True", reason, told)
    over = [row for row in rows if row.state in ENDED and row.ended_at is not None and not _placed_again(binding, row)]
    if over:
        last = max(over, key=lambda row: (row.ended_at, row.cluster))
        return Condition(EVICTION_PENDING, "False", last.state, f"cluster {last.cluster}: {last.message}")
    if before is None or (before.status != "True" and before.reason != EVICTED):
        return None
    if before.status != "True":
        message = f"nothing waits to be evicted any more; before: evicted, {before.message}"
        return Condition(EVICTION_PENDING, "False", RECOVERED, message)
    if any(task.reason == TAINT_UNTOLERATED for task in binding.spec.graceful_eviction_tasks):
        return Condition(EVICTION_PENDING, "False", RECOVERED, "evicted; the cluster has recovered since")
    return Condition(EVICTION_PENDING, "False", ABANDONED, "no taint moves this workload any more")


def _placed_again(binding: Binding, row: Eviction) -> bool:
    """Test whether a copy that was evicted is placed on its old cluster again."""
    return row.state == EVICTED and binding.spec.target(row.cluster) is not None


def evicted_condition(binding: Binding) -> Condition | None:
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


def _waiting_text(row: Eviction, given: Iterable[operator_orders.Order], stopped: str) -> str:
    """Return what a row waits for: its time, with the taint that moves it; or what holds it."""
    if row.state != QUEUED or row.held:
        return f"cluster {row.cluster}: {row.reason or row.state}: {row.message}"
    due = "" if row.due_at is None else f"{row.due_at:%Y-%m-%dT%H:%M:%SZ}"
    parts = [f"cluster {row.cluster}: {DUE}{due}", cause(row)]
    taints = {(one.key, one.effect, one.time_added) for one in row.judged}
    ordered = (one for one in given if one.verb == operator_orders.EXPEDITE and not taints.isdisjoint(one.taints))
    parts += [f"expedited by {one.by}: {one.reason}" for one in ordered]
    parts += [f"nothing is evicted at present: {stopped}"] if stopped else []
    return ", ".join(part for part in parts if part)
