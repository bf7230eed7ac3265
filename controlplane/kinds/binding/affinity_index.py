"""Which clusters concern a binding, as index values: a cluster that changes asks for those that may choose it."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.apimachinery.meta import condition
from controlplane.apimachinery.selectors import EXISTS, IN
from controlplane.kinds.binding import SCHEDULED, Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import ClusterAffinity, Placement

_ANY = "any"


def follows(binding: Binding) -> bool:
    """Test whether a binding follows the clusters that fit whenever they change: copies and non-workloads do, shares
    stay where they are (semantics 3.1, D19)."""
    placement = binding.spec.placement
    return placement is not None and not (placement.divided and binding.workload)


def pending(binding: Binding) -> bool:
    """Test whether the last attempt to schedule a binding found no place."""
    said = condition(binding.status.conditions, SCHEDULED)
    return said is not None and said.status == "False"


def affine_keys(binding: Binding) -> list[str]:
    """Return what a changed cluster finds a binding under: being a target, and being chosen where that matters."""
    found = {f"on:{target.name}" for target in binding.spec.clusters}
    if binding.spec.placement is not None and (follows(binding) or pending(binding)):
        found.update(_chosen_by(binding.spec.placement))
    return sorted(found)


def pending_keys(binding: Binding) -> list[str]:
    """Return what a cluster with other room finds a binding under that waits for room."""
    if binding.spec.placement is None or not pending(binding):
        return []
    return sorted(set(_chosen_by(binding.spec.placement)))


def affine_values(cluster: Cluster) -> list[str]:
    """Return the index values of a cluster: every binding that may choose it is under one of them."""
    spec, labels = cluster.spec, cluster.metadata.labels
    found = [_ANY, f"name:{cluster.metadata.name}", f"on:{cluster.metadata.name}"]
    found += [f"label:{key}={value}" for key, value in labels.items()]
    found += [f"label:{key}" for key in labels]
    fields = (("provider", (spec.provider,)), ("region", (spec.region,)), ("zone", spec.zones))
    found += [f"{field}:{value}" for field, values in fields for value in values if value]
    return sorted(found)


def _chosen_by(placement: Placement) -> Iterator[str]:
    if not placement.cluster_affinities:
        yield from _needed(placement.cluster_affinity)
    for term in placement.cluster_affinities:
        yield from _needed(term)
        for overflow in term.overflow_affinities:
            yield from _needed(overflow)


def _needed(affinity: ClusterAffinity | None) -> Iterator[str]:
    """Yield values of which a chosen cluster has at least one: those of one condition, the narrowest kind there is."""
    if affinity is None:
        yield _ANY
        return
    if affinity.cluster_names:
        yield from (f"name:{name}" for name in affinity.cluster_names)
        return
    selector = affinity.label_selector
    if selector is not None and selector.match_labels:
        key, value = min(selector.match_labels.items())
        yield f"label:{key}={value}"
        return
    for requirement in selector.match_expressions if selector is not None else ():
        if requirement.operator == IN:
            yield from (f"label:{requirement.key}={value}" for value in requirement.values)
            return
        if requirement.operator == EXISTS:
            yield f"label:{requirement.key}"
            return
    for field in affinity.field_selector.match_expressions if affinity.field_selector is not None else ():
        if field.operator == IN:
            yield from (f"{field.key}:{value}" for value in field.values)
            return
    yield _ANY


def group_keys(binding: Binding) -> list[str]:
    """Return "namespace/way/group" of a binding's workload affinity groups."""
    groups = binding.spec.workload_affinity_groups
    if groups is None:
        return []
    namespace = binding.metadata.namespace
    named = (("affinity", groups.affinity_group), ("antiAffinity", groups.anti_affinity_group))
    return [f"{namespace}/{way}/{group}" for way, group in named if group]
