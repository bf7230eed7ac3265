"""Metrics of the eviction queue: Karmada's metrics, and our tier, tokens, holds, stuck evictions and estimate.

The metrics of the proposal (`evict_*`) have a label for the cluster. Those of Karmada's releases (`eviction_*`) have
the label `name`, which is the bucket: "fleet" or "cluster/member1". The figures are at most one second old.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Any

import redis
from django.db import connection
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from apps.api.clock import ticks
from apps.failover.bucket import RedisBucket
from apps.failover.queue_figures import read_figures
from apps.failover.queue_page import Pace
from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.worker import broker
from controlplane.eviction.rate import FLEET_BUCKET, bucket_of
from controlplane.insight.figures import ClusterFigures, QueueFigures, combined_figures, cumulative_buckets
from controlplane.settings import Settings

FRESH_SECONDS = 1.0
_STUCK = """
    SELECT from_cluster, count(*) FROM failover_gracefulevictiontask
    WHERE suppress_deletion IS NULL
        AND created_at < clock_timestamp() - coalesce(grace_period_seconds, %s) * interval '1 second'
    GROUP BY from_cluster"""

_lock = Lock()
_last: tuple[float, QueueFigures] | None = None


def figures() -> QueueFigures:
    """Return figures of the queue that are at most one second old."""
    global _last
    with _lock:
        if _last is None or ticks() - _last[0] > FRESH_SECONDS:
            _last = (ticks(), read_figures(store(), configuration().settings(), tokens))
        return _last[1]


def tokens(buckets: Iterable[str]) -> dict[str, float]:
    """Return the tokens in each bucket now. Empty: Redis does not answer."""
    try:
        return RedisBucket(broker.client()).levels(buckets)
    except (redis.RedisError, OSError):
        return {}


def pace_of(rate: float, settings: Settings, clusters: Iterable[str]) -> Pace:
    """Return how fast the queue is processed at a rate, with the tokens that the buckets of these clusters have now."""
    scope = settings.eviction.bucket_scope
    return Pace(rate, settings.eviction, tokens({bucket_of(cluster, scope) for cluster in clusters} or {FLEET_BUCKET}))


class EvictionCollector(Collector):
    """Collects the figures as Prometheus metrics. A cluster has series only while its outage lasts."""

    def describe(self) -> list[Any]:
        """Return nothing at registration, when the database may not be reachable yet."""
        return []

    def collect(self) -> Iterator[Any]:
        found = figures()
        yield from _queues(found.clusters)
        yield from _processed(found.clusters)
        yield from _shipped(found.clusters)
        yield _gauge("cluster_fault_num", "Clusters that are not Ready or have a taint that evicts.", found.faulty)
        yield _gauge("cluster_fault_rate", "Share of the clusters that are faulty, from 0 to 1.", found.fault_rate)
        tier = GaugeMetricFamily(
            "lifeboat_eviction_tier_rate", "Eviction rate in force, in evictions per second.", labels=["tier"]
        )
        tier.add_metric([found.tier], found.tier_rate)
        held = GaugeMetricFamily("lifeboat_evictions_held", "Evictions that are held, by reason.", labels=["reason"])
        for reason, count in found.held.items():
            held.add_metric([reason], count)
        yield from (tier, held, _stuck())
        text = "Estimated seconds until the queue is empty at the present rate."
        eta = GaugeMetricFamily("lifeboat_eviction_eta_seconds", text, labels=[])
        if found.eta_seconds is not None:
            eta.add_metric([], found.eta_seconds)
        yield eta
        yield _tokens(_by_bucket(found.clusters))


Clusters = dict[str, ClusterFigures]


def _by_bucket(clusters: Clusters) -> dict[str, ClusterFigures]:
    """Return the figures by bucket. Clusters that share a bucket are added up."""
    scope = configuration().settings().eviction.bucket_scope
    sharing: dict[str, list[ClusterFigures]] = {}
    for name, figures_ in clusters.items():
        sharing.setdefault(bucket_of(name, scope), []).append(figures_)
    return {bucket: combined_figures(queues) for bucket, queues in sharing.items()}


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _queues(clusters: Clusters) -> Iterator[Any]:
    labels = ["cluster_name"]
    total = GaugeMetricFamily("evict_total", "Evictions in the queue.", labels=labels)
    kinds = GaugeMetricFamily(
        "evict_kind_total", "Evictions in the queue, by kind of workload.", labels=[*labels, "resource_kind"]
    )
    for name, figures in clusters.items():
        total.add_metric([name], figures.waiting)
        for kind, count in figures.by_kind.items():
            kinds.add_metric([name, kind], count)
    yield from (total, kinds)


def _processed(clusters: Clusters) -> Iterator[Any]:
    labels = ["cluster_name"]
    latency = HistogramMetricFamily(
        "evict_processing_latency_seconds", "Seconds between queueing and eviction.", labels=labels
    )
    rate = GaugeMetricFamily(
        "evict_rate",
        "Evictions per second in the last five minutes, or since the first eviction was due.",
        labels=labels,
    )
    success = GaugeMetricFamily(
        "evict_success_rate",
        "Share of evictions processed in the last five minutes that succeeded.",
        labels=labels,
    )
    evicted = CounterMetricFamily("evict_succeeded", "Evictions that succeeded in this outage.", labels=labels)
    failed = CounterMetricFamily("evict_failed", "Evictions in this outage that found no other cluster.", labels=labels)
    for name, figures in clusters.items():
        latency.add_metric([name], list(cumulative_buckets(figures.latency_counts).items()), figures.latency_sum)
        rate.add_metric([name], figures.rate)
        if figures.success_rate is not None:
            success.add_metric([name], figures.success_rate)
        evicted.add_metric([name], figures.evicted)
        failed.add_metric([name], figures.failed)
    yield from (latency, rate, success, evicted, failed)


def _shipped(clusters: Clusters) -> Iterator[Any]:
    depth = GaugeMetricFamily("eviction_queue_depth", "Evictions in the queue, by bucket.", labels=["name"])
    kinds = GaugeMetricFamily(
        "eviction_kind_total", "Evictions in the queue, by kind of binding.", labels=["member_cluster", "resource_kind"]
    )
    latency = HistogramMetricFamily(
        "eviction_processing_latency_seconds", "Seconds between queueing and eviction.", labels=["name"]
    )
    processed = CounterMetricFamily(
        "eviction_processing", "Evictions that were processed in this outage, by result.", labels=["name", "result"]
    )
    for cluster, figures in clusters.items():
        for kind, count in figures.by_binding_kind.items():
            kinds.add_metric([cluster, kind], count)
    for name, queue_ in _by_bucket(clusters).items():
        depth.add_metric([name], queue_.waiting)
        latency.add_metric([name], list(cumulative_buckets(queue_.latency_counts).items()), queue_.latency_sum)
        processed.add_metric([name, "success"], queue_.evicted)
        processed.add_metric([name, "error"], queue_.failed)
    yield from (depth, kinds, latency, processed)


def _tokens(queues: Iterable[str]) -> GaugeMetricFamily:
    family = GaugeMetricFamily("lifeboat_eviction_tokens", "Eviction tokens in a bucket.", labels=["name"])
    for bucket, level in tokens(queues or [FLEET_BUCKET]).items():
        family.add_metric([bucket], level)
    return family


def _stuck() -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "lifeboat_evictions_stuck",
        "Graceful evictions that have exceeded their gracePeriodSeconds, or else graceful_eviction_timeout.",
        labels=["cluster_name"],
    )
    with connection.cursor() as cursor:
        cursor.execute(_STUCK, [configuration().settings().graceful_eviction_timeout])
        for cluster, count in cursor.fetchall():
            family.add_metric([cluster], count)
    return family
