"""Replicas of a Work: those that its cluster keeps, or must not get yet, beside those of its target."""

from __future__ import annotations

from msgspec.structs import replace

from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.work import Work
from controlplane.propagation import works


def with_kept(target: TargetCluster, stored: Work | None, binding: Binding) -> TargetCluster:
    """Return a target with the replicas that stay there until their replacements run elsewhere.

    These are the replicas that a failback moves away from it. While the binding is being evicted from another cluster,
    the target keeps all replicas that it has, but not more than the workload asks for in total.
    """
    returning = binding.spec.replicas_returning(target.name)
    if returning:
        return replace(target, replicas=target.replicas + returning)
    present = asked_by(stored, binding) if binding.spec.graceful_eviction_tasks else None
    kept = 0 if present is None else min(present, binding.spec.replicas)
    return replace(target, replicas=kept) if kept > target.replicas else target


def not_more_than_before(target: TargetCluster, stored: Work | None, binding: Binding) -> TargetCluster:
    """Return a target with at most the replicas that its Work asks for already."""
    present = asked_by(stored, binding)
    return target if present is None or present >= target.replicas else replace(target, replicas=present)


def asked_by(stored: Work | None, binding: Binding) -> int | None:
    """Return how many replicas of a Divided workload a stored Work asks for.

    None: there is no Work, it does not say, or the binding is not a Divided workload with replicas.
    """
    return works.requested_replicas(stored) if stored is not None and works.is_divided(binding) else None
