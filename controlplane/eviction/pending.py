"""The condition EvictionPending of a binding, made from its rows in the eviction queue.

What each eviction waits for is kept in `status.pendingEvictions`, one entry for each cluster. The message of the
condition is made from these entries, so records of failovers read the entries and never take the message apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from controlplane.apimachinery.meta import Condition, condition, with_condition
from controlplane.eviction import operator_orders
from controlplane.kinds.binding import TAINT_UNTOLERATED, Binding, PendingEviction
from controlplane.kinds.eviction import taint_cause
from controlplane.kinds.rows import ABANDONED, ENDED, EVICTED, HELD, QUEUED, Eviction

EVICTION_PENDING: Final = "EvictionPending"
"""Condition type: True/Queued, True/Held, False/Evicted, False/Abandoned, False/Recovered, False/Reverted."""
RECOVERED, REVERTED = "Recovered", "Reverted"


def with_eviction_pending(binding: Binding, rows: Sequence[Eviction], *, stopped: str = "", now: datetime) -> Binding:
    """Return the binding with `status.pendingEvictions` and the condition EvictionPending as its rows require.

    `stopped`: why no evictions take place at present. "": evictions take place. The same binding object is returned if
    nothing changes.
    """
    before = condition(binding.status.conditions, EVICTION_PENDING)
    waiting = pending_evictions(binding, rows, stopped=stopped)
    pending = waiting_condition(waiting, rows) if waiting else _ended_condition(binding, rows, before)
    conditions = binding.status.conditions
    if pending is not None:
        conditions = with_condition(conditions, pending, now=now)
    return binding.with_status(pending_evictions=waiting, conditions=conditions)


def pending_evictions(binding: Binding, rows: Iterable[Eviction], *, stopped: str = "") -> tuple[PendingEviction, ...]:
    """Return what each eviction of a binding waits for, in the order of the clusters' names.

    Rows without a due time are left out: those copies stay, or their eviction has ended. `stopped`: why no evictions
    take place at present. "": evictions take place.
    """
    ordered = operator_orders.orders_by_cluster(binding)
    waiting = sorted((row for row in rows if row.due_at is not None), key=lambda row: row.cluster)
    return tuple(_pending_eviction(row, ordered.get(row.cluster, ()), stopped) for row in waiting)


def waiting_condition(waiting: Iterable[PendingEviction], rows: Iterable[Eviction]) -> Condition:
    """Return EvictionPending=True with one part of the message for each eviction that waits.

    The reason is Held if at least one eviction is held, else Queued.
    """
    reason = HELD if any(row.held for row in rows if row.due_at is not None) else QUEUED
    message = "; ".join(f"cluster {pending.cluster}: {_text(pending)}" for pending in waiting)
    return Condition(EVICTION_PENDING, "True", reason, message)


def _ended_condition(binding: Binding, rows: Iterable[Eviction], before: Condition | None) -> Condition | None:
    """Return EvictionPending=False for a binding none of whose evictions waits.

    None: the condition stays as it is, because no eviction waited before or because its end is reported already.
    """
    ended = [row for row in rows if row.state in ENDED and row.ended_at is not None and not _placed_again(binding, row)]
    if ended:
        last = max(ended, key=lambda row: (row.ended_at, row.cluster))
        return Condition(EVICTION_PENDING, "False", last.state, f"cluster {last.cluster}: {last.message}")
    if before is None or (before.status != "True" and before.reason != EVICTED):
        return None
    if before.status != "True":
        message = f"no eviction waits any more; the last state was: evicted, {before.message}"
        return Condition(EVICTION_PENDING, "False", RECOVERED, message)
    if any(task.reason == TAINT_UNTOLERATED for task in binding.spec.graceful_eviction_tasks):
        return Condition(EVICTION_PENDING, "False", RECOVERED, "evicted; the cluster has recovered since")
    return Condition(EVICTION_PENDING, "False", ABANDONED, "no taint evicts this workload any more")


def _placed_again(binding: Binding, row: Eviction) -> bool:
    """Test whether a binding that was evicted from a cluster is placed on this cluster again."""
    return row.state == EVICTED and binding.spec.target(row.cluster) is not None


def evicted_condition(binding: Binding) -> Condition | None:
    """Return EvictionPending if its reason is Evicted: a copy was evicted and no other eviction waits. Else None."""
    found = condition(binding.status.conditions, EVICTION_PENDING)
    return found if found is not None and found.reason == EVICTED else None


def waits_for(binding: Binding, cluster: str) -> str:
    """Return what the eviction of a binding from a cluster waits for, as text; "" if it does not wait.

    A binding stored by a release without `status.pendingEvictions` has only the condition. Its whole message is
    returned then, for every cluster: it names the clusters itself.
    """
    found = condition(binding.status.conditions, EVICTION_PENDING)
    if found is None or found.status != "True":
        return ""
    if not binding.status.pending_evictions:
        return found.message
    named = (pending for pending in binding.status.pending_evictions if pending.cluster == cluster)
    return next((f"{pending.reason}: {pending.message}" for pending in named), "")


def _text(pending: PendingEviction) -> str:
    return pending.message if pending.reason == QUEUED else f"{pending.reason}: {pending.message}"


def _pending_eviction(row: Eviction, ordered: Iterable[operator_orders.Order], stopped: str) -> PendingEviction:
    """Return what a row waits for: what holds it, or its due time and the taint that evicts the copy."""
    if row.state != QUEUED or row.held:
        return PendingEviction(row.cluster, row.reason or row.state, row.message)
    due = "" if row.due_at is None else f"{row.due_at:%Y-%m-%dT%H:%M:%SZ}"
    parts = [f"due {due}", taint_cause(row)]
    taints = {(judgement.key, judgement.effect, judgement.time_added) for judgement in row.judged}
    expedited = (
        order for order in ordered if order.verb == operator_orders.EXPEDITE and not taints.isdisjoint(order.taints)
    )
    parts += [f"expedited by {order.by}: {order.reason}" for order in expedited]
    parts += [f"no evictions take place at present: {stopped}"] if stopped else []
    return PendingEviction(row.cluster, QUEUED, ", ".join(part for part in parts if part))
