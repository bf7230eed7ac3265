"""Situation: the state of the fleet in a sentence and in figures, for FleetStatus and the first page of the console.

It is computed from the clusters, from tallies that the database keeps (`Tally`), and from a few rows. Its cost depends
on the number of clusters, not on the number of bindings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from controlplane.apimachinery.meta import condition
from controlplane.apimachinery.times import in_words, later
from controlplane.clusters import eviction_tier, health
from controlplane.insight import attention
from controlplane.insight.readiness import nothing_fails_over
from controlplane.kinds.binding import TAINT_UNTOLERATED
from controlplane.kinds.cluster import ACCESS_LOST, PULL, READY, Cluster
from controlplane.kinds.cluster import FLAPPING as FLAPPING_CONDITION
from controlplane.kinds.eviction_hold import EvictionHold
from controlplane.kinds.fleet_status import (
    BAD,
    OK,
    WARN,
    FleetStatusStatus,
    HeldCount,
    MemberStatus,
    Pause,
    Prepared,
    QueueStatus,
)
from controlplane.kinds.maintenance_window import MaintenanceWindow
from controlplane.kinds.policy import DIRECTLY, NEVER
from controlplane.kinds.rows import (
    EVICTED,
    HELD,
    HELD_BY_HAND,
    MAINTENANCE,
    NO_REFUGE,
    ON_HOLD,
    QUEUED,
    RECOVERING,
    STATE_MISSING,
    UNREADABLE,
    UNSTEADY,
    FleetState,
)
from controlplane.settings import Settings

STAYS: Final = "Stays"  # state of a tally: copies that stay, because their bindings tolerate the taints
EVICTIONS, TARGETS, TASKS = "Eviction", "TargetCluster", "GracefulEvictionTask"  # what a tally counts
HELD_WORDS: Final = {
    NO_REFUGE: "nowhere to go",
    STATE_MISSING: "state to preserve is missing",
    ON_HOLD: "on hold",
    MAINTENANCE: "maintenance",
    UNSTEADY: "cluster is flapping",
    HELD_BY_HAND: "held by hand",
    UNREADABLE: "binding cannot be read",
}
_SEVERITY: Final = {BAD: 0, WARN: 1, OK: 2}
_NAMED: Final = 3  # clusters that the sentence names


class Tally(NamedTuple):
    """How many rows of `counted` have this cluster, state and reason."""

    counted: str
    cluster: str
    state: str
    reason: str
    number: int


class Task(NamedTuple):
    """One of the oldest graceful evictions. `grace_seconds` None: the setting graceful_eviction_timeout."""

    binding: str
    cluster: str
    purge_mode: str
    created_at: datetime | None
    grace_seconds: int | None


class Expiry(NamedTuple):
    """When a credential for a cluster expires. `what`: "token" or "certificate"."""

    cluster: str
    what: str
    at: datetime


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the fleet at one moment.

    `oldest_tasks`: the oldest graceful evictions, at most `tasks_read`; those with suppressDeletion are left out,
    because their old copies stay until a person says otherwise. `last_due`: the latest due time of a queued
    eviction; None: none is queued. `prepared` None: readiness was not computed yet.
    """

    clusters: Sequence[Cluster] = ()
    tallies: Sequence[Tally] = ()
    oldest_tasks: Sequence[Task] = ()
    tasks_read: int = 200
    last_due: datetime | None = None
    fleet: FleetState = FleetState("default")
    queue_row: FleetState = FleetState("queue")
    holds: Sequence[EvictionHold] = ()
    windows: Sequence[MaintenanceWindow] = ()
    prepared: Prepared | None = None
    expiries: Sequence[Expiry] = ()


def situation(facts: Facts, settings: Settings, *, now: datetime) -> FleetStatusStatus:
    """Return the state of the fleet at `now`."""
    maintained = {name for one in facts.windows if one.open(now=now) for name in one.spec.clusters}
    fleet = eviction_tier.fleet_health(facts.clusters, maintained=maintained)
    tier = eviction_tier.as_it_works(eviction_tier.in_force(fleet, facts.fleet, settings), facts.queue_row)
    members = _members(facts, maintained)
    pauses = tuple(_pause(one) for one in facts.holds if pauses_fleet(one) and one.open(now=now))
    queue = _queue(facts, fleet, tier, members, settings, paused=bool(pauses), now=now)
    needs = attention.needs(
        members,
        queue,
        pauses,
        waiting_directly=_waiting_directly(facts),
        unhealthy=queue.stuck - _stuck_directly(facts, settings, now=now),
        expiries=[(one.cluster, one.what, one.at) for one in facts.expiries],
        gate_is_on=settings.gate("Failover"),
        pulled={one.metadata.name for one in facts.clusters if one.spec.sync_mode == PULL},
        now=now,
    )
    ready = [one for one in members if one.state == "Ready"]
    since = [one.since for one in ready if one.since is not None]
    status = FleetStatusStatus(
        clusters=len(members),
        ready=len(ready),
        ready_since=max(since, default=None) if len(ready) == len(members) else None,
        workloads=sum(one.workloads for one in members),
        queue=queue,
        attention=needs,
        pauses=pauses,
        readiness=_prepared(facts.prepared, tier, settings),
        members=members,
        as_of=now,
    )
    severities = [*(member.severity for member in members), *(need.severity for need in needs)]
    worst = min((_SEVERITY[severity] for severity in severities), default=_SEVERITY[OK])
    severity = next(word for word, rank in _SEVERITY.items() if rank == worst)
    return msgspec.structs.replace(status, severity=severity, sentence=sentence(status, now=now))


def _prepared(stored: Prepared | None, tier: eviction_tier.Tier, settings: Settings) -> Prepared | None:
    """Return how many workloads would fail over now. The stored answers leave out what prevents every failover."""
    if stored is not None and nothing_fails_over(tier, settings):
        return msgspec.structs.replace(stored, ready=0)
    return stored


def pauses_fleet(hold: EvictionHold) -> bool:
    """Test whether a hold covers all evictions of the fleet."""
    return not hold.spec.clusters and not hold.spec.namespaces and hold.spec.selector is None


def _pause(hold: EvictionHold) -> Pause:
    spec, metadata = hold.spec, hold.metadata
    return Pause(metadata.name, spec.reason, spec.who, metadata.creation_timestamp, spec.expires_at)


# Members


def _members(facts: Facts, maintained: Collection[str]) -> tuple[MemberStatus, ...]:
    """Return the clusters, the worst first: by severity, then those that are in their state for the shortest time."""
    evictions = _by_cluster(facts.tallies, EVICTIONS)
    targets, tasks = _by_cluster(facts.tallies, TARGETS), _by_cluster(facts.tallies, TASKS)
    found = []
    for cluster in facts.clusters:
        name = cluster.metadata.name
        counts = Counter[str]()
        for one in evictions.get(name, ()):
            counts[group(one)] += one.number
        leaving = [one for one in tasks.get(name, ()) if one.state != NEVER]
        evicted = sum(one.number for one in leaving if one.reason == TAINT_UNTOLERATED)  # others are not in the queue
        status = _state(cluster, in_maintenance=name in maintained)
        found.append(
            msgspec.structs.replace(
                status,
                workloads=sum(one.number for one in targets.get(name, ())),
                queued=counts[QUEUED],
                held=counts[HELD],
                moving=sum(one.number for one in leaving),
                moved=max(0, counts[EVICTED] - evicted),
            )
        )
    return tuple(sorted(found, key=lambda one: (_SEVERITY[one.severity], one.state != "NotReady", one.name)))


def _state(cluster: Cluster, *, in_maintenance: bool) -> MemberStatus:
    ready = condition(cluster.status.conditions, READY)
    lost = condition(cluster.status.conditions, ACCESS_LOST)
    flapping = condition(cluster.status.conditions, FLAPPING_CONDITION)
    state, severity, about = "Ready", OK, ready
    if cluster.terminating:
        state, severity = "Leaving", WARN
    elif ready is None or not health.established(cluster):
        state, severity = "Joining", WARN
    elif ready.status != health.TRUE:
        state, severity = ("NotReady" if ready.status == health.FALSE else "Unknown"), BAD
    elif cluster.access_lost:
        state, severity, about = "AccessLost", BAD, lost
    elif cluster.flapping:
        state, severity, about = "Flapping", WARN, flapping
    elif cluster.spec.taints or in_maintenance:
        severity = WARN
    if in_maintenance and severity == BAD:
        severity = WARN
    since = cluster.metadata.creation_timestamp if about is None else about.last_transition_time
    if cluster.terminating:
        since = cluster.metadata.deletion_timestamp
    return MemberStatus(
        name=cluster.metadata.name,
        state=state,
        severity=severity,
        since=since,
        message="" if about is None or state == "Ready" else about.message,
        region=cluster.spec.region,
        provider=cluster.spec.provider,
        taints=tuple(f"{taint.key}:{taint.effect}" for taint in cluster.spec.taints),
        in_maintenance=in_maintenance,
    )


def _by_cluster(tallies: Iterable[Tally], counted: str) -> Mapping[str, list[Tally]]:
    found: dict[str, list[Tally]] = {}
    for one in tallies:
        if one.counted == counted:
            found.setdefault(one.cluster, []).append(one)
    return found


def group(one: Tally) -> str:
    """Return the state under which an eviction counts. An eviction that is held and checked again counts as held."""
    return HELD if one.state == QUEUED and one.reason in (NO_REFUGE, STATE_MISSING) else one.state


# The queue


def _queue(
    facts: Facts,
    fleet: eviction_tier.FleetHealth,
    tier: eviction_tier.Tier,
    members: Sequence[MemberStatus],
    settings: Settings,
    *,
    paused: bool,
    now: datetime,
) -> QueueStatus:
    evictions = [one for one in facts.tallies if one.counted == EVICTIONS]
    counts, held_by = Counter[str](), Counter[str]()
    for one in evictions:
        counts[group(one)] += one.number
        if group(one) == HELD:
            held_by[one.reason] += one.number
    stuck = _stuck(facts, settings, now=now)
    gate = settings.gate("Failover")
    rate = tier.rate if gate else 0.0
    return QueueStatus(
        queued=counts[QUEUED],
        held=counts[HELD],
        held_by=tuple(HeldCount(why, number, HELD_WORDS.get(why, why)) for why, number in held_by.most_common()),
        moving=sum(one.moving for one in members),
        moved=sum(one.moved for one in members),
        stuck=len(stuck),
        stuck_is_more=len(stuck) >= facts.tasks_read,
        recovering=counts[RECOVERING],
        tier=tier.name,
        rate=rate,
        why=_why(fleet, tier, settings) if gate else eviction_tier.GATE_OFF,
        ends_at=None if paused else _ends_at(facts, rate, settings, now=now),
    )


def _why(fleet: eviction_tier.FleetHealth, tier: eviction_tier.Tier, settings: Settings) -> str:
    """Return why the rate applies: "1 of 3 clusters faulty ≤ 55 %"."""
    threshold = f"{settings.unhealthy_cluster_threshold * 100:g} %"
    share = f"{len(fleet.faulty)} of {fleet.total} faulty"
    if tier.name == eviction_tier.NORMAL:
        return f"{share} ≤ {threshold}" if tier.rate > 0 else tier.why or "resourceEvictionRate is 0"
    if tier.name == eviction_tier.BLIND or tier.why.startswith((eviction_tier.NO_TOKENS, eviction_tier.NOT_OBSERVED)):
        return tier.why
    return f"{share} > {threshold}"


def _ends_at(facts: Facts, rate: float, settings: Settings, *, now: datetime) -> datetime | None:
    """Return when the last queued eviction takes place, at the earliest. None: nothing is queued, or evicted."""
    waiting = Counter[str]()
    for one in facts.tallies:
        if one.counted == EVICTIONS and group(one) == QUEUED:
            waiting["" if settings.eviction.bucket_scope == "Fleet" else one.cluster] += one.number
    if not waiting or rate <= 0:
        return None
    by_rate = later(now, max(waiting.values()) / rate)
    return by_rate if facts.last_due is None else max(by_rate, facts.last_due)


def _stuck(facts: Facts, settings: Settings, *, now: datetime) -> list[Task]:
    """Return the oldest graceful evictions that last longer than they may."""
    return [
        one
        for one in facts.oldest_tasks
        if one.created_at is not None
        and now - one.created_at
        > timedelta(seconds=settings.graceful_eviction_timeout if one.grace_seconds is None else one.grace_seconds)
    ]


def _stuck_directly(facts: Facts, settings: Settings, *, now: datetime) -> int:
    """Return how many of the stuck copies wait only for a cluster that cannot be reached."""
    out = _out_of_reach(facts)
    return sum(one.purge_mode == DIRECTLY and one.cluster in out for one in _stuck(facts, settings, now=now))


def _out_of_reach(facts: Facts) -> set[str]:
    return {cluster.metadata.name for cluster in facts.clusters if not cluster.answers}


def _waiting_directly(facts: Facts) -> dict[str, int]:
    """Return the number of Directly evictions by cluster, of clusters that cannot be reached."""
    out = _out_of_reach(facts)
    found = Counter[str]()
    for one in facts.tallies:
        if one.counted == TASKS and one.state == DIRECTLY and one.cluster in out:
            found[one.cluster] += one.number
    return dict(found)


# The sentence


def sentence(status: FleetStatusStatus, *, now: datetime) -> str:
    """Return the state of the fleet in a few sentences.

    They say what fails, what moves, and at which rate; while evictions are paused, by whom, why, and what waits.
    """
    if not status.clusters:
        return "No cluster has joined yet."
    parts = [_clusters_sentence(status, now=now)]
    queue = status.queue
    active = queue.queued + queue.held + queue.moving + queue.moved + queue.recovering
    if active:
        parts.append(_queue_sentence(queue))
    if (queue.queued or queue.held or status.ready < status.clusters) and not status.pauses:
        parts.append(_rate_sentence(queue))
    parts += [f"Paused by {pause.who or pause.name}: {pause.reason.rstrip('.')}." for pause in status.pauses]
    if status.pauses:
        parts.append(f"{_waiting_text(queue)} until {_end_text(status.pauses)}.")
    return " ".join(parts)


def _waiting_text(queue: QueueStatus) -> str:
    """Return how many evictions wait for the end of a pause, as the subject of "until …".

    Queued evictions count as well, because the next look at the queue holds them."""
    waiting = queue.queued + sum(one.evictions for one in queue.held_by if one.reason == ON_HOLD)
    return f"{waiting} {'eviction waits' if waiting == 1 else 'evictions wait'}" if waiting else "Nothing is evicted"


def _end_text(pauses: Sequence[Pause]) -> str:
    """Return when pauses end: "you resume", unless all of them end by themselves."""
    ends = [pause.until for pause in pauses if pause.until is not None]
    if len(ends) < len(pauses):
        return "you resume"
    return f"{max(ends).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC, unless you resume before"


def _clusters_sentence(status: FleetStatusStatus, *, now: datetime) -> str:
    total = status.clusters
    down = [one for one in status.members if one.state in ("NotReady", "Unknown")]
    lost = [one for one in status.members if one.state == "AccessLost"]
    if down or lost:
        words = [(down, "down")] if down else []
        words += [(lost, "refusing access")] if lost else []
        said = [
            f"{len(found)} of {total} {_clusters(total)} {word} ({_names(found, now=now)})" for found, word in words
        ]
        return f"{'; '.join(said)}."
    joining = [one for one in status.members if one.state == "Joining"]
    if joining:
        return (
            f"{status.ready} of {total} {_clusters(total)} Ready; {len(joining)} not yet ({_names(joining, now=now)})."
        )
    if status.ready_since is None:
        return f"{status.ready} of {total} {_clusters(total)} Ready."
    pattern = "%H:%M UTC" if now - status.ready_since < timedelta(days=1) else "%Y-%m-%d"
    since = f"{'All ' if total > 1 else ''}{total} {_clusters(total)} Ready since {status.ready_since:{pattern}}"
    prepared = status.readiness
    if prepared is None or not prepared.workloads:
        return f"{since}."
    return f"{since}; {prepared.ready} of {prepared.workloads} workloads would fail over."


def _clusters(number: int) -> str:
    return "cluster" if number == 1 else "clusters"


def _names(members: Sequence[MemberStatus], *, now: datetime) -> str:
    named = [
        f"{one.name}, {in_words((now - one.since).total_seconds())}" if one.since is not None else one.name
        for one in members[:_NAMED]
    ]
    more = len(members) - _NAMED
    return "; ".join([*named, f"and {more} more"] if more > 0 else named)


def _queue_sentence(queue: QueueStatus) -> str:
    held = f"{queue.held} held"
    if len(queue.held_by) == 1:
        held = f"{held}: {queue.held_by[0].message}"
    elif queue.held_by:
        held = f"{held}: {', '.join(f'{one.evictions} {one.message}' for one in queue.held_by)}"
    moving = f"{queue.moving} moving" + (f" ({queue.stuck} stuck)" if queue.stuck else "")
    parts = [
        (queue.moved, f"{queue.moved} moved"),
        (queue.moving, moving),
        (queue.queued, f"{queue.queued} queued"),
        (queue.recovering, f"{queue.recovering} waiting for a cluster that recovers"),
        (queue.held, held),
    ]
    return f"{', '.join(text for number, text in parts if number)}."


def _rate_sentence(queue: QueueStatus) -> str:
    if queue.rate <= 0:
        return f"Nothing is evicted: {queue.why}."
    return f"{queue.rate:g}/s, because {queue.why}."
