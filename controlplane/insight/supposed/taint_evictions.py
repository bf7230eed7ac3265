"""Evictions because of taints: which copies the eviction queue would evict, in its order, and where they would go.

The queue is planned as `controllers.evictions` plans it, but each eviction counts as due, and has a token,
when its turn comes. `insight.forecast` computes when that is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime

from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.clusters import eviction_tier
from controlplane.eviction.eligibility import earliest_judgement
from controlplane.eviction.eviction_plan import Obstacle, Planner, QueueHeads
from controlplane.eviction.holds import Holds
from controlplane.eviction.queue import wanted_rows
from controlplane.eviction.refuge import DryRunResult, Refuge, Reservation
from controlplane.eviction.scheduler_dry_run import SchedulerDryRun
from controlplane.insight.forecast import forecast, in_order
from controlplane.insight.supposed.departures import Outcomes, waits_for_person
from controlplane.insight.supposed.fleet import SupposedFleet
from controlplane.insight.supposed.snapshot import Snapshot
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import EVICTING_EFFECTS
from controlplane.kinds.rows import QUEUED, RECOVERING, Eviction

STOPPED = "EvictionsStopped"
REPORTED_EVERY = 200  # evictions between two reports of progress
TOLERATED, SKIPPED = "Tolerated", "Skipped"


class TaintEvictions:
    """The queue after changes. `queued_before`: evictions that take place whether the changes happen or not."""

    def __init__(
        self, snapshot: Snapshot, fleet: SupposedFleet, gone: Collection[Ref], *, outcomes: Outcomes, now: datetime
    ) -> None:
        self._snapshot, self._fleet, self._gone = snapshot, fleet, gone
        self._outcomes, self._now = outcomes, now
        self.tier = fleet.tier(now)
        self.queued_before = 0
        self.rows = self._wanted_rows()
        self._by_holds = self._held_or_released()

    def _wanted_rows(self) -> dict[str, tuple[Eviction, ...]]:
        """Return the rows that each binding has after the changes, by reference as text."""
        fleet, settings = self._fleet, self._fleet.settings
        clocks_from = eviction_tier.clock_start(fleet.state) if settings.gate("Failover") else None
        tainted = {name: one for name, one in fleet.clusters.items() if one.has_taint(*EVICTING_EFFECTS)}
        rows: dict[str, tuple[Eviction, ...]] = {}
        for ref, binding in self._snapshot.bindings.items() if clocks_from is not None and tainted else ():
            if ref in self._gone or not any(target.name in tainted for target in binding.spec.clusters):
                continue
            rows[str(ref)] = wanted_rows(
                binding,
                tainted,
                self._snapshot.rows.get(str(ref), ()),
                clocks_from=clocks_from,
                judge_again=settings.eviction.reevaluate_policies,
                holds=fleet.holds,
                now=self._now,
            )
        return rows

    def _held_or_released(self) -> frozenset[str]:
        """Return the keys of the evictions that a changed hold or window holds, or does not hold any more."""
        before, after = self._snapshot.holds, self._fleet.holds
        if before == after:
            return frozenset()

        def is_held(row: Eviction, holds: Holds) -> bool:
            return bool(holds.why(row, self._binding(row), self._fleet.clusters[row.cluster], now=self._now)[0])

        rows = [row for rows in self.rows.values() for row in rows if row.due_at is not None]
        return frozenset(row.key for row in rows if is_held(row, before) != is_held(row, after))

    @property
    def cancelled(self) -> int:
        """The number of evictions that wait now and that the changes end."""
        leaving = {row.key for rows in self.rows.values() for row in rows if row.due_at is not None}
        waiting = [row for rows in self._snapshot.rows.values() for row in rows if row.due_at is not None]
        return sum(row.key not in leaving and self._touched(row) for row in waiting)

    def plan(self, dry_run: SchedulerDryRun, progress: Callable[[float], None]) -> None:
        """Work out what becomes of every row, in the order of the queue, and record it in the outcomes."""
        leaving = [row for rows in self.rows.values() for row in rows if self._leaves(row)]
        if self.tier.rate <= 0:
            for row in leaving:
                self._stick(row, STOPPED, f"no evictions take place: {self.tier.why or 'the eviction rate is 0'}")
            return
        moved = list(self._planned(leaving, dry_run, progress))
        self._forecast(moved)

    def _leaves(self, row: Eviction) -> bool:
        """Test whether the copy of a row has to leave. If it stays, that is recorded."""
        if row.due_at is not None and row.state != RECOVERING:
            return True
        reason = RECOVERING if row.state == RECOVERING else SKIPPED if row.reason == SKIPPED else TOLERATED
        message = row.message or "it tolerates the taints of the cluster without a time limit"
        if self._touched(row):
            self._outcomes.of(self._binding(row)).stays[row.cluster] = (reason, message)
        return False

    def _planned(
        self, leaving: list[Eviction], dry_run: SchedulerDryRun, progress: Callable[[float], None]
    ) -> Iterator[Eviction]:
        """Yield the rows that are evicted. Each of them reserves its refuge before the next one is checked."""
        fleet, now = self._fleet, self._now
        clocks_from = eviction_tier.clock_start(fleet.state) or now

        answered: dict[tuple[Ref, frozenset[str]], DryRunResult] = {}

        def place_without(binding: Binding, clusters: Collection[str]) -> DryRunResult:
            # A second eviction of a binding finds the refuge that the first has reserved, and room never grows here.
            key = (binding.ref, frozenset(clusters))
            if key not in answered:
                answered[key] = dry_run.place_or_refuse(binding, clusters, now=now)
            return answered[key]

        def reserve(row: Eviction, binding: Binding, refuge: Refuge) -> Reservation:
            return dry_run.reserve(binding, refuge, now=now)

        queue = QueueHeads((), (), self._snapshot.bindings, self.rows, fleet.clusters, clocks_from, fleet.holds)
        planner = Planner(queue, fleet.settings, dry_run=place_without, reserve=reserve, now=now)
        ageing = fleet.settings.eviction.ageing_seconds
        queued = [replace(row, state=QUEUED) for row in leaving]
        for done, row in enumerate(in_order(queued, ageing_seconds=ageing, now=now)):
            if done % REPORTED_EVERY == 0:
                progress(done / len(queued))
            binding, cause = self._binding(row), earliest_judgement(row.judged)
            found = planner.check(row, binding, fleet.clusters[row.cluster])
            if isinstance(found, Obstacle) or cause is None:
                self._stick(row, *(found if isinstance(found, Obstacle) else ("", "")))
                continue
            planner.take(row, binding, cause, *found)
            self._move(row, binding, found[0])
            yield row

    def _move(self, row: Eviction, binding: Binding, refuge: Refuge) -> None:
        if not self._touched(row):
            self.queued_before += 1
            return
        outcome, cluster = self._outcomes.of(binding), self._fleet.clusters[row.cluster]
        outcome.leaves(row.cluster, refuge.clusters, refuge.why)
        new = [target.name for target in refuge.clusters if binding.spec.target(target.name) is None]
        waits = waits_for_person(binding, cluster, self._fleet.settings, to=new)
        outcome.waits = waits if waits[0] else outcome.waits

    def _stick(self, row: Eviction, reason: str, message: str) -> None:
        if self._touched(row):
            self._outcomes.of(self._binding(row)).stuck[row.cluster] = (reason, message)

    def _touched(self, row: Eviction) -> bool:
        return row.cluster in self._fleet.touched or row.key in self._by_holds

    def _binding(self, row: Eviction) -> Binding:
        return self._snapshot.bindings[Ref.parse(row.binding)]

    def _forecast(self, moved: list[Eviction]) -> None:
        """Record when each eviction takes place."""
        eviction = self._fleet.settings.eviction
        forecasts = forecast(
            moved,
            rate=self.tier.rate,
            ageing_seconds=eviction.ageing_seconds,
            scope=eviction.bucket_scope,
            now=self._now,
        )
        for row in moved:
            at = forecasts[row.key].at
            if at is not None and self._touched(row):
                outcome = self._outcomes.of(self._binding(row))
                outcome.at = at if outcome.at is None else max(outcome.at, at)


def due_soonest(rows: Mapping[str, Collection[Eviction]]) -> datetime | None:
    """Return when the first eviction is due. None: there is none."""
    due = (row.due_at for ones in rows.values() for row in ones if row.due_at is not None and row.state == QUEUED)
    return min(due, default=None)
