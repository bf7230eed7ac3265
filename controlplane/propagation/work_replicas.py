"""Replicas of a Work: those that its cluster keeps, or must not get yet, beside those of its target."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from controlplane.apimachinery.meta import condition
from controlplane.kinds.binding import HEALTHY, AggregatedStatusItem, Binding, TargetCluster
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import DIRECTLY
from controlplane.kinds.work import APPLIED, Work
from controlplane.propagation import works


def with_kept(target: TargetCluster, stored: Work | None, binding: Binding, *, unsent: int) -> TargetCluster:
    """Return a target with the replicas that stay there until their replacements run elsewhere.

    These are the replicas that a failback moves away from it. While the binding is being evicted from another cluster,
    the target keeps all replicas that it has, but not more than the workload asks for in total. Otherwise it keeps
    those that replace replicas which are not sent (`unsent`).
    """
    returning = binding.spec.replicas_returning(target.name)
    if returning:
        return replace(target, replicas=target.replicas + returning)
    limit = binding.spec.replicas if binding.spec.graceful_eviction_tasks else target.replicas + unsent
    present = asked_by(stored, binding) if limit > target.replicas else None
    kept = 0 if present is None else min(present, limit)
    return replace(target, replicas=kept) if kept > target.replicas else target


def kept_for_unsent(binding: Binding, stored: Mapping[str, Work]) -> dict[str, int]:
    """Return by cluster how many replicas more than those of its target it keeps, because as many are missing on other
    clusters to which dispatching is suspended.

    Replicas that run on a suspended cluster stay there anyway, so they count first, and those on clusters that cannot
    be reached last. `stored`: the Works of the binding by cluster.
    """
    if binding.spec.suspension is None or not works.is_divided(binding):
        return {}
    items = {item.cluster_name: item for item in binding.status.aggregated_status}
    lost = {name for name, item in items.items() if item.out_of_reach_since is not None}
    withheld = [one for one in binding.spec.clusters if binding.spec.dispatching_suspended(one.name)]
    sent = sorted([one for one in binding.spec.clusters if one not in withheld], key=lambda one: one.name in lost)
    running = {one.name: _running(one, items.get(one.name)) for one in withheld}
    missing, kept = sum(max(0, one.replicas - running[one.name]) for one in withheld), dict[str, int]()
    for one in (*withheld, *sent) if missing else ():
        present = asked_by(stored.get(one.name), binding) or 0
        surplus = max(0, min(present, running.get(one.name, present)) - one.replicas)
        kept[one.name] = min(surplus, missing)
        missing -= kept[one.name]
    return kept


def _running(target: TargetCluster, item: AggregatedStatusItem | None) -> int:
    """Return how many replicas of a target run. `item`: what its cluster reports; None: nothing."""
    if item is None:
        return 0
    ready = (item.status or {}).get("readyReplicas")
    return ready if isinstance(ready, int) else target.replicas if item.health == HEALTHY else 0


def not_more_than_before(
    target: TargetCluster, stored: Work | None, binding: Binding, cluster: Cluster | None
) -> TargetCluster:
    """Return a target with at most the replicas that its Work asks for already.

    If its cluster does not get the Work now: those that it reported last, if the Work has not been applied since it
    asks for more. A cluster that gets it may report fewer for a moment, because it replaces them.
    """
    present = asked_by(stored, binding)
    is_sent = cluster is not None and cluster.answers and not binding.spec.dispatching_suspended(target.name)
    reported = None if stored is None or is_sent else _reported(stored)
    if present is not None and reported is not None:
        present = min(present, reported)
    return target if present is None or present >= target.replicas else replace(target, replicas=present)


def waits_to_start(stored: Work, binding: Binding) -> bool:
    """Test whether a copy was made since another one began to leave Directly, and has never been applied."""
    applied, made = condition(stored.status.conditions, APPLIED), stored.metadata.creation_timestamp
    if stored.status.manifest_statuses or (applied is not None and applied.status == "True"):
        return False
    begun = [task.creation_timestamp for task in binding.spec.graceful_eviction_tasks if task.purge_mode == DIRECTLY]
    return any(made is None or at is None or made >= at for at in begun)


def held_back(work: Work) -> Work:
    """Return a Work that is not sent to its cluster."""
    return replace(work, spec=replace(work.spec, suspend_dispatching=True))


def asked_by(stored: Work | None, binding: Binding) -> int | None:
    """Return how many replicas of a Divided workload a stored Work asks for.

    None: there is no Work, it does not say, or the binding is not a Divided workload with replicas.
    """
    return works.requested_replicas(stored) if stored is not None and works.is_divided(binding) else None


def _reported(stored: Work) -> int | None:
    """Return how many replicas a copy has whose Work has not been applied as it is. None: it has been, or its cluster
    has reported no number."""
    applied = condition(stored.status.conditions, APPLIED)
    if applied is None or (applied.status == "True" and applied.observed_generation == stored.metadata.generation):
        return None
    counts = [(one.status or {}).get("replicas") for one in stored.status.manifest_statuses]
    return next((count for count in counts if isinstance(count, int)), None)
