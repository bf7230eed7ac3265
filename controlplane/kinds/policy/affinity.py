"""Cluster affinity: which clusters an affinity chooses.

This is the only place with the rule. An affinity is a list of conditions, and it chooses the clusters that meet all of
them. The scheduler evaluates each condition once for all clusters (`scheduling.cluster_arrays`). The affinity index
(`kinds.binding.affinity_index`) uses the values under which a condition finds the clusters that meet it.
"""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.apimachinery.meta import Struct
from controlplane.apimachinery.selectors import IN, LabelSelectorRequirement
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import ClusterAffinity, FieldRequirement, Placement


class NameIn(Struct, frozen=True):
    """The cluster has one of these names."""

    names: tuple[str, ...]

    def holds(self, cluster: Cluster) -> bool:
        return cluster.metadata.name in self.names

    def index_values(self) -> tuple[str, ...] | None:
        return tuple(f"name:{name}" for name in self.names)


class NameNotIn(Struct, frozen=True):
    """The cluster has none of these names."""

    names: tuple[str, ...]

    def holds(self, cluster: Cluster) -> bool:
        return cluster.metadata.name not in self.names

    def index_values(self) -> tuple[str, ...] | None:
        return None


class LabelCondition(Struct, frozen=True):
    """The labels of the cluster meet a requirement."""

    requirement: LabelSelectorRequirement

    def holds(self, cluster: Cluster) -> bool:
        return self.requirement.matches(cluster.metadata.labels)

    def index_values(self) -> tuple[str, ...] | None:
        key = self.requirement.key
        match self.requirement.operator:
            case "In":
                return tuple(f"label:{key}={value}" for value in self.requirement.values)
            case "Exists":
                return (f"label:{key}",)
        return None


class FieldCondition(Struct, frozen=True):
    """The provider, the region or the zones of the cluster meet a requirement.

    In needs a common value, so it fails if the cluster has no value. NotIn needs that there is none. Any other operator
    fails.
    """

    requirement: FieldRequirement

    def holds(self, cluster: Cluster) -> bool:
        overlaps = not set(self.requirement.values).isdisjoint(field_values(cluster, self.requirement.key))
        match self.requirement.operator:
            case "In":
                return overlaps
            case "NotIn":
                return not overlaps
        return False

    def index_values(self) -> tuple[str, ...] | None:
        if self.requirement.operator != IN:
            return None
        return tuple(f"{self.requirement.key}:{value}" for value in self.requirement.values)


Condition = NameIn | NameNotIn | LabelCondition | FieldCondition
"""`holds` tests whether a cluster meets the condition. `index_values` returns values of which every cluster that meets
the condition has at least one (`cluster_index_values`); None: the condition has no such values."""


def conditions(affinity: ClusterAffinity | None) -> Iterator[Condition]:
    """Yield the conditions of an affinity. An empty affinity, and None, have none: they choose every cluster."""
    if affinity is None:
        return
    if affinity.cluster_names:
        yield NameIn(affinity.cluster_names)
    if affinity.exclude:
        yield NameNotIn(affinity.exclude)
    if affinity.label_selector is not None:
        for key, value in sorted(affinity.label_selector.match_labels.items()):
            yield LabelCondition(LabelSelectorRequirement(key, IN, (value,)))
        yield from map(LabelCondition, affinity.label_selector.match_expressions)
    if affinity.field_selector is not None:
        yield from map(FieldCondition, affinity.field_selector.match_expressions)


def chooses(affinity: ClusterAffinity | None, cluster: Cluster) -> bool:
    """Test whether an affinity chooses a cluster."""
    return all(condition.holds(cluster) for condition in conditions(affinity))


def affinities(placement: Placement) -> Iterator[ClusterAffinity | None]:
    """Yield every affinity under which a placement may choose clusters. None: every cluster."""
    if not placement.cluster_affinities:
        yield placement.cluster_affinity
    for term in placement.cluster_affinities:
        yield from (term, *term.overflow_affinities)


def field_values(cluster: Cluster, field: str) -> tuple[str, ...]:
    """Return the values of a cluster's provider, region or zone; empty if it has none, and for any other field."""
    match field:
        case "provider":
            values: tuple[str, ...] = (cluster.spec.provider,)
        case "region":
            values = (cluster.spec.region,)
        case "zone":
            values = cluster.spec.zones
        case _:
            values = ()
    return tuple(value for value in values if value)


ANY_CLUSTER = "any"
"""The index value that every cluster has."""


def affinity_index_values(affinity: ClusterAffinity | None) -> tuple[str, ...]:
    """Return index values of which every cluster that an affinity chooses has at least one.

    The first condition with index values gives them. Names of clusters come first: they select the fewest clusters.
    """
    for condition in conditions(affinity):
        values = condition.index_values()
        if values is not None:
            return values
    return (ANY_CLUSTER,)


def cluster_index_values(cluster: Cluster) -> list[str]:
    """Return the index values of a cluster: an affinity that chooses the cluster is found under one of them."""
    values = [ANY_CLUSTER, f"name:{cluster.metadata.name}"]
    for key, value in cluster.metadata.labels.items():
        values += [f"label:{key}", f"label:{key}={value}"]
    for field in ("provider", "region", "zone"):
        values += [f"{field}:{value}" for value in field_values(cluster, field)]
    return values
