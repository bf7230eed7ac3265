"""Metrics of the eviction queue, computed from its rows and the clusters [graduation-beta].

Rows of evicted copies are kept until their cluster recovers, so the metrics of a cluster end with its outage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from controlplane.apimachinery.meta import Ref
from controlplane.clusters import eviction_tier
from controlplane.eviction.eligibility import earliest_judgement
from controlplane.insight.forecast import forecast, queue_end
from controlplane.kinds.rows import ENDED, EVICTED, HELD, Eviction

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


def queue_figures(
    rows: Iterable[Eviction],
    fleet: eviction_tier.FleetHealth,
    tier: eviction_tier.Tier,
    *,
    ageing_seconds: float = 300.0,
    scope: str = "Fleet",
    tokens: Mapping[str, float] = {},
    now: datetime,
) -> QueueFigures:
    """Return the figures at `now`. `tokens`: the tokens in each bucket, as in `forecast`."""
    counted = [row for row in rows if row.due_at is not None or row.state in ENDED]
    by_cluster: dict[str, list[Eviction]] = {}
    for row in counted:
        by_cluster.setdefault(row.cluster, []).append(row)
    waiting = [row for row in counted if row.due_at is not None]
    forecasts = forecast(waiting, rate=tier.rate, ageing_seconds=ageing_seconds, scope=scope, tokens=tokens, now=now)
    last = queue_end(forecasts.values())
    return QueueFigures(
        clusters={name: _cluster_figures(found, now=now) for name, found in sorted(by_cluster.items())},
        faulty=len(fleet.faulty),
        total=fleet.total,
        tier=tier.name,
        tier_rate=tier.rate,
        held=dict(Counter(row.reason for row in waiting if row.state == HELD)),
        eta_seconds=None if last is None else (last - now).total_seconds(),
    )


def _cluster_figures(rows: Iterable[Eviction], *, now: datetime) -> ClusterFigures:
    rows = list(rows)
    waiting = [row for row in rows if row.due_at is not None]
    done = [row for row in rows if row.state == EVICTED and row.ended_at is not None]
    failed = [row.failed_at for row in rows if row.failed_at is not None]
    recently = [row for row in done if row.ended_at is not None and now - row.ended_at <= WINDOW]
    failures = sum(1 for moment in failed if now - moment <= WINDOW)
    seconds = [eviction_latency(row) for row in done]
    counts = Counter(_bucket(second) for second in seconds)
    processed = len(recently) + failures
    return ClusterFigures(
        waiting=len(waiting),
        by_kind=dict(sorted(Counter(row.resource_kind for row in waiting).items())),
        by_binding_kind=dict(sorted(Counter(_binding_kind(row) for row in waiting).items())),
        evicted=len(done),
        failed=len(failed),
        latency_counts=tuple(counts[index] for index in range(len(BUCKETS) + 1)),
        latency_sum=sum(seconds),
        rate=len(recently) / _rate_window(rows, now=now).total_seconds(),
        success_rate=len(recently) / processed if processed else None,
    )


def _rate_window(rows: Iterable[Eviction], *, now: datetime) -> timedelta:
    """Return the time over which the eviction rate of a cluster is computed.

    It begins when the first row of this outage was queued and due, and lasts from MIN_WINDOW to WINDOW. Examples: 135
    evictions in the first 5 minutes are 0.45 per second, and so are 54 in the first 2 minutes.
    """
    begun = min((moment for row in rows if (moment := _possible_from(row)) is not None), default=now)
    return min(max(now - begun, MIN_WINDOW), WINDOW)


def _possible_from(row: Eviction) -> datetime | None:
    """Return when an eviction could first take place; None: it is not known when the row was queued."""
    first = earliest_judgement(row.judged)
    due = row.due_at if row.due_at is not None else None if first is None else first.due_at
    return row.queued_at if row.queued_at is None or due is None else max(row.queued_at, due)


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


def _binding_kind(row: Eviction) -> str:
    return Ref.parse(row.binding).kind.rpartition("/")[2]


def eviction_latency(row: Eviction) -> float:
    """Return the seconds between the queueing and the eviction of a row that was evicted."""
    assert row.ended_at is not None, "it has been evicted"
    return max(0.0, (row.ended_at - (row.queued_at or row.ended_at)).total_seconds())


def _bucket(seconds: float) -> int:
    return next((index for index, bound in enumerate(BUCKETS) if seconds <= bound), len(BUCKETS))


def cumulative_buckets(counts: Iterable[int]) -> Mapping[str, int]:
    """Return the buckets of a histogram as Prometheus expects them: "le" → the count of all values up to this bound."""
    total, found = 0, {}
    for bound, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
        total += count
        found[bound] = total
    return found
