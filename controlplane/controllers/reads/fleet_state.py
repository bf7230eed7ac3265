"""What the database remembers about the fleet as a whole, and which changes make the fleet due.

`controllers.fleet_watch` and `controllers.evictions` write the rows; many controllers and API views read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from controlplane.apimachinery.meta import ObjectMeta, Ref
from controlplane.clusters import eviction_tier
from controlplane.engine.state import State
from controlplane.eviction.holds import Holds
from controlplane.kinds import CLUSTER, FAILOVER_CONFIGURATION
from controlplane.kinds.cluster import EVICTING_EFFECTS, Cluster
from controlplane.kinds.configuration import NAME, FailoverConfiguration
from controlplane.kinds.rows import FleetState, Observation
from controlplane.settings import Settings

FLEET = Ref(FAILOVER_CONFIGURATION, "", NAME)
"""Stands for the whole fleet: the key of controllers that have one key only, and the origin of a fan-out to all
clusters."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FLEET_ROW = "default"
QUEUE_ROW = "queue"
TIER_ROW = "tier"  # not part of FLEET_ROW: a change of FLEET_ROW makes every binding on a tainted cluster due
WORKERS_ROW = "workers"
PROPAGATE_DEPS = "PropagateDeps"  # the gate of controllers.dependencies, which WORKERS_ROW has as it was last
STOPS_KEPT = 8  # how many of the latest stops (`rows.Stop`) a row keeps


def next_look(settings: Settings, *, now: datetime) -> datetime:
    """Return when what is looked at in each `cluster_monitor_period` is looked at again, at most one period from `now`.

    It is the same moment for all clusters and the fleet, so that one batch looks at all of them.
    """
    period = timedelta(seconds=settings.cluster_monitor_period)
    return now + period - (now - _EPOCH) % period


def fleet_state(state: State) -> FleetState:
    """Return the stored state of the fleet, with default values if it was never written. Makes one query."""
    return fleet_states(state, FLEET_ROW)[0]


def fleet_states(state: State, *keys: str) -> list[FleetState]:
    """Return the FleetState rows with these keys, in this order. Makes one query.

    A row that was never written is returned with default values.
    """
    rows = state.rows(FleetState, "key", keys)
    return [next(iter(rows.get(key, ())), FleetState(key)) for key in keys]


def fleet_and_workers(state: State) -> tuple[FleetState, FleetState]:
    """Return the state of the fleet, and when no worker ran. Makes one query."""
    fleet, workers = fleet_states(state, FLEET_ROW, WORKERS_ROW)
    return fleet, workers


def observations_of(state: State, clusters: Sequence[str]) -> dict[str, Observation]:
    """Return the observations of clusters by name. Makes one query, none without clusters."""
    found = state.rows(Observation, "key", clusters) if clusters else {}
    return {name: row for name, rows in found.items() for row in rows}


def clusters_with_evicting_taints(state: State) -> list[str]:
    """Return the sorted names of the clusters that carry a NoExecute or PreferNoExecute taint."""
    by_effect = state.by_index(CLUSTER, "taint", EVICTING_EFFECTS)
    return sorted({cluster.metadata.name for clusters in by_effect.values() for cluster in clusters})


def failover_configuration(state: State) -> FailoverConfiguration:
    """Return the FailoverConfiguration, which Events about the fleet are attached to.

    If it does not exist, return an object with the same name and empty fields.
    """
    stored: FailoverConfiguration | None = state.get([FLEET]).get(FLEET)
    return stored or FailoverConfiguration(
        api_version="failover.lifeboat.io/v1alpha1", kind="FailoverConfiguration", metadata=ObjectMeta(name=NAME)
    )


def cluster_health_changed(old: Cluster | None, new: Cluster | None) -> Iterable[Ref]:
    """Make the fleet due if a cluster was added or removed, or changed in a way that the health of the fleet counts."""
    if old is None or new is None or old.spec.taints != new.spec.taints or old.terminating != new.terminating:
        return (FLEET,)
    return () if old.status.conditions == new.status.conditions else (FLEET,)


def fleet_state_changed(old: FleetState | None, new: FleetState | None) -> Iterable[Ref]:
    """Make the fleet due if the Failover gate was switched on or off, or the fleet became or stopped being blind."""
    return (FLEET,) if new is not None and new.key == FLEET_ROW else ()


def reason_to_pause(
    clusters: Iterable[Cluster],
    fleet: FleetState,
    holds: Holds,
    next_eviction: datetime | None,
    settings: Settings,
    *,
    now: datetime,
) -> str:
    """Return why drains and failbacks have to wait now, "" if they may go on [unjoin-and-drain].

    They wait while evictions from failed clusters are due, and while the eviction tier is not Normal.
    `next_eviction` is the due time of the first queued eviction. None: the queue is empty.
    """
    if next_eviction is not None and next_eviction <= now:
        return "evictions from failed clusters are due: they go first"
    seen = eviction_tier.fleet_health(clusters, maintained=holds.maintained(now=now))
    tier = eviction_tier.in_force(seen, fleet, settings)
    return "" if tier.name == eviction_tier.NORMAL else f"the eviction tier is {tier.name}: {tier.why}"
