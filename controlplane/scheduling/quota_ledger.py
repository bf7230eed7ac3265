"""What the ResourceQuotas of members leave to bindings while a batch of them is scheduled [replica-estimation]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from controlplane.estimate.namespace_quotas import Use, room
from controlplane.estimate.request import Asked, namespace_of
from controlplane.kinds.cluster import NamespaceQuota
from controlplane.scheduling.cluster_arrays import Counts, Fleet, Places

_NOTHING: Final[Use] = {}

Quotas = Mapping[int, Sequence[NamespaceQuota]]
"""The quotas of a namespace, by the place of their cluster in the fleet."""


class QuotaLedger:
    """What is placed in namespaces with quotas and is in no report of a member yet. It is mutable."""

    __slots__ = ("_fleet", "_taken")

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._taken: dict[tuple[str, int], dict[Asked, int]] = {}

    def reserve(self, places: Places, replicas: Counts, asked: Asked) -> None:
        """Reserve replicas on clusters. Negative replicas give room back."""
        namespace = namespace_of(asked)
        if not namespace or not self._fleet.namespace_quotas:
            return
        for place, count in zip(places.tolist(), replicas.tolist(), strict=True):
            taken = self._taken.setdefault((namespace, place), {})
            taken[asked] = taken.get(asked, 0) + count

    def room(self, asked: Asked) -> dict[int, tuple[int, str]]:
        """Return for each cluster with a limit how many more replicas (or sets) fit, and the name of the quota with the
        least room."""
        namespace = namespace_of(asked)
        found = {}
        for place, quotas in self._fleet.namespace_quotas.get(namespace, {}).items() if namespace else ():
            taken = self._taken.get((namespace, place), _NOTHING)
            rooms = [(left, quota.name) for quota in quotas if (left := room(quota, asked, taken)) is not None]
            if rooms:
                found[place] = min(rooms)
        return found

    def within(self, capacity: Counts, asked: Asked) -> Counts:
        """Return the capacity of all clusters, at most the room in quotas. `capacity` itself is not changed."""
        rooms = self.room(asked)
        if not rooms:
            return capacity
        found = capacity.copy()
        places = np.fromiter(rooms, dtype=np.intp, count=len(rooms))
        found[places] = np.minimum(found[places], [left for left, _ in rooms.values()])
        return found

    def limiting(self, capacity: Counts, asked: Asked) -> dict[int, str]:
        """Return by place the quota that limits a cluster to this capacity, as namespace/name."""
        namespace = namespace_of(asked)
        return {
            place: f"{namespace}/{name}" for place, (left, name) in self.room(asked).items() if left <= capacity[place]
        }
