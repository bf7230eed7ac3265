"""From observations to a debounced Ready condition, and from many clusters to the health of the fleet.

Rules: semantics 2.1 and 2.2 (thresholds, grace periods), D8 (tiers), D9 (blindness), D22 (lost access).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, condition
from controlplane.clusters import flapping
from controlplane.kinds.cluster import (
    ACCESS_LOST,
    ACCESS_REFUSED,
    ESTABLISHED,
    EVICTING_EFFECTS,
    PULL,
    READY,
    Cluster,
)
from controlplane.kinds.rows import FleetState, Observation
from controlplane.settings import Settings

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"

CLUSTER_READY = "ClusterReady"
CLUSTER_NOT_REACHABLE = "ClusterNotReachable"
CLUSTER_NOT_READY = "ClusterNotReady"
STATUS_UNKNOWN = "ClusterStatusUnknown"
NEVER_UPDATED = "ClusterStatusNeverUpdated"
HEARTBEAT = "ClusterHeartbeat"
"""Reason of a Ready that we publish because a Pull member's agent is back, until the agent itself says something."""
RENEWED = "its agent renews its Lease"


class Seen(msgspec.Struct, frozen=True):
    """What one probe or heartbeat says. `access_lost`: why we were not let in; the cluster is not judged then, and
    `reason` is that of the lost access."""

    status: str
    reason: str = ""
    message: str = ""
    access_lost: str = ""


def seen(code: int, *, problem: str = "", access: str = "") -> Seen:
    """Return what a readiness probe means: HTTP code (0: no answer), the problem in words, `access` the reason why we
    were not let in, "" where we were.

    200 is Ready; no answer and server errors are not reachable; any other answer is not ready (semantics 2.1).
    """
    if access:
        return Seen("", access, access_lost=problem or f"the member answered {code}")
    if code == 200:
        return Seen(TRUE, CLUSTER_READY, "cluster is healthy and ready to accept workloads")
    if code == 0 or code >= 500:
        return Seen(FALSE, CLUSTER_NOT_REACHABLE, problem or f"cluster is not reachable: it answered {code}")
    return Seen(FALSE, CLUSTER_NOT_READY, problem or f"cluster answered {code} to its readiness probe")


def holds_for(settings: Settings) -> timedelta:
    """Return how long an observation speaks for a cluster: until the next one was due, twice over."""
    return timedelta(seconds=2 * settings.cluster_status_update_frequency)


def observe(row: Observation, what: Seen, settings: Settings, *, now: datetime) -> Observation:
    """Return the observation after a probe. Time in which nobody looked is taken out of every clock."""
    if what.access_lost:
        lost = {"access_lost": what.access_lost, "access_reason": what.reason}
        return replace(without_gap(row, settings, now=now), observed_at=now, **lost)
    known = without_gap(row, settings, now=now)
    crossed = (known.status == TRUE) != (what.status == TRUE) or not known.status
    turned = flapping.turned(known, now) if crossed and known.status else known
    return replace(
        turned,
        status=what.status,
        reason=what.reason,
        message=what.message,
        since=now if crossed or known.since is None else known.since,
        observed_at=now,
        access_lost="",
        access_reason="",
        answered_at=now if what.status == TRUE else turned.answered_at,
    )


def heartbeat(row: Observation, what: Seen, settings: Settings, *, now: datetime) -> Observation:
    """Return the observation after a Pull member's heartbeat. `now` is the moment of receipt, by the store's clock."""
    grace = timedelta(seconds=settings.cluster_monitor_grace_period)
    lapsed = row.renewed_at is None or now - row.renewed_at >= grace
    beaten = observe(row, what, settings, now=now)
    if lapsed and row.renewed_at is not None:  # it fell silent, which shows now that it is back
        beaten = flapping.turned(beaten, row.renewed_at + grace, now)
    return replace(beaten, renewed_at=now, answered_at=now, since=now if lapsed else beaten.since)


def heard_at(cluster: Cluster, row: Observation) -> datetime | None:
    """Return when a member itself was last heard of: by the last probe, or from its agent."""
    return row.renewed_at if cluster.spec.sync_mode == PULL else row.observed_at


def observed_until(row: Observation | None, settings: Settings, *, now: datetime) -> datetime:
    """Return up to when a cluster is observed, as far as anybody ever looked; else now."""
    return now if row is None or row.observed_at is None else min(now, row.observed_at + holds_for(settings))


def without_gap(
    row: Observation, settings: Settings, *, now: datetime, heard_until: datetime | None = None
) -> Observation:
    """Return the observation with the time in which nobody looked taken out of its clocks. `heard_until`: up to when
    there was somebody whom a member could report to; None: there is."""
    if row.observed_at is None:
        return row
    gap = now - row.observed_at - holds_for(settings)
    if heard_until is not None:
        gap = max(gap, now - max(heard_until, row.observed_at))
    if gap <= timedelta(0):
        return row
    since = None if row.since is None else row.since + gap
    turned_at = tuple(moment + gap for moment in row.turned_at)
    unobserved = row.unobserved_seconds + gap.total_seconds()
    return replace(row, since=since, turned_at=turned_at, unobserved_seconds=unobserved, resumed_at=now)


class Settled(msgspec.Struct, frozen=True):
    """Conditions as they shall be published; `wake_at`: when the clock alone may change them."""

    conditions: tuple[Condition, ...]
    wake_at: datetime | None = None


def settle(cluster: Cluster, row: Observation | None, settings: Settings, *, now: datetime) -> Settled:
    """Return the debounced Ready, AccessLost and Established conditions of a cluster (transition times left open).

    Crossing between True and not True takes the threshold, counted to the second and only over observed time; False
    and Unknown change places at once; the first observation is accepted (semantics 2.1). While access is lost Ready
    keeps its status and says why that is only the last known one (D22).
    """
    published = condition(cluster.status.conditions, READY)
    if row is not None and row.access_lost:
        reason = row.access_reason or ACCESS_REFUSED
        lost = Condition(ACCESS_LOST, TRUE, reason, row.access_lost)
        kept = () if published is None else (_last_known(published, reason, row.access_lost),)
        return Settled((lost, *kept, *_established(cluster, published)))
    ready, wake_at = _ready(cluster, published, row, settings, now=now)
    conditions: tuple[Condition, ...] = () if ready is None else (ready,)
    if row is not None and condition(cluster.status.conditions, ACCESS_LOST) is not None:
        conditions += (Condition(ACCESS_LOST, FALSE, "AccessGranted", "the cluster lets us in"),)
    return Settled((*conditions, *_established(cluster, ready)), wake_at)


def _last_known(ready: Condition, reason: str, why: str) -> Condition:
    return replace(ready, reason=reason, message=f"{ready.status} is what was last seen; since then: {why}")


def _established(cluster: Cluster, ready: Condition | None) -> tuple[Condition, ...]:
    if ready is None or ready.status != TRUE or condition(cluster.status.conditions, ESTABLISHED) is not None:
        return ()
    return (Condition(ESTABLISHED, TRUE, "ClusterWasReady", "the cluster has been Ready; it counts in fleet health"),)


def _ready(
    cluster: Cluster, published: Condition | None, row: Observation | None, settings: Settings, *, now: datetime
) -> tuple[Condition | None, datetime | None]:
    wake_at, pulled = None, cluster.spec.sync_mode == PULL
    if pulled:
        silent, wake_at = _silence(cluster, row, settings, now=now)
        if silent is not None:
            return silent, None
        if (word := said(cluster)) is not None:
            return word, wake_at  # the agent has debounced it (semantics 2.1)
    if row is None or not row.status or row.since is None or row.observed_at is None:
        return published, wake_at
    observed = _last_word(row) if pulled else Condition(READY, row.status, row.reason, row.message)
    if published is None or (published.status == TRUE) == (row.status == TRUE):
        return observed, wake_at
    seconds = settings.cluster_success_threshold if row.status == TRUE else settings.cluster_failure_threshold
    boundary = row.since + timedelta(seconds=seconds)
    if observed_until(row, settings, now=now) >= boundary:
        return observed, wake_at
    later = boundary if boundary > now else now + holds_for(settings)
    return published, later if wake_at is None else min(later, wake_at)


def said(cluster: Cluster) -> Condition | None:
    """Return Ready as a Pull member's agent wrote it; None where what stands there is ours, or nothing."""
    ready = condition(cluster.status.conditions, READY)
    if ready is None or ready.status not in (TRUE, FALSE) or ready.reason == HEARTBEAT:
        return None
    return ready


def _last_word(row: Observation) -> Condition:
    """Return Ready of a Pull member that is heard again and has not said anything about it since."""
    told = RENEWED if row.reason in ("", HEARTBEAT) else f"{RENEWED}; its last word: {row.reason}: {row.message}"
    return Condition(READY, row.status, HEARTBEAT, told)


def _silence(
    cluster: Cluster, row: Observation | None, settings: Settings, *, now: datetime
) -> tuple[Condition | None, datetime | None]:
    """Return Ready=Unknown where a Pull member's heartbeats stopped, else when they would have (semantics 2.2)."""
    contact = None if row is None else row.renewed_at
    if contact is not None:
        deadline = contact + timedelta(seconds=settings.cluster_monitor_grace_period)
        told = Condition(READY, UNKNOWN, STATUS_UNKNOWN, "cluster stopped sending heartbeats")
    else:
        joined = cluster.metadata.creation_timestamp or now
        deadline = joined + timedelta(seconds=settings.cluster_startup_grace_period)
        told = Condition(READY, UNKNOWN, NEVER_UPDATED, "cluster never sent a heartbeat")
    return (told, None) if now >= deadline else (None, deadline)


# The fleet

NORMAL, SECONDARY, STOPPED, BLIND = "Normal", "Secondary", "Stopped", "Blind"


class FleetHealth(msgspec.Struct, frozen=True):
    """How many clusters count and how many of them are faulty (D8)."""

    total: int
    faulty: tuple[str, ...]

    @property
    def blind(self) -> bool:
        """All clusters are faulty: we may be the ones cut off (D9)."""
        return self.total > 0 and len(self.faulty) == self.total


class Tier(msgspec.Struct, frozen=True):
    """Which eviction rate applies, in resources per second, and why."""

    name: str
    rate: float
    why: str = ""


def established(cluster: Cluster) -> bool:
    """Test whether a cluster has been Ready once."""
    if cluster.ready == TRUE:
        return True
    found = condition(cluster.status.conditions, ESTABLISHED)
    return found is not None and found.status == TRUE


def counted(cluster: Cluster) -> bool:
    """Test whether a cluster counts in fleet health: it has been Ready once and is not being deleted (D8)."""
    return established(cluster) and not cluster.terminating


def faulty(cluster: Cluster) -> bool:
    """Test whether a counted cluster is faulty: a taint that moves workloads, or Ready once and not now (D8).

    Lost access is not a fault of the cluster (D22): Ready keeps its last status then.
    """
    return cluster.ready != TRUE or cluster.has_taint(*EVICTING_EFFECTS)


def fleet_health(clusters: Iterable[Cluster], *, maintained: Collection[str] = ()) -> FleetHealth:
    """Return the health of the fleet; clusters in a MaintenanceWindow (`maintained`) count in neither number (D8)."""
    members = [cluster for cluster in clusters if counted(cluster) and cluster.metadata.name not in maintained]
    return FleetHealth(len(members), tuple(one.metadata.name for one in members if faulty(one)))


def tier(fleet: FleetHealth, settings: Settings) -> Tier:
    """Return the tier by D8's integer rule: unhealthy when 10000·faulty > t·total, t the threshold to four decimals."""
    broken, total = len(fleet.faulty), fleet.total
    if fleet.blind:
        return Tier(BLIND, 0, f"all {total} clusters are faulty: we may be the ones cut off (D9)")
    threshold = round(10_000 * settings.unhealthy_cluster_threshold)
    if 10_000 * broken <= threshold * total:
        return Tier(NORMAL, settings.resource_eviction_rate)
    share = f"{broken} of {total} clusters are faulty, more than {settings.unhealthy_cluster_threshold:.2%}"
    if total <= settings.large_cluster_num_threshold:
        return Tier(STOPPED, 0, f"{share}; fleets of at most {settings.large_cluster_num_threshold} clusters stop")
    return Tier(SECONDARY, settings.secondary_resource_eviction_rate, share)


def in_force(health: FleetHealth, fleet: FleetState, settings: Settings) -> Tier:
    """Return the tier that evictions obey; blindness ends when controllers.fleet_watch has noted its end (D9)."""
    found = tier(health, settings)
    if fleet.blind_since is not None and found.name != BLIND:
        return Tier(BLIND, 0, "the end of blindness has not been noted yet")
    return found


def clock_start(fleet: FleetState) -> datetime | None:
    """Return the earliest moment any eviction clock may count from: gate on, end of blindness (D9, D17).

    None: the gate is off, or nobody has noted yet that it is on; then no clock runs at all.
    """
    if fleet.failover_on_since is None:
        return None
    if fleet.sighted_at is None:
        return fleet.failover_on_since
    return max(fleet.failover_on_since, fleet.sighted_at)
