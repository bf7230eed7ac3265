"""How many copies of a Duplicated workload a failover makes if a quota refuses more [federated-quotas]."""

from __future__ import annotations

from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.scheduling.schedule import Placed


def as_many_copies(binding: Binding, found: Placed, evicted: int, *, bundled: bool) -> tuple[TargetCluster, ...] | None:
    """Return the targets of a result without the new copies that are more than were evicted.

    There are more, for example, if the next affinity group has more clusters than the lost one. None: no new copy is
    left, or the replicas are divided. `evicted`: see `evicted_replicas`. `bundled`: a copy is a set of components.
    """
    if not bundled and binding.spec.placement is not None and binding.spec.placement.divided:
        return None
    rest, targets = evicted, list[TargetCluster]()
    for target in found.clusters:
        more = 0 if binding.spec.target(target.name) is not None else 1 if bundled else target.replicas
        if more <= rest:
            targets.append(target)
            rest -= more
    return tuple(targets) if rest < evicted else None
