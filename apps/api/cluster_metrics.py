"""Clusters for scrapers: how often what they answer has changed, and which of them flap (fault 3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from apps.objects.store import store
from controlplane.kinds import CLUSTER
from controlplane.kinds.rows import Observation


class ClusterCollector(Collector):
    """What was observed of each cluster before the debounce, and what is published of that."""

    def describe(self) -> list[Any]:
        """Say nothing when registered: the database may not be there yet."""
        return []

    def collect(self) -> Iterator[Any]:
        reading, labels = store(), ["cluster_name"]
        clusters = {one.metadata.name: one for one in reading.list(CLUSTER)}
        seen = reading.rows(Observation, "key", sorted(clusters))
        turns = CounterMetricFamily(
            "lifeboat_cluster_turns",
            "Changes between ready and not ready in what a cluster answers, before the debounce.",
            labels=labels,
        )
        flapping = GaugeMetricFamily("lifeboat_cluster_flapping", "1 while a cluster flaps.", labels=labels)
        for name, cluster in clusters.items():
            turns.add_metric([name], sum(row.turns for row in seen.get(name, ())))
            flapping.add_metric([name], float(cluster.flapping))
        yield from (turns, flapping)
