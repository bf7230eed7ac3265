"""The ledger of reserved capacity: replicas that were placed on a cluster and that no report of the cluster counts
yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from controlplane.apimachinery.quantities import MAX_INT64
from controlplane.engine.decision import CapacityGuard
from controlplane.estimate.request import Asked, Bundle, NodeTerms, Request, namespace_of, without_quota
from controlplane.kinds.rows import CapacityReservation
from controlplane.scheduling.cluster_arrays import FEW, Counts, Fleet, Mask, Places
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


class _Reported(NamedTuple):
    """What reports say about a request, by place: integers of Python, which are faster one by one than arrays."""

    most: list[int]  # replicas (or sets) that fit
    slots: list[int]  # free pod slots
    pods: int  # how many slots a replica (or set) takes
    resources: list[tuple[str, int, list[int]]]  # name, amount, and how many fit if nothing else is scarce


def _added(taken: Counts, places: Places, replicas: Counts, few: Sequence[tuple[int, int]], amount: int) -> Counts:
    """Return what is taken if an amount for each replica is added on some clusters. These contain no duplicates.

    `few`: the same places and replicas one by one, if there are few. `taken` is changed, unless a sum needs more than
    64 bits. Then the result has integers of Python.
    """
    if few:
        for place, count in few:
            number = taken.item(place) + amount * count
            if abs(number) > MAX_INT64:
                taken = taken.astype(object)
            taken[place] = number
        return taken
    if max(_largest(taken[places]), amount * max(1, _largest(replicas))) > MAX_INT64 // 2:
        taken, replicas = taken.astype(object), replicas.astype(object)
    taken[places] += amount * replicas
    return taken


def _taken_at(place: int, total: Counts, elsewhere: Sequence[tuple[Mask, Counts]]) -> int:
    """Return what is reserved of a resource on one cluster, as `Ledger._taken` does for many."""
    taken: int = total.item(place)
    return taken - sum([amounts.item(place) for apart, amounts in elsewhere if apart[place]]) if elsewhere else taken


def _largest(counts: Counts) -> int:
    return int(np.abs(counts).max())


def _counted(reservation: CapacityReservation, collected: datetime | None) -> bool:
    return reservation.applied_at is not None and collected is not None and collected > reservation.applied_at


class Ledger:
    """The capacity that is reserved on the clusters of a fleet while a batch of bindings is scheduled. It is
    mutable."""

    __slots__ = ("_amounts", "_by_terms", "_fleet", "_free", "_log", "_pods", "_quotas", "_reports")

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._pods: Counts = np.zeros(fleet.size, dtype=np.int64)
        self._amounts: dict[str, Counts] = {}
        self._by_terms: dict[NodeTerms, dict[str, Counts]] = {}  # the part of it that only fits on some nodes
        self._log: list[Places] = []
        self._free: dict[Asked, tuple[int, Counts]] = {}
        self._reports: dict[Asked, _Reported] = {}
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
        few = list(zip(places.tolist(), replicas.tolist(), strict=True)) if len(places) <= FEW else []
        self._quotas.reserve(places, replicas, asked)
        self._pods = _added(self._pods, places, replicas, few, pods)
        for name, amount in amounts:
            taken = self._amounts.get(name)
            if taken is None:
                taken = np.zeros(self._fleet.size, dtype=np.int64)
            self._amounts[name] = _added(taken, places, replicas, few, amount)
        self._reserve_on_nodes(places, replicas, few, asked)
        self._log.append(places)

    @property
    def changes(self) -> int:
        """The number of reservations and returns so far. While it stays, so does all free capacity."""
        return len(self._log)

    def _reserve_on_nodes(self, places: Places, replicas: Counts, few: Sequence[tuple[int, int]], asked: Asked) -> None:
        """Note on which nodes capacity is reserved, so that it displaces nothing on other nodes [node-estimate]."""
        for count, request in asked.parts if isinstance(asked, Bundle) else ((1, asked),):
            if isinstance(request.nodes, NodeTerms):
                amounts = self._by_terms.setdefault(request.nodes, {})
                for name, amount in ((_PODS, 1), *request.amounts):
                    taken = amounts.get(name)
                    if taken is None:
                        taken = np.zeros(self._fleet.size, dtype=np.int64)
                    amounts[name] = _added(taken, places, replicas, few, amount * count)

    def _elsewhere(self, name: str, asked: Asked) -> list[tuple[Mask, Counts]]:
        """Return what is reserved of a resource on nodes that `asked` does not use: on which clusters, and how much."""
        if isinstance(asked, Bundle) or not isinstance(asked.nodes, NodeTerms):
            return []
        nodes, apart = asked.nodes, self._fleet.nodes.apart
        others = ((terms, amounts[name]) for terms, amounts in self._by_terms.items() if name in amounts)
        return [(apart(terms, nodes), taken) for terms, taken in others if terms != nodes]

    def _taken(self, total: Counts, name: str, asked: Asked, places: Places) -> Counts:
        """Return what is reserved of a resource on clusters, without reservations on nodes that `asked` does not use.

        `total`: what is reserved of it in all.
        """
        taken: Counts = total[places]
        for apart, amounts in self._elsewhere(name, asked):
            taken = taken - np.where(apart[places], amounts[places], 0)
        return taken

    def capacity_guards(self, places: Places, asked: Asked, *, seen: int) -> tuple[CapacityGuard, ...]:
        """Return the guards of a decision that has just reserved capacity on these clusters: how much is left there.

        The decision is dropped if other reservations take more than that meanwhile. A cluster that is overcommitted
        already gets no guard, because the decision did not depend on its free capacity. `seen`: the number of the
        newest reservation that the ledger contains.
        """
        reported = self._reported_of(without_quota(asked))
        taken = self._taken_of(reported, asked)
        found = []
        for place in places.tolist():
            left = [(_PODS, reported.slots[place] - self._pods.item(place))] if reported.pods else []
            for name, amount, fits, total, elsewhere in taken:
                left.append((name, fits[place] * amount - _taken_at(place, total, elsewhere)))
            if all(amount >= 0 for _, amount in left):
                found.append(CapacityGuard(self._fleet.names[place], seen, tuple(left)))
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
        found = self._all(asked) if known is None else self._renewed(asked, known[1], self._log[known[0] :])
        self._free[asked] = (moment, found)
        return found

    def _all(self, asked: Asked) -> Counts:
        if not self._log:
            return self._reported(asked)
        size = self._fleet.size
        if size <= FEW:
            return np.array(self._left_on_few(asked, range(size)), dtype=np.int64)
        return self._left(asked, np.arange(size))

    def _renewed(self, asked: Asked, before: Counts, changed: Sequence[Places]) -> Counts:
        """Return what fits now. `before`: what did before the last reservations. `changed`: the clusters of these."""
        count = sum(map(len, changed))
        if self._fleet.size <= FEW or (count > FEW and count * 4 > self._fleet.size):
            return self._all(asked)
        found = before.copy()
        if count <= FEW:
            few = [place for places in changed for place in places.tolist()]
            found[few] = self._left_on_few(asked, few)
        else:
            places = np.concatenate(changed)
            found[places] = self._left(asked, places)
        return found

    def _reported(self, asked: Asked) -> Counts:
        return self._fleet.bundles(asked) if isinstance(asked, Bundle) else self._fleet.replicas(asked)

    def _left_on_few(self, asked: Asked, places: Sequence[int]) -> list[int]:
        """Return how many more replicas fit on each of a few clusters, as `_left` does for many."""
        reported, slots_taken = self._reported_of(asked), self._pods
        taken, slots_elsewhere = self._taken_of(reported, asked), self._elsewhere(_PODS, asked)
        on_nodes, needed = isinstance(asked, Request) and isinstance(asked.nodes, NodeTerms), max(reported.pods, 1)
        found = []
        for place in places:
            most = reported.most[place]
            left = min(most, (reported.slots[place] - slots_taken.item(place)) // needed)
            if on_nodes:
                left = min(left, most - _taken_at(place, slots_taken, slots_elsewhere))
            for _, amount, fits, total, elsewhere in taken:
                left = min(left, fits[place] + -_taken_at(place, total, elsewhere) // amount)
            found.append(max(left, 0))
        return found

    def _reported_of(self, asked: Asked) -> _Reported:
        """Return what reports say about a request. It must be one without a quota."""
        if (known := self._reports.get(asked)) is None:
            pods, amounts = (asked.pods, asked.total.amounts) if isinstance(asked, Bundle) else (1, asked.amounts)
            fitting = self._fleet.by_resource(asked)
            known = self._reports[asked] = _Reported(
                self._reported(asked).tolist(),
                self._fleet.capacity.pods.tolist(),
                pods,
                [(name, amount, fitting[name].tolist()) for name, amount in amounts],
            )
        return known

    def _taken_of(
        self, reported: _Reported, asked: Asked
    ) -> list[tuple[str, int, list[int], Counts, Sequence[tuple[Mask, Counts]]]]:
        """Return the resources of a request of which something is reserved, each with what is reserved in all, and on
        nodes that the request does not use."""
        amounts = self._amounts
        return [
            (name, amount, fits, amounts[name], self._elsewhere(name, asked))
            for name, amount, fits in reported.resources
            if name in amounts
        ]

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
        return found.astype(np.int64) if found.dtype == object else found
