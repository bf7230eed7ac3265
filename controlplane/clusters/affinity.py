"""Which clusters an affinity chooses (semantics 1.2)."""

from __future__ import annotations

from controlplane.apimachinery.selectors import IN, NOT_IN
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import ClusterAffinity, FieldRequirement


def matches(cluster: Cluster, affinity: ClusterAffinity | None) -> bool:
    """Return whether a cluster is chosen: everything the affinity says holds; one that says nothing chooses all."""
    if affinity is None:
        return True
    name = cluster.metadata.name
    if name in affinity.exclude or (affinity.cluster_names and name not in affinity.cluster_names):
        return False
    if affinity.label_selector is not None and not affinity.label_selector.matches(cluster.metadata.labels):
        return False
    return affinity.field_selector is None or all(
        _holds(cluster, requirement) for requirement in affinity.field_selector.match_expressions
    )


def _holds(cluster: Cluster, requirement: FieldRequirement) -> bool:
    """Return whether a field meets this. In needs an overlap, so it fails where nothing is set; NotIn needs none."""
    match requirement.key:
        case "provider":
            values = {cluster.spec.provider} - {""}
        case "region":
            values = {cluster.spec.region} - {""}
        case "zone":
            values = set(cluster.spec.zones)
        case _:
            values = set()
    present = not values.isdisjoint(requirement.values)
    if requirement.operator == IN:
        return present
    return requirement.operator == NOT_IN and not present
