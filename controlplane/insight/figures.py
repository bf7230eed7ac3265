"""Metrics of the eviction queue, computed from the counts of its items and from the clusters [graduation-beta].

Rows of evicted copies are kept until their cluster recovers, so the metrics of a cluster end with its outage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import msgspec

from controlplane.clusters import eviction_tier
from controlplane.kinds.rows import HELD

WINDOW = timedelta(minutes=5)
MIN_WINDOW = timedelta(seconds=1)  # a rate over less time has no meaning
BUCKETS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
"""Upper bounds of evict_processing_latency_seconds, in seconds."""


class ClusterFigures(msgspec.Struct, frozen=True):
    """The queue of one cluster. `success_rate` None: no row was processed in the last five minutes."""

    waiting: int = 0
    by_kind: dict[str, int] = {}
    by_binding_kind: dict[str, int] = {}  # ResourceBinding, ClusterResourceBinding
    evicted: int = 0
    failed: int = 0
    latency_counts: tuple[int, ...] = (0,) * (len(BUCKETS) + 1)  # per bucket, not cumulative; the last is above all
    latency_sum: float = 0.0
    rate: float = 0.0  # evictions per second over the last five minutes, or since the first was possible
    success_rate: float | None = None


class QueueFigures(msgspec.Struct, frozen=True):
    """The whole queue. `eta_seconds` None: no row waits, or no evictions take place."""

    clusters: dict[str, ClusterFigures]
    faulty: int
    total: int
    tier: str
    tier_rate: float
    held: dict[str, int]
    eta_seconds: float | None

    @property
    def fault_rate(self) -> float:
        """Return the share of faulty clusters; 0 without clusters."""
        return self.faulty / self.total if self.total else 0.0


class QueueCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many items of the queue have the same cluster, kind, kind of binding, state and reason of a hold.

    `evicted_recently` and `failed_recently`: within WINDOW. `latency_within`: for each of BUCKETS, the evicted items
    that waited at most so long; `latency_sum` has the seconds of all. `possible_from`: the least time from which one of
    the items could be evicted; None: it is not known when they were queued.
    """

    cluster: str
    resource_kind: str
    binding_kind: str
    state: str
    reason: str
    waiting: int = 0
    evicted: int = 0
    evicted_recently: int = 0
    failed: int = 0
    failed_recently: int = 0
    latency_sum: float = 0.0
    latency_within: tuple[int, ...] = (0,) * len(BUCKETS)
    possible_from: datetime | None = None


def queue_figures(
    counts: Iterable[QueueCount],
    fleet: eviction_tier.FleetHealth,
    tier: eviction_tier.Tier,
    *,
    eta_seconds: float | None,
    now: datetime,
) -> QueueFigures:
    """Return the figures at `now`, by cluster in the order of names. `eta_seconds`: until the last queued item."""
    held: Counter[str] = Counter()
    by_cluster: dict[str, list[QueueCount]] = {}
    for one in counts:
        by_cluster.setdefault(one.cluster, []).append(one)
        if one.state == HELD and one.waiting:
            held[one.reason] += one.waiting
    return QueueFigures(
        clusters={name: _cluster_figures(found, now=now) for name, found in sorted(by_cluster.items())},
        faulty=len(fleet.faulty),
        total=fleet.total,
        tier=tier.name,
        tier_rate=tier.rate,
        held=dict(held),
        eta_seconds=eta_seconds,
    )


def _cluster_figures(counts: Sequence[QueueCount], *, now: datetime) -> ClusterFigures:
    evicted, recently = sum(one.evicted for one in counts), sum(one.evicted_recently for one in counts)
    within = [*map(sum, zip(*(one.latency_within for one in counts), strict=True)), evicted]
    processed = recently + sum(one.failed_recently for one in counts)
    return ClusterFigures(
        waiting=sum(one.waiting for one in counts),
        by_kind=_waiting_by(counts, lambda one: one.resource_kind),
        by_binding_kind=_waiting_by(counts, lambda one: one.binding_kind),
        evicted=evicted,
        failed=sum(one.failed for one in counts),
        latency_counts=tuple(count - before for before, count in pairwise([0, *within])),
        latency_sum=sum(one.latency_sum for one in counts),
        rate=recently / _rate_window(counts, now=now).total_seconds(),
        success_rate=recently / processed if processed else None,
    )


def _waiting_by(counts: Iterable[QueueCount], kind: Callable[[QueueCount], str]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for one in counts:
        if one.waiting:
            found[kind(one)] += one.waiting
    return dict(sorted(found.items()))


def _rate_window(counts: Iterable[QueueCount], *, now: datetime) -> timedelta:
    """Return the time over which the eviction rate of a cluster is computed.

    It begins when the first item of this outage was queued and due, and lasts from MIN_WINDOW to WINDOW. Examples: 135
    evictions in the first 5 minutes are 0.45 per second, and so are 54 in the first 2 minutes.
    """
    begun = min((one.possible_from for one in counts if one.possible_from is not None), default=now)
    return min(max(now - begun, MIN_WINDOW), WINDOW)


def combined_figures(queues: Iterable[ClusterFigures]) -> ClusterFigures:
    """Return the counts of several clusters as one queue. Rates are left out."""
    queues = list(queues)
    return ClusterFigures(
        waiting=sum(queue.waiting for queue in queues),
        evicted=sum(queue.evicted for queue in queues),
        failed=sum(queue.failed for queue in queues),
        latency_counts=tuple(map(sum, zip(*(queue.latency_counts for queue in queues), strict=True))),
        latency_sum=sum(queue.latency_sum for queue in queues),
    )


def cumulative_buckets(counts: Iterable[int]) -> Mapping[str, int]:
    """Return the buckets of a histogram as Prometheus expects them: "le" → the count of all values up to this bound."""
    total, found = 0, {}
    for bound, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
        total += count
        found[bound] = total
    return found
