"""Drains: which copies new Drains would move away, and where they would go, as `controllers.drains` decides it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.clusters import eviction_tier
from controlplane.eviction.drain_refuge import drain_refuge
from controlplane.eviction.purge import purge_mode, with_task
from controlplane.eviction.scheduler_dry_run import SchedulerDryRun
from controlplane.insight.supposed.departures import NO_REFUGE, Outcomes, waits_for_person
from controlplane.insight.supposed.fleet import SupposedFleet
from controlplane.insight.supposed.snapshot import Snapshot
from controlplane.kinds.binding import Binding

PAUSED = "DrainPaused"
REASON = "Drain"


def plan_drains(
    snapshot: Snapshot,
    fleet: SupposedFleet,
    gone: Collection[Ref],
    dry_run: SchedulerDryRun,
    outcomes: Outcomes,
    *,
    evictions_end: datetime | None,
    now: datetime,
) -> datetime | None:
    """Record what becomes of the bindings on drained clusters. Return when the last of them leaves; None: none does.

    `evictions_end`: when the last eviction takes place that goes first. None: there is none.
    """
    tier, ends = fleet.tier(now), [datetime.min.replace(tzinfo=now.tzinfo)]
    pause = "" if tier.name == eviction_tier.NORMAL else f"the eviction tier is {tier.name}: {tier.why}"
    present: dict[Ref, Binding] = {}
    for name, rate in fleet.drained.items():
        cluster, moved = fleet.clusters[name], 0
        begin = evictions_end or now
        for ref in snapshot.bindings:
            binding = present.get(ref, snapshot.bindings[ref])
            if ref in gone or binding.spec.target(name) is None:
                continue
            outcome = outcomes.of(snapshot.bindings[ref])
            if pause:
                outcome.stuck[name] = (PAUSED, pause)
                continue
            refuge, _ = drain_refuge(
                binding, cluster, dry_run, fleet.holds, fleet.settings, clusters=fleet.clusters, now=now
            )
            if not refuge.found:
                outcome.stuck[name] = _why_stuck(binding, name, fleet, refuge.why, now=now)
                continue
            dry_run.reserve(binding, refuge, now=now)
            moved += 1
            outcome.at = begin + timedelta(seconds=moved / rate)
            outcome.leaves(name, refuge.clusters, refuge.why)
            new = [target.name for target in refuge.clusters if binding.spec.target(target.name) is None]
            outcome.waits = waits_for_person(binding, cluster, fleet.settings, to=new)
            mode = purge_mode(binding, fleet.settings)
            left = with_task(binding, name, mode=mode, reason=REASON, producer=REASON, message="", now=now)
            present[ref] = replace(left, spec=replace(left.spec, clusters=refuge.clusters or left.spec.clusters))
            ends.append(outcome.at)
    return max(ends) if len(ends) > 1 else None


def _why_stuck(binding: Binding, name: str, fleet: SupposedFleet, why: str, *, now: datetime) -> tuple[str, str]:
    """Return the reason and message of a copy that a Drain cannot move: what holds it, or that it has no refuge."""
    reason, message = fleet.holds.why_asked(binding, fleet.clusters[name], now=now)
    return (reason, message) if reason else (NO_REFUGE, why)
