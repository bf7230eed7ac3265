"""The eviction queue for scrapers: S001's seven, the tier, tokens, holds, what is stuck, the estimate; a second old.

The four of later releases (semantics, section 5) are beside them: `name` is the bucket, "fleet" or "cluster/member1".
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
from apps.failover import queue
from apps.failover.bucket import RedisBucket
from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.worker import broker
from controlplane.eviction.rate import FLEET_BUCKET, bucket_of
from controlplane.insight.figures import ClusterFigures, QueueFigures, combined_figures, cumulative_buckets

FRESH_SECONDS = 1.0
_STUCK = """
    SELECT from_cluster, count(*) FROM failover_gracefulevictiontask
    WHERE suppress_deletion IS NULL
        AND created_at < clock_timestamp() - coalesce(grace_period_seconds, %s) * interval '1 second'
    GROUP BY from_cluster"""

_lock = Lock()
_last: tuple[float, QueueFigures] | None = None


def figures() -> QueueFigures:
    """Return figures of the queue that are not older than a second."""
    global _last
    with _lock:
        if _last is None or ticks() - _last[0] > FRESH_SECONDS:
            found = queue.read(store(), configuration().settings())
            _last = (ticks(), found.figures(tokens=tokens(found.buckets())))
        return _last[1]


def tokens(buckets: Iterable[str]) -> dict[str, float]:
    """Return the tokens in the buckets now; nothing where Redis does not say."""
    try:
        return RedisBucket(broker.client()).levels(buckets)
    except (redis.RedisError, OSError):
        return {}


class EvictionCollector(Collector):
    """The figures as Prometheus metrics. Series of a cluster are there while its outage is."""

    def describe(self) -> list[Any]:
        """Say nothing when registered: the database may not be there yet."""
        return []

    def collect(self) -> Iterator[Any]:
        found = figures()
        yield from _queues(found.clusters)
        yield from _processed(found.clusters)
        yield from _shipped(found.clusters)
        yield _gauge("cluster_fault_num", "The number of faulty clusters.", found.faulty)
        yield _gauge("cluster_fault_rate", "The part of the fleet that is faulty.", found.fault_rate)
        tier = GaugeMetricFamily("lifeboat_eviction_tier_rate", "Evictions a second in force.", labels=["tier"])
        tier.add_metric([found.tier], found.tier_rate)
        held = GaugeMetricFamily("lifeboat_evictions_held", "Evictions held, by reason.", labels=["reason"])
        for reason, count in found.held.items():
            held.add_metric([reason], count)
        yield from (tier, held, _stuck())
        if found.eta_seconds is not None:
            yield _gauge("lifeboat_eviction_eta_seconds", "Until the queue is empty at this tier.", found.eta_seconds)
        yield _tokens(_by_bucket(found.clusters))


Clusters = dict[str, ClusterFigures]


def _by_bucket(clusters: Clusters) -> dict[str, ClusterFigures]:
    """Return the queues as they share buckets."""
    scope = configuration().settings().eviction.bucket_scope
    sharing: dict[str, list[ClusterFigures]] = {}
    for name, one in clusters.items():
        sharing.setdefault(bucket_of(name, scope), []).append(one)
    return {bucket: combined_figures(queues) for bucket, queues in sharing.items()}


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _queues(clusters: Clusters) -> Iterator[Any]:
    labels = ["cluster_name"]
    total = GaugeMetricFamily("evict_total", "Elements in the eviction queue.", labels=labels)
    kinds = GaugeMetricFamily(
        "evict_kind_total", "Elements in the eviction queue by kind.", labels=[*labels, "resource_kind"]
    )
    for name, one in clusters.items():
        total.add_metric([name], one.waiting)
        for kind, count in one.by_kind.items():
            kinds.add_metric([name, kind], count)
    yield from (total, kinds)


def _processed(clusters: Clusters) -> Iterator[Any]:
    labels = ["cluster_name"]
    latency = HistogramMetricFamily(
        "evict_processing_latency_seconds", "From being queued to being evicted.", labels=labels
    )
    rate = GaugeMetricFamily(
        "evict_rate", "Evictions a second over the last five minutes, or since the first was due.", labels=labels
    )
    success = GaugeMetricFamily("evict_success_rate", "Evicted of all processed in five minutes.", labels=labels)
    evicted = CounterMetricFamily("evict_succeeded", "Evicted in this outage.", labels=labels)
    failed = CounterMetricFamily("evict_failed", "Found no refuge in this outage.", labels=labels)
    for name, one in clusters.items():
        latency.add_metric([name], list(cumulative_buckets(one.latency_counts).items()), one.latency_sum)
        rate.add_metric([name], one.rate)
        if one.success_rate is not None:
            success.add_metric([name], one.success_rate)
        evicted.add_metric([name], one.evicted)
        failed.add_metric([name], one.failed)
    yield from (latency, rate, success, evicted, failed)


def _shipped(clusters: Clusters) -> Iterator[Any]:
    depth = GaugeMetricFamily("eviction_queue_depth", "Elements in the queue.", labels=["name"])
    kinds = GaugeMetricFamily(
        "eviction_kind_total", "Elements in the queue by kind of binding.", labels=["member_cluster", "resource_kind"]
    )
    latency = HistogramMetricFamily(
        "eviction_processing_latency_seconds", "From being queued to being evicted.", labels=["name"]
    )
    processed = CounterMetricFamily("eviction_processing", "Processed in this outage.", labels=["name", "result"])
    for cluster, one in clusters.items():
        for kind, count in one.by_binding_kind.items():
            kinds.add_metric([cluster, kind], count)
    for name, queue_ in _by_bucket(clusters).items():
        depth.add_metric([name], queue_.waiting)
        latency.add_metric([name], list(cumulative_buckets(queue_.latency_counts).items()), queue_.latency_sum)
        processed.add_metric([name, "success"], queue_.evicted)
        processed.add_metric([name, "error"], queue_.failed)
    yield from (depth, kinds, latency, processed)


def _tokens(queues: Iterable[str]) -> GaugeMetricFamily:
    family = GaugeMetricFamily("lifeboat_eviction_tokens", "Tokens in a bucket.", labels=["name"])
    for bucket, level in tokens(queues or [FLEET_BUCKET]).items():
        family.add_metric([bucket], level)
    return family


def _stuck() -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "lifeboat_evictions_stuck",
        "Copies leaving for longer than their gracePeriodSeconds, else graceful_eviction_timeout.",
        labels=["cluster_name"],
    )
    with connection.cursor() as cursor:
        cursor.execute(_STUCK, [configuration().settings().graceful_eviction_timeout])
        for cluster, count in cursor.fetchall():
            family.add_metric([cluster], count)
    return family
