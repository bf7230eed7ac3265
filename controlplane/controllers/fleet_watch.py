"""FleetWatch: stores the state of the fleet as a whole, which no single cluster shows.

It stores since when the Failover gate is on [failover-gate], since when the fleet is blind [blind-fleet], the times in
which the eviction tier stopped all evictions [eviction-tier], and those in which no worker ran [outage-of-our-own]. It
also stores the gate PropagateDeps, so that a worker notices that another environment has switched it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.clusters import eviction_tier, own_outages
from controlplane.controllers.reads.fleet_state import (
    FLEET,
    FLEET_ROW,
    PROPAGATE_DEPS,
    STOPS_KEPT,
    TIER_ROW,
    WORKERS_ROW,
    cluster_health_changed,
    failover_configuration,
    fleet_states,
    next_look,
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
    """All clusters and windows, with the rows that are stored about the fleet and the workers."""

    state: FleetState
    clusters: tuple[Cluster, ...]
    subject: FailoverConfiguration
    windows: tuple[MaintenanceWindow, ...] = ()
    tier_row: FleetState = FleetState(TIER_ROW)
    workers_row: FleetState = FleetState(WORKERS_ROW)


class FleetWatch(Controller):
    """Key: the fleet. Writes the FleetState rows FLEET_ROW, TIER_ROW and WORKERS_ROW."""

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
        fleet_row, tier_row, workers_row = fleet_states(state, FLEET_ROW, TIER_ROW, WORKERS_ROW)
        clusters = tuple(state.list(CLUSTER))
        snapshot = FleetSnapshot(fleet_row, clusters, failover_configuration(state), windows, tier_row, workers_row)
        return [snapshot if ref == FLEET else None for ref in refs]

    def decide(self, snapshot: FleetSnapshot, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        maintained = {name for window in snapshot.windows if window.open(now=now) for name in window.spec.clusters}
        fleet, old = eviction_tier.fleet_health(snapshot.clusters, maintained=maintained), snapshot.state
        new, events = old, []
        if settings.gate("Failover") != (old.failover_on_since is not None):
            new = replace(new, failover_on_since=now if settings.gate("Failover") else None)
        if fleet.blind and old.blind_since is None:
            new = replace(new, blind_since=now)
            why = eviction_tier.tier(fleet, settings).why
            events.append(
                Event(snapshot.subject, "FleetBlind", f"{why}; nothing is evicted until one of them recovers", True)
            )
        elif not fleet.blind and old.blind_since is not None:
            new = replace(new, blind_since=None, sighted_at=now)
            message = "a cluster is no longer faulty; the times of taints and tolerations start again"
            events.append(Event(snapshot.subject, "FleetSighted", message))
        tier = eviction_tier.in_force(fleet, new, settings)
        tier_row = _with_stop(snapshot.tier_row, tier, settings, now=now)
        before = snapshot.tier_row.tier or eviction_tier.NORMAL
        if settings.gate("Failover") and tier.name != before:
            tier_row = replace(tier_row, tier=tier.name)
            message = f"at most {tier.rate:g} evictions per second: the tier is {tier.name}, it was {before}"
            message = f"{message}: {tier.why}" if tier.why else message
            events.append(Event(snapshot.subject, "EvictionTierChanged", message, tier.name != eviction_tier.NORMAL))
        workers_row = own_outages.with_look(snapshot.workers_row, settings, now=now)
        workers_row = replace(workers_row, dependencies="On" if settings.gate(PROPAGATE_DEPS) else "Off")
        rows = ((new, old), (tier_row, snapshot.tier_row), (workers_row, snapshot.workers_row))
        return Decision(
            changes=tuple(Save(row, stored) for row, stored in rows if row != stored),
            events=tuple(events),
            wake_at=next_look(settings, now=now),
            reason="FleetWatch",
        )


def _with_stop(row: FleetState, tier: eviction_tier.Tier, settings: Settings, *, now: datetime) -> FleetState:
    """Return the row with the present stop of evictions begun or ended. Evictions report what they have waited for."""
    last = row.stops[-1] if row.stops else None
    is_stopped = last is not None and last.until is None
    if (settings.gate("Failover") and tier.rate <= 0) == is_stopped:
        return row
    if last is not None and is_stopped:
        return replace(row, stops=(*row.stops[:-1], replace(last, until=now)))
    why = tier.why or "the eviction rate is set to 0"
    return replace(row, stops=(*row.stops, Stop(now, why))[-STOPS_KEPT:])
