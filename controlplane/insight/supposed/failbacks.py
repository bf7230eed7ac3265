"""Failbacks: which bindings would return to a cluster that they left, as `controllers.failbacks` plans it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from controlplane.apimachinery.meta import Ref
from controlplane.eviction.failback import FailbackBlocked, FailbackPlanner, FailbackRequest
from controlplane.insight.supposed.departures import Outcomes
from controlplane.insight.supposed.fleet import SupposedFleet
from controlplane.insight.supposed.snapshot import Snapshot
from controlplane.kinds.binding import Binding
from controlplane.kinds.binding.origin import origin_of

BLOCKED = "CannotReturn"


def plan_failbacks(
    snapshot: Snapshot, fleet: SupposedFleet, gone: Collection[Ref], outcomes: Outcomes, *, now: datetime
) -> datetime | None:
    """Record which bindings return. Return when the last return starts, by the rate of the failback; None: none."""
    if not fleet.failbacks:
        return None
    clusters = tuple(fleet.clusters.values())
    planner = FailbackPlanner(clusters, snapshot.reserved_capacity, fleet.settings, now=now)
    last: datetime | None = None
    for name, rate in fleet.failbacks.items():
        moved = 0
        for ref, binding in snapshot.bindings.items():
            earlier = origin_of(binding)
            if ref in gone or earlier is None or name not in earlier.left:
                continue
            plan = planner.plan(binding, earlier, name, FailbackRequest("Failback", "", _held_by(binding, fleet, now)))
            outcome = outcomes.of(binding)
            if isinstance(plan, FailbackBlocked):
                outcome.stuck[name] = (BLOCKED, plan.why)
                continue
            moved += 1
            outcome.goes_to(plan.binding.spec.clusters, f"returns to cluster {name}")
            last = outcome.at = now + timedelta(seconds=moved / rate)
    return last


def _held_by(binding: Binding, fleet: SupposedFleet, now: datetime) -> Callable[[str], str]:
    """Return the function that returns what holds a copy of the binding on a cluster, "" if nothing does."""

    def held(source: str) -> str:
        cluster = fleet.clusters.get(source)
        return "" if cluster is None else fleet.holds.why_asked(binding, cluster, now=now)[1]

    return held
