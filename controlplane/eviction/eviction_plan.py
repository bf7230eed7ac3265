"""One look at the heads of the queue: what may move now, what waits and why, what is no longer wanted (D6, D10, D12).

Everything that can stop an eviction is asked here, before a token is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.times import later
from controlplane.eviction import operator_orders
from controlplane.eviction.eligibility import earliest_judgement
from controlplane.eviction.holds import Holds
from controlplane.eviction.purge import with_taint_task
from controlplane.eviction.queue import is_recovering, without_skipped_taints
from controlplane.eviction.queue_priority import sorted_due
from controlplane.eviction.refuge import DryRunResult, Refuge, Reservation, refuge_from
from controlplane.eviction.state_preservation import PreservedState, preserved_state
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import (
    HELD,
    NO_REFUGE,
    QUEUED,
    RECOVERING,
    STATE_MISSING,
    Eviction,
    Judgement,
    Stop,
)
from controlplane.settings import Settings

DryRunOf = Callable[[Binding, Collection[str]], DryRunResult]
"""A dry run of the scheduler: the binding, without these clusters."""
ReserveFor = Callable[[Eviction, Binding, Refuge], Reservation]
"""Takes the room a move will use, so that the next dry run does not count on it, and returns its reservation."""


class Move(msgspec.Struct, frozen=True):
    """An eviction that happens as soon as it has its token."""

    row: Eviction
    cause: Judgement
    refuge: Refuge
    state: PreservedState
    reserved: Reservation = Reservation()  # the room it will need


class EvictionPlan(msgspec.Struct, frozen=True):
    """`moves` in order; `saved` and `dropped` rows that do not move; `held` those of them held for a new reason."""

    moves: tuple[Move, ...] = ()
    saved: tuple[Eviction, ...] = ()
    dropped: tuple[Eviction, ...] = ()
    held: tuple[Eviction, ...] = ()
    exhausted: bool = True  # False: due rows wait for tokens and were not looked at


class _Obstacle(NamedTuple):
    """What keeps a copy where it is: a reason in one word, and in many."""

    reason: str
    message: str


class QueueHeads(msgspec.Struct, frozen=True):
    """What the queue is looked at with. `held` are rows to be looked at again though something holds them; `rows` per
    binding (reference as text) are all of its queue rows."""

    heads: Sequence[Eviction]
    held: Sequence[Eviction]
    bindings: Mapping[Ref, Binding]
    rows: Mapping[str, Sequence[Eviction]]
    clusters: Mapping[str, Cluster]
    clocks_from: datetime
    holds: Holds = Holds()


class _Planner:
    """What one walk through the queue has come to so far."""

    def __init__(
        self, queue: QueueHeads, settings: Settings, *, attempt: DryRunOf, taken: ReserveFor, now: datetime
    ) -> None:
        self._queue, self._settings, self._now = queue, settings, now
        self._attempt, self._taken = attempt, taken
        self._left: dict[str, set[str]] = {}  # by binding: the clusters it leaves in this look
        self.moves: list[Move] = []
        self.saved: list[Eviction] = []
        self.dropped: list[Eviction] = []
        self.held: list[Eviction] = []

    def at(self, row: Eviction) -> None:
        """Decide about one row. One that was held takes its place in the queue again where nothing holds it any more,
        keeping what it was held for until it leaves."""
        binding, cluster = self._queue.bindings.get(Ref.parse(row.binding)), self._queue.clusters.get(row.cluster)
        again = recheck(row, binding, cluster, clocks_from=self._queue.clocks_from, now=self._now)
        if again is None or binding is None or cluster is None:
            self.dropped.append(row)
            return
        if isinstance(again, Eviction):
            self.saved.append(again)
            return
        found = self._obstacle(row, binding, cluster)
        if isinstance(found, _Obstacle):
            self._hold(row, binding, found)
        elif row.state == HELD:
            self.saved.append(replace(row, state=QUEUED))
        else:
            place, state = found
            self._left.setdefault(row.binding, set()).add(row.cluster)
            self.moves.append(Move(row, again, place, state, self._taken(row, binding, place)))

    def _obstacle(self, row: Eviction, binding: Binding, cluster: Cluster) -> _Obstacle | tuple[Refuge, PreservedState]:
        """Return what keeps a copy where it is, else where it goes and the state it takes along."""
        reason, message = self._queue.holds.why(row, binding, cluster, now=self._now)
        if reason:
            return _Obstacle(reason, message)
        leaving = self._left.get(row.binding, set()) | clusters_left_together(
            row, self._queue.rows.get(row.binding, ())
        )
        answer = self._attempt(binding, leaving)
        place = refuge_from(binding, leaving, answer, self._settings, source_ready=cluster.ready == "True")
        if not place.found:
            return _Obstacle(NO_REFUGE, place.why)
        state = preserved_state(binding, row.cluster, self._settings)
        if state.problem and self._settings.state_preservation_on_missing == "Hold":
            return _Obstacle(STATE_MISSING, state.problem)
        return place, state

    def _hold(self, row: Eviction, binding: Binding, why: _Obstacle) -> None:
        """Keep a row waiting; the first time nothing fits is remembered (evict_success_rate)."""
        waiting = replace(
            row,
            state=HELD,
            reason=why.reason,
            message=why.message,
            generation=binding.metadata.generation,
            failed_at=row.failed_at or (self._now if why.reason == NO_REFUGE else None),
        )
        if waiting != row:
            self.saved.append(waiting)
        if (row.reason, row.message) != (why.reason, why.message):
            self.held.append(waiting)


def plan_evictions(
    queue: QueueHeads,
    settings: Settings,
    *,
    room: Callable[[str], int],
    attempt: DryRunOf,
    taken: ReserveFor,
    now: datetime,
) -> EvictionPlan:
    """Return what to do about due rows, in order.

    `room`: how many tokens there can be for a cluster's evictions; where there are none its rows wait, and others go on
    (eviction.bucket_scope Cluster).
    """
    look, exhausted = _Planner(queue, settings, attempt=attempt, taken=taken, now=now), True
    for row in queue.held:
        look.at(row)
    for row in sorted_due(queue.heads, ageing_seconds=settings.eviction.ageing_seconds, now=now):
        if room(row.cluster) <= 0:
            exhausted = False
        else:
            look.at(row)
    return EvictionPlan(
        tuple(look.moves), tuple(look.saved), tuple(look.dropped), tuple(look.held), exhausted=exhausted
    )


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
        replace(one, due_at=later(max(one.time_added, clocks_from), one.wait_seconds))
        if one.wait_seconds is not None
        else one
        for one in row.judged
        if (one.key, one.effect, one.time_added) in present
    )
    first = earliest_judgement(
        without_skipped_taints(standing, operator_orders.active_orders(binding, cluster).get(operator_orders.SKIP))
    )
    if first is None or first.due_at is None:
        return None
    waiting = replace(row, judged=standing, due_at=first.due_at, state=QUEUED)
    if is_recovering(cluster, waiting):
        return replace(waiting, state=RECOVERING, reason="Recovering")
    return waiting if first.due_at > now else first


def clusters_left_together(row: Eviction, rows: Sequence[Eviction]) -> set[str]:
    """Return all clusters a binding is leaving together: this one, and those it is judged to leave at some time."""
    return {row.cluster, *(one.cluster for one in rows if one.due_at is not None and one.state != RECOVERING)}


def binding_after_move(
    binding: Binding, move: Move, settings: Settings, *, stops: Iterable[Stop] = (), now: datetime
) -> Binding:
    """Return the binding after the eviction. `stops`: when nothing was evicted."""
    state = move.state.labels
    return with_taint_task(binding, move.row.cluster, move.cause, settings, preserved=state, stops=stops, now=now)
