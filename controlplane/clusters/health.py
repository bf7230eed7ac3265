"""Computes the debounced Ready condition of a cluster from its observations.

Rules: [cluster-status] (thresholds), [heartbeat-leases] (grace periods), [lost-access].
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, condition
from controlplane.apimachinery.times import later
from controlplane.clusters import flapping, own_outages, probe_history
from controlplane.clusters.probe_history import noted
from controlplane.kinds.cluster import (
    ACCESS_LOST,
    ACCESS_REFUSED,
    ESTABLISHED,
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
"""Reason of a Ready that is set because the agent of a Pull member is back and has not reported Ready itself yet."""
RENEWED = "its agent renews its Lease"


class Seen(msgspec.Struct, frozen=True):
    """What one probe or heartbeat means.

    `access_lost`: why the member refused access; "" if it did not. If it did, the probe says nothing about the health
    of the cluster, and `reason` is the reason of the condition AccessLost.
    """

    status: str
    reason: str = ""
    message: str = ""
    access_lost: str = ""


def seen(code: int, *, problem: str = "", access: str = "") -> Seen:
    """Return what a readiness probe means.

    `code`: the HTTP status; 0: there was no answer. `problem`: the error in words. `access`: why the member refused
    access; "" if it did not. 200 means Ready. No answer and 5xx mean not reachable. Other answers mean not ready.
    """
    if access:
        return Seen("", access, access_lost=problem or f"the member answered {code}")
    if code == 200:
        return Seen(TRUE, CLUSTER_READY, "cluster is healthy and ready to accept workloads")
    if code == 0 or code >= 500:
        return Seen(FALSE, CLUSTER_NOT_REACHABLE, problem or f"cluster is not reachable: it answered {code}")
    return Seen(FALSE, CLUSTER_NOT_READY, problem or f"cluster answered {code} to its readiness probe")


def holds_for(settings: Settings) -> timedelta:
    """Return how long an observation is valid: twice the time until the next observation is due."""
    return timedelta(seconds=2 * settings.cluster_status_update_frequency)


def observe(row: Observation, what: Seen, settings: Settings, *, now: datetime) -> Observation:
    """Return the observation after a probe.

    Time without observations counts for no clock, and time without access does not count for the thresholds of Ready:
    an answer that refuses access says nothing about the health of the cluster [lost-access].
    """
    known = without_gap(row, settings, now=now)
    if row.access_lost and row.since is not None and row.observed_at is not None:
        known = replace(known, since=row.since + (now - row.observed_at))
    if what.access_lost:
        history = noted(known.history, probe_history.ACCESS_LOST, now=now)
        lost = {"access_lost": what.access_lost, "access_reason": what.reason}
        return replace(known, observed_at=now, history=history, **lost)
    put_back = known.since is not None and known.since > now  # the clock, since then
    crossed = (known.status == TRUE) != (what.status == TRUE) or not known.status
    turned = flapping.turned(known, now) if crossed and known.status else known
    return replace(
        turned,
        status=what.status,
        reason=what.reason,
        message=what.message,
        since=now if crossed or put_back or known.since is None else known.since,
        observed_at=now,
        access_lost="",
        access_reason="",
        answered_at=now if what.status == TRUE else turned.answered_at,
        history=noted(turned.history, what.status, now=now),
    )


def heartbeat(row: Observation, what: Seen, settings: Settings, *, now: datetime) -> Observation:
    """Return the observation after a heartbeat of a Pull member. `now`: when it was received, by the store's clock."""
    grace = timedelta(seconds=settings.cluster_monitor_grace_period)
    lapsed = row.renewed_at is None or now - row.renewed_at >= grace
    beaten = observe(row, what, settings, now=now)
    if lapsed and row.renewed_at is not None:  # it was silent in between, and that is known only now
        beaten = flapping.turned(beaten, row.renewed_at + grace, now)
    return replace(beaten, renewed_at=now, answered_at=now, since=now if lapsed else beaten.since)


def heard_at(cluster: Cluster, row: Observation) -> datetime | None:
    """Return when a member last answered a probe (Push) or when its agent last sent a heartbeat (Pull)."""
    return row.renewed_at if cluster.spec.sync_mode == PULL else row.observed_at


def observed_until(row: Observation | None, settings: Settings, *, now: datetime) -> datetime:
    """Return until when the last observation of a cluster is valid, at most `now`. Without any observation: `now`."""
    return now if row is None or row.observed_at is None else min(now, row.observed_at + holds_for(settings))


def unobserved(row: Observation, settings: Settings, *, since: datetime, now: datetime) -> timedelta:
    """Return for how long a cluster was not observed between a time and now."""
    return own_outages.total(_gaps(row, settings, now=now), since=since)


def _gaps(row: Observation, settings: Settings, *, now: datetime) -> Iterator[own_outages.Gap]:
    """Yield the times until now in which a cluster was not observed."""
    until = observed_until(row, settings, now=now)
    ends = [*(spell.since for spell in row.history[1:]), until]
    for spell, end in zip(row.history, ends, strict=False):
        if spell.status == probe_history.UNOBSERVED:
            yield spell.since, min(end, until)
    yield until, now


def ends_observed(
    since: datetime,
    seconds: float,
    row: Observation | None,
    settings: Settings,
    *,
    workers: FleetState | None = None,
    now: datetime,
) -> datetime:
    """Return when a time limit that began at `since` ends, as far as is known now.

    Time in which the cluster was not observed does not count, and a report from before such a time is not enough: the
    watches of the members have to begin again first. A cluster that is not probed counts as observed. Time in which no
    worker ran does not count either (`workers`: the row about them; None: they ran all the time).
    """
    wait, gaps = holds_for(settings), own_outages.absences(workers)
    resumed = [end for _, end in gaps[-1:]]
    if own_outages.are_away(workers, settings, now=now):
        return now + wait
    if row is not None and row.observed_at is not None:
        if observed_until(row, settings, now=now) < now:
            return now + wait
        gaps = (*gaps, *_gaps(row, settings, now=now))
        resumed += [] if row.resumed_at is None else [row.resumed_at]
    ends = later(since, seconds + own_outages.total(gaps, since=since).total_seconds())
    return max([ends, *(moment + wait for moment in resumed if moment > since)])


def may_have_recovered(cluster: Cluster, row: Observation | None, settings: Settings, *, now: datetime) -> bool:
    """Test whether a cluster may have recovered while it was not observed.

    That is so while it is not Ready and no process observes it, and after that, if it answers, until Ready and the
    taints have followed its answers. A cluster that was Ready all the time has not recovered. A cluster that is not
    probed counts as observed.
    """
    pulled = cluster.spec.sync_mode == PULL
    if row is None or row.observed_at is None or not (pulled or cluster.called_directly):
        return False
    if observed_until(row, settings, now=now) < now:
        return cluster.ready != TRUE
    if row.resumed_at is None or row.status != TRUE or _ready_since(cluster, row.resumed_at):
        return False
    follows = timedelta(seconds=settings.cluster_success_threshold + settings.cluster_monitor_period)
    return now < row.resumed_at + follows


def _ready_since(cluster: Cluster, moment: datetime) -> bool:
    """Test whether a cluster is Ready since a time or longer."""
    ready = condition(cluster.status.conditions, READY)
    if ready is None or ready.status != TRUE or ready.last_transition_time is None:
        return False
    return ready.last_transition_time <= moment


def fails(row: Observation | None) -> bool:
    """Test whether the last probe of a cluster failed. It may still be published as Ready, which is debounced."""
    return row is not None and row.status not in ("", TRUE)


def is_out_of_date(row: Observation, settings: Settings, *, now: datetime) -> bool:
    """Test whether what is known of a cluster may be from before a time in which it was not observed: it is not
    observed now, or the watches of the members have just begun again. A cluster that is not probed is observed."""
    if row.observed_at is None:
        return False
    resumed = row.resumed_at is not None and now < row.resumed_at + holds_for(settings)
    return resumed or observed_until(row, settings, now=now) < now


def without_gap(
    row: Observation, settings: Settings, *, now: datetime, heard_until: datetime | None = None
) -> Observation:
    """Return the observation with all its clocks moved by the time in which the cluster was not observed.

    `heard_until`: until when an API process ran that a member could report to. None: one runs now.
    """
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
    history = noted(row.history, probe_history.UNOBSERVED, now=max(row.observed_at, now - gap))
    return replace(
        row, since=since, turned_at=turned_at, unobserved_seconds=unobserved, resumed_at=now, history=history
    )


class Debounced(msgspec.Struct, frozen=True):
    """The conditions to publish. `wake_at`: when the passage of time alone may change them; None: never."""

    conditions: tuple[Condition, ...]
    wake_at: datetime | None = None


def debounce(cluster: Cluster, row: Observation | None, settings: Settings, *, now: datetime) -> Debounced:
    """Return the debounced conditions Ready, AccessLost and Established of a cluster, without transition times.

    A change between True and not True has to last for the threshold; only observed time counts. A change between False
    and Unknown, and the first observation, are published at once [cluster-status]. While access is lost, Ready keeps
    its status, and its message explains that this is the last known status [lost-access].
    """
    published = condition(cluster.status.conditions, READY)
    if row is not None and row.access_lost:
        reason = row.access_reason or ACCESS_REFUSED
        lost = Condition(ACCESS_LOST, TRUE, reason, row.access_lost)
        kept = () if published is None else (_last_known(published, reason, row.access_lost),)
        return Debounced((lost, *kept, *_established(cluster, published)))
    ready, wake_at = _ready(cluster, published, row, settings, now=now)
    conditions: tuple[Condition, ...] = () if ready is None else (ready,)
    if row is not None and condition(cluster.status.conditions, ACCESS_LOST) is not None:
        conditions += (Condition(ACCESS_LOST, FALSE, "AccessGranted", "the cluster grants access"),)
    return Debounced((*conditions, *_established(cluster, ready)), wake_at)


def _last_known(ready: Condition, reason: str, why: str) -> Condition:
    return replace(ready, reason=reason, message=f"{ready.status} is the last known status; since then: {why}")


def _established(cluster: Cluster, ready: Condition | None) -> tuple[Condition, ...]:
    if ready is None or ready.status != TRUE or condition(cluster.status.conditions, ESTABLISHED) is not None:
        return ()
    return (
        Condition(
            ESTABLISHED,
            TRUE,
            "ClusterWasReady",
            "the cluster has been Ready once, so it counts in the health of the fleet",
        ),
    )


def _ready(
    cluster: Cluster, published: Condition | None, row: Observation | None, settings: Settings, *, now: datetime
) -> tuple[Condition | None, datetime | None]:
    wake_at, pulled = None, cluster.spec.sync_mode == PULL
    if pulled:
        silent, wake_at = _silence(cluster, row, settings, now=now)
        if silent is not None:
            return silent, None
        if (word := reported_ready(cluster)) is not None:
            return word, wake_at  # the agent has debounced it already
    if row is None or not row.status or row.since is None or row.observed_at is None:
        return published, wake_at
    observed = _agent_is_back(row) if pulled else Condition(READY, row.status, row.reason, row.message)
    if published is None or (published.status == TRUE) == (row.status == TRUE):
        return observed, wake_at
    seconds = settings.cluster_success_threshold if row.status == TRUE else settings.cluster_failure_threshold
    boundary = row.since + timedelta(seconds=seconds)
    if observed_until(row, settings, now=now) >= boundary:
        return observed, wake_at
    later = boundary if boundary > now else now + holds_for(settings)
    return published, later if wake_at is None else min(later, wake_at)


def reported_ready(cluster: Cluster) -> Condition | None:
    """Return the Ready condition that the agent of a Pull member wrote. None: there is none, or it is our own."""
    ready = condition(cluster.status.conditions, READY)
    if ready is None or ready.status not in (TRUE, FALSE) or ready.reason == HEARTBEAT:
        return None
    return ready


def _agent_is_back(row: Observation) -> Condition:
    """Return Ready of a Pull member whose agent sends heartbeats again and has not reported Ready since."""
    message = RENEWED if row.reason in ("", HEARTBEAT) else f"{RENEWED}; its last report: {row.reason}: {row.message}"
    return Condition(READY, row.status, HEARTBEAT, message)


def _silence(
    cluster: Cluster, row: Observation | None, settings: Settings, *, now: datetime
) -> tuple[Condition | None, datetime | None]:
    """Return Ready=Unknown if the heartbeats of a Pull member have stopped, else when they will count as stopped."""
    contact = None if row is None else row.renewed_at
    if contact is not None:
        deadline = contact + timedelta(seconds=settings.cluster_monitor_grace_period)
        silent = Condition(READY, UNKNOWN, STATUS_UNKNOWN, "cluster stopped sending heartbeats")
    else:
        joined = cluster.metadata.creation_timestamp or now
        deadline = joined + timedelta(seconds=settings.cluster_startup_grace_period)
        silent = Condition(READY, UNKNOWN, NEVER_UPDATED, "cluster never sent a heartbeat")
    return (silent, None) if now >= deadline else (None, deadline)


def established(cluster: Cluster) -> bool:
    """Test whether a cluster is Ready or has been Ready once."""
    if cluster.ready == TRUE:
        return True
    found = condition(cluster.status.conditions, ESTABLISHED)
    return found is not None and found.status == TRUE
