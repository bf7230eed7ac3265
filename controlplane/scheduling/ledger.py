"""The ledger of reserved capacity: replicas that were placed on a cluster and that no report of the cluster counts
yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

from controlplane.engine.decision import CapacityGuard
from controlplane.estimate.request import Asked, Bundle, NodeTerms, Request, namespace_of, without_quota
from controlplane.kinds.rows import CapacityReservation
from controlplane.scheduling.cluster_arrays import Counts, Fleet, Places
from controlplane.scheduling.quota_ledger import QuotaLedger

_PODS: Final = ""  # the name under which guards count pod slots
RESERVATION_EXPIRY: Final = timedelta(seconds=300)
"""When a reservation expires that no report has counted. The Work may never have been applied."""


def live(
    reservations: Iterable[CapacityReservation], *, collected_at: Mapping[str, datetime], now: datetime
) -> list[CapacityReservation]:
    """Return the reservations that still count: younger than RESERVATION_EXPIRY, and not counted by a report.

    A report counts a reservation if the report is newer than the moment when the Work was first seen applied.
    `collected_at`: by cluster, when its nodes and pods were last read.
    """
    return [
        reservation
        for reservation in reservations
        if reservation.made_at is not None
        and now - reservation.made_at < RESERVATION_EXPIRY
        and not _counted(reservation, collected_at.get(reservation.cluster))
    ]


def _counted(reservation: CapacityReservation, collected: datetime | None) -> bool:
    return reservation.applied_at is not None and collected is not None and collected > reservation.applied_at


class Ledger:
    """The capacity that is reserved on the clusters of a fleet while a batch of bindings is scheduled. It is
    mutable."""

    __slots__ = ("_amounts", "_by_terms", "_fleet", "_free", "_log", "_pods", "_quotas")

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._pods: Counts = np.zeros(fleet.size, dtype=np.int64)
        self._amounts: dict[str, Counts] = {}
        self._by_terms: dict[NodeTerms, dict[str, Counts]] = {}  # the part of it that only fits on some nodes
        self._log: list[Places] = []
        self._free: dict[Asked, tuple[int, Counts]] = {}
        self._quotas = QuotaLedger(fleet)

    @classmethod
    def of(cls, fleet: Fleet, reservations: Iterable[tuple[str, int, Asked]]) -> Ledger:
        """Return the ledger of reservations: (cluster, replicas or sets, request of each).

        Clusters outside the fleet are ignored.
        """
        by_request: dict[Asked, tuple[list[int], list[int]]] = {}
        for cluster, replicas, asked in reservations:
            place = fleet.index.get(cluster)
            if place is not None and replicas > 0:
                places, counts = by_request.setdefault(asked, ([], []))
                places.append(place)
                counts.append(replicas)
        ledger = cls(fleet)
        for asked, (places, counts) in by_request.items():
            total: Counts = np.zeros(fleet.size, dtype=np.int64)
            np.add.at(total, places, counts)
            taken = np.flatnonzero(total)
            ledger.reserve(taken, total[taken], asked)
        return ledger

    def reserve(self, places: Places, replicas: Counts, asked: Asked) -> None:
        """Reserve capacity on clusters. Negative replicas give capacity back. `places` must not contain duplicates."""
        if isinstance(asked, Bundle):
            pods, amounts = asked.pods, asked.total.amounts
        else:
            pods, amounts = 1, asked.amounts
        self._quotas.reserve(places, replicas, asked)
        self._pods[places] += pods * replicas
        for name, amount in amounts:
            taken = self._amounts.get(name)
            if taken is None:
                taken = self._amounts[name] = np.zeros(self._fleet.size, dtype=np.int64)
            taken[places] += amount * replicas
        self._reserve_on_nodes(places, replicas, asked)
        self._log.append(places)

    @property
    def changes(self) -> int:
        """The number of reservations and returns so far. While it stays, so does all free capacity."""
        return len(self._log)

    def _reserve_on_nodes(self, places: Places, replicas: Counts, asked: Asked) -> None:
        """Note on which nodes capacity is reserved, so that it displaces nothing on other nodes [node-estimate]."""
        for count, request in asked.parts if isinstance(asked, Bundle) else ((1, asked),):
            if isinstance(request.nodes, NodeTerms):
                amounts = self._by_terms.setdefault(request.nodes, {})
                for name, amount in ((_PODS, 1), *request.amounts):
                    if name not in amounts:
                        amounts[name] = np.zeros(self._fleet.size, dtype=np.int64)
                    amounts[name][places] += amount * count * replicas

    def _taken(self, total: Counts, name: str, asked: Asked, places: Places) -> Counts:
        """Return what is reserved of a resource on clusters, without reservations on nodes that `asked` does not use.

        `total`: what is reserved of it in all.
        """
        taken: Counts = total[places]
        if isinstance(asked, Bundle) or not isinstance(asked.nodes, NodeTerms):
            return taken
        for terms, amounts in self._by_terms.items():
            if terms != asked.nodes and name in amounts:
                taken = taken - np.where(self._fleet.nodes.apart(terms, asked.nodes)[places], amounts[name][places], 0)
        return taken

    def capacity_guards(self, places: Places, asked: Asked, *, seen: int) -> tuple[CapacityGuard, ...]:
        """Return the guards of a decision that has just reserved capacity on these clusters: how much is left there.

        The decision is dropped if other reservations take more than that meanwhile. A cluster that is overcommitted
        already gets no guard, because the decision did not depend on its free capacity. `seen`: the number of the
        newest reservation that the ledger contains.
        """
        pods, amounts = (asked.pods, asked.total.amounts) if isinstance(asked, Bundle) else (1, asked.amounts)
        columns = {_PODS: (self._fleet.capacity.pods[places] - self._pods[places]).tolist()} if pods else {}
        fitting = self._fleet.by_resource(without_quota(asked))
        for name, amount in amounts:
            reported = fitting[name][places].tolist()
            used = self._taken(self._amounts[name], name, asked, places).tolist()
            columns[name] = [count * amount - some for count, some in zip(reported, used, strict=True)]
        found = []
        for place, values in zip(places.tolist(), zip(*columns.values(), strict=True), strict=True):
            if min(values) >= 0:
                found.append(CapacityGuard(self._fleet.names[place], seen, tuple(zip(columns, values, strict=True))))
        return tuple(found)

    def free(self, asked: Asked) -> Counts:
        """Return how many more replicas (or sets) fit on each cluster, after all reservations.

        The array does not change later: each new reservation leads to a new array.
        """
        return self._quotas.within(self._by_reports(without_quota(asked)), asked)

    def limiting_quotas(self, asked: Asked) -> dict[int, str]:
        """Return by place the quotas of members that limit what `free` returns, as namespace/name."""
        return self._quotas.limiting(self.free(asked), asked) if namespace_of(asked) else {}

    def _by_reports(self, asked: Asked) -> Counts:
        """Return what fits on each cluster by its nodes and pods, after all reservations."""
        known = self._free.get(asked)
        moment = len(self._log)
        if known is not None and known[0] == moment:
            return known[1]
        if known is None:
            found = self._all(asked)
        else:
            changed = self._log[known[0] :]
            if sum(map(len, changed)) * 4 > self._fleet.size:
                found = self._all(asked)
            else:
                places = np.concatenate(changed)
                found = known[1].copy()
                found[places] = self._left(asked, places)
        self._free[asked] = (moment, found)
        return found

    def _all(self, asked: Asked) -> Counts:
        if not self._log:
            return self._reported(asked)
        return self._left(asked, np.arange(self._fleet.size))

    def _reported(self, asked: Asked) -> Counts:
        return self._fleet.bundles(asked) if isinstance(asked, Bundle) else self._fleet.replicas(asked)

    def _left(self, asked: Asked, places: NDArray[np.intp]) -> Counts:
        """Return how many more replicas fit on some clusters: for each resource the reported number minus the replicas
        that reservations displace. The scarcest resource decides."""
        reported = self._reported(asked)[places]
        pods, amounts = (asked.pods, asked.total.amounts) if isinstance(asked, Bundle) else (1, asked.amounts)
        left = np.minimum(reported, (self._fleet.capacity.pods[places] - self._pods[places]) // max(pods, 1))
        if isinstance(asked, Request) and isinstance(asked.nodes, NodeTerms):
            left = np.minimum(left, reported - self._taken(self._pods, _PODS, asked, places))
        for name, amount in amounts:
            total = self._amounts.get(name)
            if total is not None:
                fitting = self._fleet.by_resource(asked)[name][places]
                left = np.minimum(left, fitting + (-self._taken(total, name, asked, places) // amount))
        found: Counts = np.maximum(left, 0)
        return found
