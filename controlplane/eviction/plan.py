"""One look at the heads of the queue: what may move now, what waits and why, what is no longer wanted (D6, D10, D12).

Everything that can stop an eviction is asked here, before a token is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from controlplane.eviction import orders
from controlplane.eviction.holds import Holds
from controlplane.eviction.judge import earliest
from controlplane.eviction.order import ordered
from controlplane.eviction.preserve import Preserved, preserved
from controlplane.eviction.purge import evicted
from controlplane.eviction.queue import recovering, without_skipped
from controlplane.eviction.refuge import DryRun, Refuge, refuge
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import HELD, NO_REFUGE, QUEUED, RECOVERING, STATE_MISSING, Eviction, Judgement
from controlplane.meta import Ref
from controlplane.settings import Settings

Try = Callable[[Binding, Collection[str]], DryRun]
"""A dry run of the scheduler: the binding, without these clusters."""


class Move(msgspec.Struct, frozen=True):
    """An eviction that happens as soon as it has its token."""

    row: Eviction
    cause: Judgement
    refuge: Refuge
    state: Preserved


class Plan(msgspec.Struct, frozen=True):
    """`moves` in order; `saved` and `dropped` rows that do not move; `held` those of them held for a new reason."""

    moves: tuple[Move, ...] = ()
    saved: tuple[Eviction, ...] = ()
    dropped: tuple[Eviction, ...] = ()
    held: tuple[Eviction, ...] = ()
    exhausted: bool = True  # False: there are more due rows than were looked at


class Heads(msgspec.Struct, frozen=True):
    """What the queue is looked at with. `rows` per binding (reference as text) are all of its queue rows."""

    heads: Sequence[Eviction]
    bindings: Mapping[Ref, Binding]
    rows: Mapping[str, Sequence[Eviction]]
    clusters: Mapping[str, Cluster]
    clocks_from: datetime
    holds: Holds = Holds()


def planned(
    queue: Heads,
    settings: Settings,
    *,
    room: Callable[[str], int],
    attempt: Try,
    taken: Callable[[Eviction, Binding, Refuge], None],
    now: datetime,
) -> Plan:
    """Return what to do about due rows, in order.

    `room`: how many tokens there can be for a cluster's evictions; the walk ends when all room is used. `attempt`: the
    dry run; `taken` notes the capacity a move will use, so that the next dry run sees it.
    """
    moves: list[Move] = []
    saved: list[Eviction] = []
    dropped: list[Eviction] = []
    held: list[Eviction] = []
    gone: dict[str, set[str]] = {}
    due = ordered(queue.heads, ageing_seconds=settings.eviction.ageing_seconds, now=now)
    for looked, row in enumerate(due):
        if room(row.cluster) <= 0:
            full = looked < len(due)
            return Plan(tuple(moves), tuple(saved), tuple(dropped), tuple(held), exhausted=not full)
        binding = queue.bindings.get(Ref.parse(row.binding))
        again = recheck(row, binding, queue.clusters.get(row.cluster), clocks_from=queue.clocks_from, now=now)
        if again is None or binding is None:
            dropped.append(row)
            continue
        if isinstance(again, Eviction):
            saved.append(again)
            continue
        kept, told = queue.holds.why(row, binding, queue.clusters[row.cluster], now=now)
        if kept:
            waiting = _held(row, binding, kept, told, now=now)
            saved.append(waiting)
            held += [] if (row.reason, row.message) == (kept, told) else [waiting]
            continue
        left = gone.setdefault(row.binding, set())
        leaving = left | leaving_with(row, queue.rows.get(row.binding, ()))
        found = refuge(
            binding,
            leaving,
            attempt(binding, leaving),
            settings,
            source_ready=queue.clusters[row.cluster].ready == "True",
        )
        state = preserved(binding, row.cluster, settings)
        reason, why = ("", "") if found.found else (NO_REFUGE, found.why)
        if found.found and state.problem and settings.state_preservation_on_missing == "Hold":
            reason, why = STATE_MISSING, state.problem
        if reason:
            waiting = _held(row, binding, reason, why, now=now)
            saved.append(waiting)
            held += [] if (row.reason, row.message) == (reason, why) else [waiting]
            continue
        taken(row, binding, found)
        left.add(row.cluster)
        moves.append(Move(row, again, found, state))
    return Plan(tuple(moves), tuple(saved), tuple(dropped), tuple(held))


def _held(row: Eviction, binding: Binding, reason: str, message: str, *, now: datetime) -> Eviction:
    """Return the row as it waits; the first time nothing fits is remembered (evict_success_rate)."""
    failed_at = row.failed_at or (now if reason == NO_REFUGE else None)
    generation = binding.metadata.generation
    return replace(row, state=HELD, reason=reason, message=message, generation=generation, failed_at=failed_at)


def recheck(
    row: Eviction, binding: Binding | None, cluster: Cluster | None, *, clocks_from: datetime, now: datetime
) -> Judgement | Eviction | None:
    """Return the judgement an eviction happens for now; the row as it shall wait; None where it is no longer wanted.

    Only these cancel: binding or target gone, taint gone (D6); clocks that started anew make it wait (D9, D17).
    """
    if binding is None or cluster is None or binding.metadata.deletion_timestamp is not None:
        return None
    if binding.spec.target(row.cluster) is None:
        return None
    present = {(taint.key, taint.effect, taint.time_added) for taint in cluster.spec.taints}
    standing = tuple(
        replace(one, due_at=max(one.time_added, clocks_from) + timedelta(seconds=one.wait_seconds))
        if one.wait_seconds is not None
        else one
        for one in row.judged
        if (one.key, one.effect, one.time_added) in present
    )
    first = earliest(without_skipped(standing, orders.standing(binding, cluster).get(orders.SKIP)))
    if first is None or first.due_at is None:
        return None
    waiting = replace(row, judged=standing, due_at=first.due_at, state=QUEUED)
    if recovering(cluster, waiting):
        return replace(waiting, state=RECOVERING, reason="Recovering")
    return waiting if first.due_at > now else first


def leaving_with(row: Eviction, rows: Sequence[Eviction]) -> set[str]:
    """Return all clusters a binding is leaving together: this one, and those it is judged to leave at some time."""
    return {row.cluster, *(one.cluster for one in rows if one.due_at is not None and one.state != RECOVERING)}


def moved(binding: Binding, move: Move, settings: Settings, *, now: datetime) -> Binding:
    """Return the binding after the eviction."""
    return evicted(binding, move.row.cluster, move.cause, settings, preserved=move.state.labels, now=now)
