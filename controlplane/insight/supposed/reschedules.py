"""Reschedules: where the scheduler places workloads that a WorkloadRebalancer names [workload-rebalancer]."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final

from controlplane.apimachinery.meta import Ref
from controlplane.insight.supposed.departures import Outcomes
from controlplane.insight.supposed.fleet import SupposedFleet
from controlplane.insight.supposed.removals import Rescheduler
from controlplane.insight.supposed.snapshot import Snapshot

MESSAGE: Final = (
    "the scheduler chooses its clusters again; copies on clusters that it leaves are removed without waiting until "
    "the new copies are healthy"
)


def plan_reschedules(
    snapshot: Snapshot, fleet: SupposedFleet, gone: Collection[Ref], outcomes: Outcomes, *, now: datetime
) -> None:
    """Record where the bindings are placed whose reschedule is requested now. Some may stay where they are."""
    found = [binding for ref, binding in snapshot.bindings.items() if ref in snapshot.rescheduled and ref not in gone]
    if not found:
        return
    rescheduler = Rescheduler(snapshot, fleet, now=now)
    for binding in sorted(found, key=lambda binding: -binding.spec.priority):
        after = rescheduler.place(binding.with_spec(reschedule_triggered_at=now))
        if after is not None:
            outcomes.of(binding).is_decided(after, MESSAGE)
