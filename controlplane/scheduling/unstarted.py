"""Unstarted replicas: those of a copy that leaves Directly which other clusters have got, and have not started yet.

They wait for the old copy, so it still runs all of its own. If its cluster comes back before, and not all of them have
a place, the old copy gets them back, as if it had never left [recovered-clusters-cancel]. So it does if none of them
has a place.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from controlplane.kinds.binding import (
    TAINT_UNTOLERATED,
    AggregatedStatusItem,
    Binding,
    GracefulEvictionTask,
    TargetCluster,
    origin,
)
from controlplane.kinds.cluster import EVICTING_EFFECTS
from controlplane.kinds.policy import DIRECTLY
from controlplane.propagation import works
from controlplane.scheduling.cluster_arrays import Fleet


def started(target: TargetCluster, item: AggregatedStatusItem | None) -> int:
    """Return how many replicas of a target have started, ready or not. `item`: what its cluster reports.

    A rolling update runs more pods than the target has replicas. They replace others and do not count.
    """
    if item is None or not item.applied:
        return 0
    count = (item.status or {}).get("replicas")
    return min(count, target.replicas) if isinstance(count, int) else target.replicas


def given_back(
    binding: Binding, task: GracefulEvictionTask, targets: Sequence[TargetCluster]
) -> tuple[TargetCluster, ...]:
    """Return these targets without the replicas that the old copy of a task gets back.

    `targets`: those of the binding, or what is left of them. Others stay, also unstarted ones that are not its own.
    Only divided replicas that leave Directly are given back: all others start at once.
    """
    if task.purge_mode != DIRECTLY or not works.is_divided(binding):
        return tuple(targets)
    items = {item.cluster_name: item for item in binding.status.aggregated_status}
    more = sum([target.replicas for target in targets]) + (task.replicas or 0) - binding.spec.replicas
    left = list[TargetCluster]()
    for target in targets:
        back = 0
        if binding.spec.target(target.name) is not None:
            back = max(0, min(more, target.replicas - started(target, items.get(target.name))))
        more -= back
        if back < target.replicas or not target.replicas:
            left.append(replace(target, replicas=target.replicas - back) if back else target)
    return tuple(left)


def with_copies_back(binding: Binding, fleet: Fleet) -> tuple[TargetCluster, ...]:
    """Return the targets of a binding as the scheduler divides them again: the copies that leave Directly are back on
    clusters that have recovered before their replicas have started elsewhere."""
    targets = binding.spec.clusters
    if not origin.waits(binding):
        return targets
    for task in binding.spec.graceful_eviction_tasks:
        if task.reason != TAINT_UNTOLERATED or not _has_recovered(task.from_cluster, fleet):
            continue
        if task.purge_mode != DIRECTLY or not works.is_divided(binding) or binding.spec.target(task.from_cluster):
            continue
        rest, left = given_back(binding, task, targets), task.replicas or 0
        missing = binding.spec.replicas - sum([target.replicas for target in rest])
        if rest != targets or missing >= left > 0:
            targets = (*rest, TargetCluster(task.from_cluster, min(left, missing)))
    return targets


def _has_recovered(name: str, fleet: Fleet) -> bool:
    place = fleet.index.get(name)
    if place is None:
        return False
    cluster = fleet.clusters[place]
    return cluster.answers and not cluster.has_taint(*EVICTING_EFFECTS)
