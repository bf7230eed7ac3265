"""Workload affinity groups: bindings that are placed on the same clusters, or never on the same cluster
[scheduling-filters]."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.binding.affinity_index import group_keys
from controlplane.scheduling.question import Groups, Neighbours, neighbours_of


class WorkloadGroups:
    """The groups of one batch of decisions. It is mutable: each placement is visible to the next binding."""

    __slots__ = ("_found",)

    def __init__(self, found: Groups) -> None:
        self._found = {key: dict(members) for key, members in found.items()}

    def seen_by(self, binding: Binding) -> Neighbours:
        """Return where the groups of a binding are placed now."""
        return neighbours_of(binding.spec, self._found, own=binding.metadata.name)

    def placed(self, binding: Binding, clusters: Iterable[TargetCluster]) -> None:
        """Record the placement of a binding, so that the other bindings of its groups see it."""
        for key in group_keys(binding):
            namespace, way, group = key.split("/", 2)
            members = self._found.setdefault((namespace, way, group), {})
            members[binding.metadata.name] = [target.name for target in clusters]
