"""Revert: return a binding to its placement before the latest failover, because a user requests it [edits-by-hand].

New copies are not removed at once. They leave as in a failover, once the copies at the earlier placement are healthy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, condition, with_condition
from controlplane.clusters.tolerations import spelled, untolerated
from controlplane.eviction.pending import EVICTION_PENDING
from controlplane.eviction.pending import REVERTED as TAKEN_BACK
from controlplane.eviction.purge import purge_mode, with_partial_task, with_task
from controlplane.eviction.state_preservation import missing_state_reason, preserved_state
from controlplane.kinds.binding import PARTLY_REVERTED, REVERTED, Binding, TargetCluster, manual_placement
from controlplane.kinds.cluster import EVICTING_EFFECTS, NO_EXECUTE, Cluster
from controlplane.kinds.drain import FINISHED, Drain
from controlplane.settings import Settings


def revert_obstacles(
    binding: Binding,
    before: Binding,
    clusters: Mapping[str, Cluster],
    settings: Settings,
    *,
    drains: Iterable[Drain] = (),
) -> Iterator[str]:
    """Yield why a binding cannot return to its earlier placement.

    Its replica count has changed; a cluster of that time is gone, not Ready or would evict it again; a Drain would
    (`drains`: all of them); or state that has to move along cannot be read [state-preservation].
    """
    if _divided(binding) and binding.spec.replicas != sum(target.replicas for target in before.spec.clusters):
        yield (
            f"it requests {binding.spec.replicas} replicas, not those it had before "
            f"({', '.join(f'{entry.name}:{entry.replicas}' for entry in before.spec.clusters)}); use a Failback"
        )
    earlier = {target.name for target in before.spec.clusters}
    for target in binding.spec.clusters:
        name = target.name
        if name not in earlier and (
            lacking := missing_state_reason(preserved_state(binding, name, settings), name, settings)
        ):
            yield lacking
    tolerations = () if before.spec.placement is None else before.spec.placement.cluster_tolerations
    for target in before.spec.clusters:
        cluster = clusters.get(target.name)
        if cluster is None or cluster.terminating:
            yield f"cluster {target.name} is gone"
            continue
        if cluster.ready != "True":
            yield f"cluster {target.name} is not Ready"
        elif cluster.access_lost:
            yield f"access to cluster {target.name} is lost: no copy could be started there"
        hard = untolerated(cluster.spec.taints, tolerations, (NO_EXECUTE,))
        soft = (
            ()
            if _tolerates_prefer_no_execute(before)
            else [item for item in cluster.spec.taints if item.effect == EVICTING_EFFECTS[1]]
        )
        for taint in (*hard, *soft):
            yield f"cluster {target.name} has the taint {spelled(taint)}, which would evict it again"
    for drain in drains:
        name = drain.spec.cluster
        if name in earlier and binding.spec.target(name) is None and _runs(drain):
            yield f"Drain {drain.metadata.name} empties cluster {name}, and would evict it again"


def _runs(drain: Drain) -> bool:
    """Test whether a Drain evicts copies, now or after a pause."""
    return drain.metadata.deletion_timestamp is None and not drain.spec.stop and drain.status.phase != FINISHED


def _divided(binding: Binding) -> bool:
    return binding.workload and binding.spec.placement is not None and binding.spec.placement.divided


def _tolerates_prefer_no_execute(binding: Binding) -> bool:
    """Test whether PreferNoExecute leaves this binding where it is: it has no spec.failover.cluster
    [prefer-no-execute]."""
    return binding.spec.failover is None or binding.spec.failover.cluster is None


def reverted_binding(binding: Binding, before: Binding, settings: Settings, *, by: str, now: datetime) -> Binding:
    """Return the binding with the targets and tasks it had before. `before`: the binding as it was then.

    A target that took over replicas and keeps some of them runs all of them until the others are healthy.
    """
    earlier = {target.name: target.replicas for target in before.spec.clusters}
    mode = purge_mode(binding, settings)
    new, message = binding, f"{by} reverted the failover"
    for target in binding.spec.clusters:
        if target.name not in earlier:
            state = preserved_state(binding, target.name, settings).labels
            new = with_task(
                new,
                target.name,
                mode=mode,
                reason=REVERTED,
                producer=by,
                message=message,
                preserved=state,
                now=now,
            )
        elif _divided(binding) and binding.spec.task(target.name) is None:
            more = target.replicas - earlier[target.name]
            if 0 < more < target.replicas:
                new = with_partial_task(
                    new,
                    target.name,
                    more,
                    reason=PARTLY_REVERTED,
                    producer=by,
                    message=message,
                    now=now,
                )
    earlier_tasks = {task.from_cluster for task in before.spec.graceful_eviction_tasks} - earlier.keys()
    kept = tuple(
        task
        for task in new.spec.graceful_eviction_tasks
        if task.reason in (REVERTED, PARTLY_REVERTED) or task.from_cluster in earlier_tasks
    )
    each = (
        before.spec.clusters
        if _divided(binding)
        else tuple(_with_current_replicas(cluster, binding) for cluster in before.spec.clusters)
    )
    placed = binding.with_spec(clusters=each, graceful_eviction_tasks=kept)
    return manual_placement.with_mark(_with_reverted_condition(placed, by=by, now=now), binding)


def _with_reverted_condition(binding: Binding, *, by: str, now: datetime) -> Binding:
    """Return the binding with EvictionPending=False/Reverted, if it has the condition EvictionPending."""
    conditions = binding.status.conditions
    if condition(conditions, EVICTION_PENDING) is None:
        return binding
    names = ", ".join(target.name for target in binding.spec.clusters)
    reverted = Condition(
        EVICTION_PENDING, "False", TAKEN_BACK, f"{by} reverted the failover: the binding is placed on {names} again"
    )
    return binding.with_status(pending_evictions=(), conditions=with_condition(conditions, reverted, now=now))


def _with_current_replicas(target: TargetCluster, binding: Binding) -> TargetCluster:
    """Return the target of a Duplicated workload with the replica count of today."""
    return replace(target, replicas=binding.spec.replicas) if target.replicas else target
