"""Replacements: the copies for which an old one leaves Directly. It stays while one of them cannot start [purge-modes].

A copy cannot start or grow while an override policy cannot be applied, dispatching to its cluster is suspended, or its
cluster cannot be reached, is being unjoined or has left the fleet.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

from controlplane.apimachinery.meta import condition
from controlplane.eviction.graceful import ClusterState, unhealthy_reason
from controlplane.kinds.binding import (
    OVERRIDES_APPLIED,
    Binding,
    GracefulEvictionTask,
    TargetCluster,
    origin,
)
from controlplane.kinds.cluster import EVICTING_EFFECTS, Cluster
from controlplane.kinds.policy import DIRECTLY
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work
from controlplane.propagation import work_replicas, works
from controlplane.propagation.override_run import OverrideRun
from controlplane.propagation.overrides import OverrideFailed
from controlplane.scheduling.unstarted import started


def are_prevented(
    binding: Binding,
    template: Template,
    stored: Mapping[str, Work],
    clusters: Mapping[str, Cluster],
    run: OverrideRun,
    *,
    now: datetime,
) -> bool:
    """Test whether a copy that has to start or to grow cannot.

    True too until the scheduler has placed the binding: an eviction only takes the old copy out of the targets.
    `stored`: the Works of the binding by cluster. `clusters`: those of its targets by name. `run`: applies the override
    policies, also those for clusters on which the workload never was, and remembers what fails.
    """
    if waits_for_place(binding):
        return True
    common, before, withheld = works.rendering(binding, template), len(run.failures), False
    for target in works.targets(binding):
        if not _has_to_start(target, stored.get(target.name), binding):
            continue
        withheld |= _is_withheld(binding, target.name, clusters)
        if run.concerns(target.name):
            with suppress(OverrideFailed):
                works.render(common, target, override=run, now=now)
    return withheld or len(run.failures) > before


def _is_withheld(binding: Binding, name: str, clusters: Mapping[str, Cluster]) -> bool:
    """Test whether a cluster gets no copy: dispatching to it is suspended, it cannot be reached, or it leaves the fleet
    or has left it."""
    cluster = clusters.get(name)
    reached = cluster is not None and cluster.answers and not cluster.terminating
    return not reached or binding.spec.dispatching_suspended(name)


def waits_for_place(binding: Binding) -> bool:
    """Test whether the scheduler has still to place a binding since it was evicted. It may have found nothing yet.

    It ignores attached bindings. Another scheduler may not say which change it has seen.
    """
    if binding.spec.placement is None or binding.spec.other_scheduler:
        return False
    return origin.waits(binding)


def _has_to_start(target: TargetCluster, stored: Work | None, binding: Binding) -> bool:
    """Test whether a target has no copy yet, or one with fewer replicas than it shall have."""
    if stored is None or stored.metadata.deletion_timestamp is not None:
        return True
    asked = work_replicas.asked_by(stored, binding)
    return asked is not None and asked < target.replicas


def are_still_prevented(binding: Binding, task: GracefulEvictionTask, clusters: Mapping[str, Cluster]) -> bool:
    """Test whether copies have no place or cannot start when an old copy is removed later than it was decided, because
    its cluster was away. Copies that are healthy already need not start.

    False as soon as some of its replicas have started elsewhere: they would run twice.
    """
    if _have_started_in_part(binding):
        return False
    if waits_for_place(binding):
        return True
    applied = condition(binding.status.conditions, OVERRIDES_APPLIED)
    failed, states = applied is not None and applied.status == "False", states_of(clusters)
    return any(
        unhealthy_reason(binding, target, task, states)
        for target in works.targets(binding)
        if failed or _is_withheld(binding, target.name, clusters)
    )


def states_of(clusters: Mapping[str, Cluster]) -> dict[str, ClusterState]:
    """Return how clusters are now, as the health of copies is judged by it."""
    return {
        name: ClusterState(ready=state.answers, evicting=state.has_taint(*EVICTING_EFFECTS), observed_at=None)
        for name, state in clusters.items()
    }


def _have_started_in_part(binding: Binding) -> bool:
    """Test whether targets run replicas that leave Directly: with these there are more than before, and than wanted."""
    items = {item.cluster_name: item for item in binding.status.aggregated_status}
    running = sum(started(target, items.get(target.name)) for target in binding.spec.clusters)
    tasks = [task for task in binding.spec.graceful_eviction_tasks if task.purge_mode == DIRECTLY]
    leaving = sum(task.replicas or 0 for task in tasks)
    wanted = binding.spec.replicas if works.is_divided(binding) else 0
    return running + leaving > max(origin.had(binding), leaving, wanted)
