"""Replicas of a Work: those that its cluster keeps, or must not get yet, beside those of its target."""

from __future__ import annotations

from msgspec.structs import replace

from controlplane.kinds.binding import HEALTHY, AggregatedStatusItem, Binding, TargetCluster
from controlplane.kinds.work import Work
from controlplane.propagation import works


def with_kept(target: TargetCluster, stored: Work | None, binding: Binding) -> TargetCluster:
    """Return a target with the replicas that stay there until their replacements run elsewhere.

    These are the replicas that a failback moves away from it. While the binding is being evicted from another cluster,
    the target keeps all replicas that it has, but not more than the workload asks for in total. While dispatching to
    other clusters is suspended, it keeps as many as are missing there.
    """
    returning = binding.spec.replicas_returning(target.name)
    if returning:
        return replace(target, replicas=target.replicas + returning)
    limit = (
        binding.spec.replicas if binding.spec.graceful_eviction_tasks else target.replicas + _unsent(binding, target)
    )
    present = asked_by(stored, binding) if limit > target.replicas else None
    kept = 0 if present is None else min(present, limit)
    return replace(target, replicas=kept) if kept > target.replicas else target


def _unsent(binding: Binding, target: TargetCluster) -> int:
    """Return how many replicas are missing on other clusters to which dispatching is suspended."""
    if binding.spec.suspension is None:
        return 0
    items = {item.cluster_name: item for item in binding.status.aggregated_status}
    withheld = (one for one in binding.spec.clusters if binding.spec.dispatching_suspended(one.name))
    return sum(_missing(one, items.get(one.name)) for one in withheld if one.name != target.name)


def _missing(target: TargetCluster, item: AggregatedStatusItem | None) -> int:
    """Return how many replicas of a target do not run. `item`: what its cluster reports; None: nothing."""
    if item is None:
        return target.replicas
    ready = (item.status or {}).get("readyReplicas")
    running = ready if isinstance(ready, int) else target.replicas if item.health == HEALTHY else 0
    return max(0, target.replicas - running)


def not_more_than_before(target: TargetCluster, stored: Work | None, binding: Binding) -> TargetCluster:
    """Return a target with at most the replicas that its Work asks for already."""
    present = asked_by(stored, binding)
    return target if present is None or present >= target.replicas else replace(target, replicas=present)


def asked_by(stored: Work | None, binding: Binding) -> int | None:
    """Return how many replicas of a Divided workload a stored Work asks for.

    None: there is no Work, it does not say, or the binding is not a Divided workload with replicas.
    """
    return works.requested_replicas(stored) if stored is not None and works.is_divided(binding) else None
