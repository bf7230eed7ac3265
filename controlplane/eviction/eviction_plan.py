"""One pass over the first rows of the eviction queue: which copies can be evicted now, which are held, and why.

Everything that can hold an eviction is checked here, before a token is spent [refuge-first].
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.times import later
from controlplane.clusters import health
from controlplane.eviction import operator_orders
from controlplane.eviction.eligibility import earliest_judgement, has_finished, has_unjudged_taint
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
    UNREADABLE,
    Eviction,
    Judgement,
    Observation,
    Stop,
)
from controlplane.settings import Settings

DryRunOf = Callable[[Binding, Collection[str]], DryRunResult]
"""Runs the scheduler without effect for a binding that leaves these clusters."""
ReserveFor = Callable[[Eviction, Binding, Refuge], Reservation]
"""Reserves the capacity that a move needs, so that later dry runs do not count on it. Returns the reservation."""


class Move(msgspec.Struct, frozen=True):
    """An eviction that takes place as soon as it has a token."""

    row: Eviction
    cause: Judgement
    refuge: Refuge
    state: PreservedState
    reserved: Reservation = Reservation()  # the capacity it will need


class EvictionPlan(msgspec.Struct, frozen=True):
    """The result of one pass: `moves` in order, and rows that do not move.

    `saved`: rows to store. `dropped`: rows to delete. `held`: those of the saved rows whose hold reason is new.
    """

    moves: tuple[Move, ...] = ()
    saved: tuple[Eviction, ...] = ()
    dropped: tuple[Eviction, ...] = ()
    held: tuple[Eviction, ...] = ()
    exhausted: bool = True  # False: some due rows wait for tokens and were not planned
    unobserved: tuple[str, ...] = ()  # clusters whose due rows wait until it is known whether they have recovered


class Obstacle(NamedTuple):
    """Why a copy cannot be evicted now: reason in CamelCase, and message."""

    reason: str
    message: str


class QueueHeads(msgspec.Struct, frozen=True):
    """The input of one pass.

    `heads`: the first queued rows. `held`: held rows that are checked again. `rows`: all queue rows by binding
    (reference as text). `clocks_from`: as in `judge_taints`.
    """

    heads: Sequence[Eviction]
    held: Sequence[Eviction]
    bindings: Mapping[Ref, Binding]
    rows: Mapping[str, Sequence[Eviction]]
    clusters: Mapping[str, Cluster]
    clocks_from: datetime
    holds: Holds = Holds()
    observations: Mapping[str, Observation] = {}  # of the clusters of these rows
    unread: Mapping[Ref, str] = {}  # by binding that cannot be read: why


class Planner:
    """The state of one pass over the queue."""

    def __init__(
        self, queue: QueueHeads, settings: Settings, *, dry_run: DryRunOf, reserve: ReserveFor, now: datetime
    ) -> None:
        self._queue, self._settings, self._now = queue, settings, now
        self._dry_run, self._reserve = dry_run, reserve
        self._left: dict[str, set[str]] = {}  # by binding: the clusters it leaves in this pass
        self.moves: list[Move] = []
        self.saved: list[Eviction] = []
        self.dropped: list[Eviction] = []
        self.held: list[Eviction] = []
        self.unobserved: dict[str, bool] = {}  # by cluster: whether it may have recovered while it was not observed

    def plan_row(self, row: Eviction) -> None:
        """Plan one row: move it, hold it, save it with a later due time, or drop it.

        A held row that nothing holds any more is queued again. It keeps its last hold reason until it is evicted. A
        queued row stays as it is until all copies of its binding on tainted clusters are judged, and while its cluster
        may have recovered in a time in which it was not observed.
        """
        ref, cluster = Ref.parse(row.binding), self._queue.clusters.get(row.cluster)
        if ref in self._queue.unread:
            self._hold_unread(row, cluster, self._queue.unread[ref])
            return
        binding = self._queue.bindings.get(ref)
        checked = recheck(row, binding, cluster, clocks_from=self._queue.clocks_from, now=self._now)
        if checked is None or binding is None or cluster is None:
            self.dropped.append(row)
            return
        if isinstance(checked, Eviction):
            self.saved.append(checked)
            return
        if row.state == QUEUED and (self._waits_for_judgement(row, binding) or self._may_have_recovered(cluster)):
            return
        outcome = self.check(row, binding, cluster)
        if isinstance(outcome, Obstacle):
            self._hold(row, binding, outcome)
        elif row.state == HELD:
            self.saved.append(replace(row, state=QUEUED))
        else:
            self.take(row, binding, checked, *outcome)

    def _waits_for_judgement(self, row: Eviction, binding: Binding) -> bool:
        """Test whether another cluster of the binding has a taint that is not judged yet.

        Whether the binding leaves that cluster too is not known. Otherwise the refuge could add replicas there. The
        fleet is due again when the judgement is stored.
        """
        return len(binding.spec.clusters) > 1 and has_unjudged_taint(
            binding.spec, self._queue.clusters, self._queue.rows.get(row.binding, ())
        )

    def _may_have_recovered(self, cluster: Cluster) -> bool:
        """Test whether a cluster may have recovered in an outage of the control plane itself
        [recovered-clusters-cancel]."""
        name = cluster.metadata.name
        if name not in self.unobserved:
            row = self._queue.observations.get(name)
            self.unobserved[name] = health.may_have_recovered(cluster, row, self._settings, now=self._now)
        return self.unobserved[name]

    def take(self, row: Eviction, binding: Binding, cause: Judgement, refuge: Refuge, state: PreservedState) -> None:
        """Add a move to the plan and reserve the capacity of its refuge."""
        self._left.setdefault(row.binding, set()).add(row.cluster)
        self.moves.append(Move(row, cause, refuge, state, self._reserve(row, binding, refuge)))

    def check(self, row: Eviction, binding: Binding, cluster: Cluster) -> Obstacle | tuple[Refuge, PreservedState]:
        """Return what holds the copy, or its refuge and the state it takes along."""
        reason, message = self._queue.holds.why(row, binding, cluster, now=self._now)
        if reason:
            return Obstacle(reason, message)
        leaving = self._left.get(row.binding, set()) | clusters_left_together(
            row, self._queue.rows.get(row.binding, ())
        )
        result = self._dry_run(binding, leaving)
        ready, clusters = cluster.ready == "True", self._queue.clusters
        refuge = refuge_from(binding, leaving, result, self._settings, source_ready=ready, clusters=clusters)
        if not refuge.found:
            return Obstacle(NO_REFUGE, refuge.why)
        state = preserved_state(binding, row.cluster, self._settings)
        if state.problem and self._settings.state_preservation_on_missing == "Hold":
            return Obstacle(STATE_MISSING, state.problem)
        return refuge, state

    def _hold_unread(self, row: Eviction, cluster: Cluster | None, why: str) -> None:
        """Hold a row whose binding cannot be read while one of its taints is there, so that it keeps no other row from
        its turn.

        It stays in the queue, also if its copy is gone, until the binding can be read. There is no binding for an
        Event, so only the row says why.
        """
        present = () if cluster is None else cluster.spec.taints
        judged = {(judgement.key, judgement.effect, judgement.time_added) for judgement in row.judged}
        if judged.isdisjoint([(taint.key, taint.effect, taint.time_added) for taint in present]):
            self.dropped.append(row)
            return
        waiting = replace(row, state=HELD, reason=UNREADABLE, message=why)
        if waiting != row:
            self.saved.append(waiting)

    def _hold(self, row: Eviction, binding: Binding, why: Obstacle) -> None:
        """Hold a row. The first time that no refuge is found is stored for the metric evict_success_rate."""
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
    tokens_for: Callable[[str], int],
    dry_run: DryRunOf,
    reserve: ReserveFor,
    now: datetime,
) -> EvictionPlan:
    """Return what to do about the due rows, in the order of the queue.

    `tokens_for`: how many tokens a cluster's evictions can get at most. Rows of a cluster without tokens wait, and rows
    of other clusters are still planned (setting eviction.bucket_scope Cluster).
    """
    planner, exhausted = Planner(queue, settings, dry_run=dry_run, reserve=reserve, now=now), True
    for row in queue.held:
        planner.plan_row(row)
    for row in sorted_due(queue.heads, ageing_seconds=settings.eviction.ageing_seconds, now=now):
        if tokens_for(row.cluster) <= 0:
            exhausted = False
        else:
            planner.plan_row(row)
    return EvictionPlan(
        tuple(planner.moves),
        tuple(planner.saved),
        tuple(planner.dropped),
        tuple(planner.held),
        exhausted=exhausted,
        unobserved=tuple(sorted(name for name, waits in planner.unobserved.items() if waits)),
    )


def recheck(
    row: Eviction, binding: Binding | None, cluster: Cluster | None, *, clocks_from: datetime, now: datetime
) -> Judgement | Eviction | None:
    """Return the judgement because of which a copy is evicted now, the row with a later due time, or with none for a
    copy that has finished since, or None to drop the row.

    A row is dropped if the binding, its target or the taint is gone, or a Skip order covers the taint [judged-once]. It
    waits again if its clocks were restarted [blind-fleet] [failover-gate] or the cluster recovers
    [recovered-clusters-cancel].
    """
    if binding is None or cluster is None or binding.metadata.deletion_timestamp is not None:
        return None
    if binding.spec.target(row.cluster) is None:
        return None
    present = {(taint.key, taint.effect, taint.time_added) for taint in cluster.spec.taints}
    counting = tuple(
        [
            _counted_from(clocks_from, judgement)
            for judgement in row.judged
            if (judgement.key, judgement.effect, judgement.time_added) in present
        ]
    )
    first = earliest_judgement(
        without_skipped_taints(counting, operator_orders.active_orders(binding, cluster).get(operator_orders.SKIP))
    )
    if first is None or first.due_at is None:
        return None
    if has_finished(binding, row.cluster):
        return replace(row, judged=counting, due_at=None, state=QUEUED, reason="", message="")
    if is_recovering(cluster, counting):
        return replace(row, judged=counting, due_at=first.due_at, state=RECOVERING, reason="Recovering")
    return replace(row, judged=counting, due_at=first.due_at, state=QUEUED) if first.due_at > now else first


def _counted_from(clocks_from: datetime, judgement: Judgement) -> Judgement:
    """Return a judgement whose wait begins at its taint, or at `clocks_from` if that is later."""
    if judgement.wait_seconds is None:
        return judgement
    due_at = later(max(judgement.time_added, clocks_from), judgement.wait_seconds)
    return judgement if due_at == judgement.due_at else replace(judgement, due_at=due_at)


def clusters_left_together(row: Eviction, rows: Sequence[Eviction]) -> set[str]:
    """Return all clusters that a binding leaves now or later: the cluster of this row, and all others with
    a due time."""
    return {row.cluster, *(item.cluster for item in rows if item.due_at is not None and item.state != RECOVERING)}


def binding_after_move(
    binding: Binding, move: Move, settings: Settings, *, stops: Iterable[Stop] = (), now: datetime
) -> Binding:
    """Return the binding after the eviction. `stops`: times in which no evictions took place."""
    state = move.state.labels
    return with_taint_task(binding, move.row.cluster, move.cause, settings, preserved=state, stops=stops, now=now)
