"""FleetWatch: remembers when the fleet went blind (D9) and since when the gate Failover is open (D17), and tells when
the tier of evictions changes (D8)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.clusters import health
from controlplane.controllers.reads.fleet_state import (
    FLEET,
    FLEET_ROW,
    STOPS_KEPT,
    TIER_ROW,
    cluster_health_changed,
    failover_configuration,
    fleet_states,
)
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import Decision, Event, Save
from controlplane.engine.state import State, Watch
from controlplane.kinds import CLUSTER, FAILOVER_CONFIGURATION, MAINTENANCE_WINDOW
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.configuration import FailoverConfiguration
from controlplane.kinds.maintenance_window import MaintenanceWindow
from controlplane.kinds.rows import FleetState, Stop
from controlplane.settings import Settings


class FleetSnapshot(msgspec.Struct, frozen=True):
    state: FleetState
    clusters: tuple[Cluster, ...]
    subject: FailoverConfiguration
    windows: tuple[MaintenanceWindow, ...] = ()
    told: FleetState = FleetState(TIER_ROW)


class FleetWatch(Controller):
    name = "fleet"
    group = "fleet"
    keys = (FAILOVER_CONFIGURATION,)
    watches = (
        Watch(CLUSTER, cluster_health_changed),
        Watch(FAILOVER_CONFIGURATION, lambda old, new: (FLEET,)),
        Watch(MAINTENANCE_WINDOW, lambda old, new: (FLEET,)),
    )
    owns = Ownership({}, rows=(FleetState,))
    due_at_start = (FLEET,)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[FleetSnapshot | None]:
        windows = tuple(state.list(MAINTENANCE_WINDOW))
        known, told = fleet_states(state, FLEET_ROW, TIER_ROW)
        one = FleetSnapshot(known, tuple(state.list(CLUSTER)), failover_configuration(state), windows, told)
        return [one if ref == FLEET else None for ref in refs]

    def decide(self, snapshot: FleetSnapshot, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        maintained = {name for one in snapshot.windows if one.open(now=now) for name in one.spec.clusters}
        fleet, old = health.fleet_health(snapshot.clusters, maintained=maintained), snapshot.state
        new, events = old, []
        if settings.gate("Failover") != (old.failover_on_since is not None):
            new = replace(new, failover_on_since=now if settings.gate("Failover") else None)
        if fleet.blind and old.blind_since is None:
            new = replace(new, blind_since=now)
            why = health.tier(fleet, settings).why
            events.append(Event(snapshot.subject, "FleetBlind", f"{why}; nothing is evicted until one returns", True))
        elif not fleet.blind and old.blind_since is not None:
            new = replace(new, blind_since=None, sighted_at=now)
            message = "a cluster is no longer faulty; timers of taints and tolerations start again (D9)"
            events.append(Event(snapshot.subject, "FleetSighted", message))
        tier = health.in_force(fleet, new, settings)
        told, before = _stopped(snapshot.told, tier, settings, now=now), snapshot.told.tier or health.NORMAL
        if settings.gate("Failover") and tier.name != before:
            told = replace(told, tier=tier.name)
            message = f"evictions go at {tier.rate:g} a second, tier {tier.name} after {before}"
            message = f"{message}: {tier.why}" if tier.why else message
            events.append(Event(snapshot.subject, "EvictionTierChanged", message, tier.name != health.NORMAL))
        return Decision(
            changes=tuple(Save(row) for row, was in ((new, old), (told, snapshot.told)) if row != was),
            events=tuple(events),
            wake_at=now + timedelta(seconds=settings.cluster_monitor_period),
            reason="FleetWatch",
        )


def _stopped(row: FleetState, tier: health.Tier, settings: Settings, *, now: datetime) -> FleetState:
    """Return the row with the times in which nothing was evicted, up to now: evictions tell what they waited for."""
    last = row.stops[-1] if row.stops else None
    running = last is not None and last.until is None
    if (settings.gate("Failover") and tier.rate <= 0) == running:
        return row
    if last is not None and running:
        return replace(row, stops=(*row.stops[:-1], replace(last, until=now)))
    why = tier.why or "the rate of evictions is 0"
    return replace(row, stops=(*row.stops, Stop(now, why))[-STOPS_KEPT:])
