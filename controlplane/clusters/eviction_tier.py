"""Decides at which rate evictions run, by how many clusters of the fleet are faulty [eviction-tier] [blind-fleet].

Tiers: Normal (full rate), Secondary (reduced rate, in large fleets), Stopped (no evictions, in small fleets) and Blind
(no evictions, because all clusters are faulty).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

import msgspec

from controlplane.clusters.health import TRUE, established
from controlplane.kinds.cluster import EVICTING_EFFECTS, Cluster
from controlplane.kinds.rows import FleetState
from controlplane.settings import Settings

NORMAL, SECONDARY, STOPPED, BLIND = "Normal", "Secondary", "Stopped", "Blind"
NO_TOKENS, NOT_OBSERVED = "no tokens", "not observed"
"""How the reason begins why evictions wait: for the token buckets, or for observations of their clusters."""
GATE_OFF = "the feature gate Failover is off"
"""Why nothing is evicted while it is, whatever the tier."""


class FleetHealth(msgspec.Struct, frozen=True):
    """How many clusters count, and which of them are faulty [eviction-tier]."""

    total: int
    faulty: tuple[str, ...]

    @property
    def blind(self) -> bool:
        """Whether all clusters are faulty: the control plane itself may be cut off [blind-fleet]."""
        return self.total > 0 and len(self.faulty) == self.total


class Tier(msgspec.Struct, frozen=True):
    """The eviction rate that applies, in resources per second, and why. `why` "": the fleet is healthy."""

    name: str
    rate: float
    why: str = ""


def counted(cluster: Cluster) -> bool:
    """Test whether a cluster counts in the health of the fleet: it has been Ready once and is not being deleted."""
    return established(cluster) and not cluster.terminating


def faulty(cluster: Cluster) -> bool:
    """Test whether a cluster that counts is faulty: it is not Ready, or it has a taint that evicts [eviction-tier].

    Lost access does not make a cluster faulty, because Ready keeps its last status then [lost-access].
    """
    return cluster.ready != TRUE or cluster.has_taint(*EVICTING_EFFECTS)


def fleet_health(clusters: Iterable[Cluster], *, maintained: Collection[str] = ()) -> FleetHealth:
    """Return the health of the fleet. Clusters in a MaintenanceWindow (`maintained`) are left out [eviction-tier]."""
    members = [cluster for cluster in clusters if counted(cluster) and cluster.metadata.name not in maintained]
    return FleetHealth(len(members), tuple(cluster.metadata.name for cluster in members if faulty(cluster)))


def tier(fleet: FleetHealth, settings: Settings) -> Tier:
    """Return the tier of a fleet [eviction-tier].

    The fleet is unhealthy if 10000 · faulty > threshold · total, with the threshold as an integer of four decimals.
    Example: threshold 0.55 → 5500, so 11 of 20 faulty clusters are still Normal.
    """
    broken, total = len(fleet.faulty), fleet.total
    if fleet.blind:
        return Tier(BLIND, 0, f"all {total} clusters are faulty, so the control plane itself may be cut off")
    threshold = round(10_000 * settings.unhealthy_cluster_threshold)
    if 10_000 * broken <= threshold * total:
        return Tier(NORMAL, settings.resource_eviction_rate)
    share = f"{broken} of {total} clusters are faulty, more than {settings.unhealthy_cluster_threshold:.2%}"
    if total <= settings.large_cluster_num_threshold:
        small = f"a fleet of at most {settings.large_cluster_num_threshold} clusters then evicts nothing"
        return Tier(STOPPED, 0, f"{share}; {small}")
    return Tier(SECONDARY, settings.secondary_resource_eviction_rate, share)


def in_force(health: FleetHealth, fleet: FleetState, settings: Settings) -> Tier:
    """Return the tier that evictions obey.

    A blind fleet stays blind until the controller fleet-watch has stored that it is not blind any more [blind-fleet].
    """
    current = tier(health, settings)
    if fleet.blind_since is not None and current.name != BLIND:
        return Tier(BLIND, 0, "the fleet was blind until now; evictions go on once its new health is stored")
    return current


def as_it_works(current: Tier, queue: FleetState) -> Tier:
    """Return a tier with the rate at which evictions take place, for users: 0 while all wait for tokens or
    observations.

    Evictions themselves obey `in_force`, so that they ask the buckets again. `queue`: the row that
    controllers.evictions stores about the queue.
    """
    last = queue.stops[-1] if queue.stops else None
    return current if current.rate <= 0 or last is None or last.until is not None else Tier(current.name, 0, last.why)


def clock_start(fleet: FleetState) -> datetime | None:
    """Return from when the clocks of evictions count: since the gate Failover is on, and since the end of blindness.

    None: the gate is off, or it is not stored yet that it is on. Then no clock runs [failover-gate] [blind-fleet].
    """
    if fleet.failover_on_since is None:
        return None
    if fleet.sighted_at is None:
        return fleet.failover_on_since
    return max(fleet.failover_on_since, fleet.sighted_at)
