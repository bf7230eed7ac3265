"""Workload affinity groups: bindings that go where the others are, or where none of them is (semantics 3.2)."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.binding.affinity_index import group_keys
from controlplane.scheduling.question import Groups, Neighbours, neighbours_of


class WorkloadGroups:
    """The groups of one batch of decisions; whoever is placed is seen by the next."""

    __slots__ = ("_found",)

    def __init__(self, found: Groups) -> None:
        self._found = {key: dict(members) for key, members in found.items()}

    def seen_by(self, binding: Binding) -> Neighbours:
        """Return where the groups of a binding are now."""
        return neighbours_of(binding.spec, self._found, own=binding.metadata.name)

    def placed(self, binding: Binding, clusters: Iterable[TargetCluster]) -> None:
        """Let the others know where a binding goes."""
        for key in group_keys(binding):
            namespace, way, group = key.split("/", 2)
            members = self._found.setdefault((namespace, way, group), {})
            members[binding.metadata.name] = [one.name for one in clusters]
