"""Room: which clusters get more than they have room for.

Placements that do not ask for free capacity (duplicated copies, static weights) may do that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from controlplane.estimate.capacity import free_capacity
from controlplane.estimate.request import PODS, Bundle, bundle_of, decoded, request_of
from controlplane.insight.effects import Overpacked
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.settings import Settings

Amounts = Counter[tuple[str, str]]  # by cluster and resource


def overpacked(
    gained: Iterable[tuple[Binding, Mapping[str, int]]],
    clusters: Mapping[str, Cluster],
    reserved: Iterable[tuple[str, str, int]],
    settings: Settings,
) -> tuple[Overpacked, ...]:
    """Return the clusters whose free capacity is less than what arrives, with the scarcest resource of each.

    `gained`: the additional replicas of bindings by cluster. `reserved`: as `ReservedCapacity.totals`. A cluster that
    reports no capacity is left out, and so is a resource that it does not report.
    """
    needed: Amounts = Counter()
    for binding, by_cluster in gained:
        for resource, amount in _amounts(binding, settings):
            for name, replicas in by_cluster.items():
                needed[name, resource] += amount * (replicas if binding.spec.replicas else 1)
    arriving = {name for name, _ in needed}
    for name, request, replicas in reserved if needed else ():
        if name in arriving:
            asked = decoded(request)
            pods, amounts = (asked.pods, asked.total.amounts) if isinstance(asked, Bundle) else (1, asked.amounts)
            for resource, amount in (*amounts, (PODS, pods)):
                needed[name, resource] += amount * replicas
    found = {}
    for name in sorted(arriving):
        short = sorted(_short(name, clusters[name], needed), key=lambda one: one.needed / max(one.room, 1))
        if short:
            found[name] = short[-1]
    return tuple(found.values())


def _amounts(binding: Binding, settings: Settings) -> Iterator[tuple[str, int]]:
    """Yield what one replica of a binding requests, or one set of components, by resource."""
    spec = binding.spec
    try:
        if spec.components and settings.gate("MultiplePodTemplatesScheduling"):
            bundle = bundle_of(spec.components)
            yield from bundle.total.amounts
            yield PODS, bundle.pods
        elif binding.workload:
            yield from request_of(spec.replica_requirements).amounts
            yield PODS, 1
    except ValueError:
        return  # its request is not a quantity; scheduling of that binding reports the error


def _short(name: str, cluster: Cluster, needed: Amounts) -> Iterator[Overpacked]:
    capacity = free_capacity(cluster)
    free = {**capacity.free, PODS: capacity.pods}
    for resource, room in free.items() if capacity.known else ():
        if needed[name, resource] > room:
            yield Overpacked(name, resource, needed[name, resource], room)
