"""Metrics of clusters: how often their health changed, which are flapping [flapping-cluster], and which refuse access
[lost-access]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from apps.objects.store import store
from controlplane.kinds import CLUSTER
from controlplane.kinds.rows import Observation


class ClusterCollector(Collector):
    """Collects the health changes of each cluster before the debounce, and its conditions Flapping and AccessLost."""

    def describe(self) -> list[Any]:
        """Return nothing at registration, when the database may not be reachable yet."""
        return []

    def collect(self) -> Iterator[Any]:
        reading, labels = store(), ["cluster_name"]
        clusters = {cluster.metadata.name: cluster for cluster in reading.list(CLUSTER)}
        observed = reading.rows(Observation, "key", sorted(clusters))
        turns = CounterMetricFamily(
            "lifeboat_cluster_turns",
            "Changes between ready and not ready in the probe results of a cluster, before the debounce.",
            labels=labels,
        )
        flapping = GaugeMetricFamily("lifeboat_cluster_flapping", "1 while the cluster is flapping.", labels=labels)
        refusing = GaugeMetricFamily(
            "lifeboat_cluster_access_lost", "1 while the cluster refuses access: 401, 403 or TLS.", labels=labels
        )
        for name, cluster in clusters.items():
            turns.add_metric([name], sum(row.turns for row in observed.get(name, ())))
            flapping.add_metric([name], float(cluster.flapping))
            refusing.add_metric([name], float(cluster.access_lost))
        yield from (turns, flapping, refusing)
