"""Indexes of bindings by the clusters they may be placed on. They find the bindings that a changed cluster concerns."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.apimachinery.meta import condition
from controlplane.kinds.binding import SCHEDULED, Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import Placement
from controlplane.kinds.policy.affinity import affinities, affinity_index_values, chooses, cluster_index_values


def follows(binding: Binding) -> bool:
    """Test whether the targets of a binding follow the clusters that its placement chooses, whenever clusters change.

    Duplicated workloads and objects without replicas do. A divided workload keeps its targets [recovered-clusters]. A
    binding without a placement does not.
    """
    placement = binding.spec.placement
    return placement is not None and not (placement.divided and binding.workload)


def pending(binding: Binding) -> bool:
    """Test whether the scheduler found no result for a binding at its last attempt."""
    scheduled = condition(binding.status.conditions, SCHEDULED)
    return scheduled is not None and scheduled.status == "False"


def may_choose(binding: Binding, cluster: Cluster) -> bool:
    """Test whether an affinity of the binding's placement chooses a cluster. False: the binding has no placement."""
    placement = binding.spec.placement
    return placement is not None and any(chooses(affinity, cluster) for affinity in affinities(placement))


def affine_keys(binding: Binding) -> list[str]:
    """Return the values of the index `affine`: "on:<cluster>" of each target, and if the binding follows clusters or
    is pending, the index values of its affinities."""
    values = {f"on:{target.name}" for target in binding.spec.clusters}
    if binding.spec.placement is not None and (follows(binding) or pending(binding)):
        values |= _values(binding.spec.placement)
    return sorted(values)


def pending_keys(binding: Binding) -> list[str]:
    """Return the values of the index `pending`: the index values of the binding's affinities while it is pending."""
    if binding.spec.placement is None or not pending(binding):
        return []
    return sorted(_values(binding.spec.placement))


def closed_keys(binding: Binding) -> list[str]:
    """Return the values of the index `closed`. Few bindings have any.

    They are those of the index `affine`, if the binding is to be decided again when a cluster only gets taints that
    keep new copies away (`concerns`).
    """
    return affine_keys(binding) if binding.spec.placement is not None and _feels_closed(binding) else []


def affine_values(cluster: Cluster) -> list[str]:
    """Return the values under which these three indexes have the bindings that a changed cluster concerns."""
    return sorted([f"on:{cluster.metadata.name}", *cluster_index_values(cluster)])


def _values(placement: Placement) -> set[str]:
    return {value for affinity in affinities(placement) for value in affinity_index_values(affinity)}


def group_keys(binding: Binding) -> list[str]:
    """Return the values of the index `group`: "namespace/affinity/group" and "namespace/antiAffinity/group" of the
    binding's workload affinity groups."""
    groups = binding.spec.workload_affinity_groups
    if groups is None:
        return []
    namespace = binding.metadata.namespace
    named = (("affinity", groups.affinity_group), ("antiAffinity", groups.anti_affinity_group))
    return [f"{namespace}/{relation}/{group}" for relation, group in named if group]


def concerns(clusters: Mapping[str, Cluster | None], binding: Binding, *, closed: bool = False) -> bool:
    """Test whether changes of clusters may change the clusters of a binding.

    `clusters`: those that changed, by name; None: it was deleted. `closed`: they only got taints that keep new copies
    away. That changes no placed binding, except if spread constraints compare groups of clusters by all clusters in
    them. Bindings that wait for a place report the change.
    """
    if closed and not _feels_closed(binding):
        return False
    targets = [clusters[target.name] for target in binding.spec.clusters if target.name in clusters]
    if any(cluster is None or cluster.terminating for cluster in targets):
        return True
    if not (follows(binding) or pending(binding)):
        return False
    return bool(targets) or any(cluster is not None and may_choose(binding, cluster) for cluster in clusters.values())


def _feels_closed(binding: Binding) -> bool:
    """Test whether taints of a cluster that keep new copies away may change what the scheduler says of a binding."""
    return pending(binding) or _compares_groups(binding)


def _compares_groups(binding: Binding) -> bool:
    placement = binding.spec.placement
    if placement is None:
        return False
    return any(constraint.spread_by_field != "cluster" for constraint in placement.spread_constraints)
