"""The refuge of a copy that application failover evicts [refuge-first].

The scheduler is asked as for an eviction by taints. A copy of the same binding that is unhealthy as well is no refuge.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from msgspec.structs import replace

from controlplane.eviction.refuge import DryRunResult, Refuge, Reservation, refuge_from
from controlplane.eviction.scheduler_dry_run import SchedulerDryRun
from controlplane.kinds.binding import UNHEALTHY, Binding
from controlplane.kinds.cluster import Cluster
from controlplane.settings import Settings


class ApplicationRefuge:
    """The refuge of one binding whose copies are evicted at one moment, because they are unhealthy or follow others."""

    def __init__(
        self,
        binding: Binding,
        dry_run: SchedulerDryRun,
        clusters: Mapping[str, Cluster],
        settings: Settings,
        *,
        now: datetime,
    ) -> None:
        self._binding, self._dry_run, self._clusters = binding, dry_run, clusters
        self._settings, self._now = settings, now
        self._last: Refuge | None = None  # it names all clusters of the binding, so it replaces earlier ones

    def find(self, after: Binding, cluster: str) -> Refuge:
        """Return the refuge of the copy on a cluster. `after`: the binding without the copies that leave with it."""
        before, asked = self._binding, self._clusters.get(cluster)
        leaving = {cluster, *(item.name for item in before.spec.clusters if after.spec.target(item.name) is None)}
        ill = _unhealthy(before, leaving)
        result = self._dry_run.place_or_refuse(before, leaving, lost=False, unhealthy=ill, now=self._now)
        result = _without_unhealthy(before, result, ill)
        ready = asked is not None and asked.ready == "True"
        refuge = refuge_from(before, leaving, result, self._settings, source_ready=ready, clusters=self._clusters)
        if refuge.found:
            self._last = refuge
        return refuge

    def reserve(self) -> Reservation:
        """Reserve the capacity of the refuge that was found last."""
        return Reservation() if self._last is None else self._dry_run.reserve(self._binding, self._last, now=self._now)


def _unhealthy(binding: Binding, leaving: Collection[str]) -> set[str]:
    """Return the clusters that are not left and whose copies are unhealthy too."""
    return {
        item.cluster_name
        for item in binding.status.aggregated_status
        if item.reported_health == UNHEALTHY and item.cluster_name not in leaving
    }


def _without_unhealthy(binding: Binding, result: DryRunResult, unhealthy: Collection[str]) -> DryRunResult:
    """Return the answer of a dry run without the targets of the binding whose copies are unhealthy too.

    It is a refusal if replicas would be added to such a copy, also if only a part of them fits.
    """
    held = {target.name: target.replicas for target in binding.spec.clusters if target.name in unhealthy}
    placed = result.clusters or result.part
    grown = sorted(item.name for item in placed if item.replicas > held.get(item.name, item.replicas))
    if grown:
        return DryRunResult(refused=f"replicas would be added on {', '.join(grown)}, where the copy is unhealthy too")
    return replace(result, clusters=tuple(item for item in result.clusters if item.name not in held))
