"""Conflicts over capacity: does a decision's reservation still fit beside reservations that were made meanwhile?

Several controllers reserve capacity on clusters, each on its own reading of the ledger. A reservation that another
controller stored after that reading may have taken the capacity that a decision counts on. The store numbers
reservations in the order in which they are stored, and checks the `CapacityGuard`s of a decision against those with
higher numbers than the controller had read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from controlplane.engine.decision import CapacityGuard
from controlplane.estimate.request import Bundle, decoded
from controlplane.kinds.rows import CapacityReservation, Row


class NewReservation(NamedTuple):
    """A reservation that another controller stored: its cluster, its number, and the request of each replica."""

    cluster: str
    number: int
    replicas: int
    request: str  # JSON, see `estimate.request`


class ReservationNumbers:
    """Numbers reservations in the order they are stored, for a store in memory. A database numbers its rows itself."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, CapacityReservation]] = {}
        self._last = 0

    @property
    def newest(self) -> int:
        """Return the highest number of a stored reservation; 0: there are none."""
        return max((number for number, _ in self._known.values()), default=0)

    def stored(self, row: CapacityReservation, *, by: str) -> CapacityReservation:
        """Number a reservation that is being stored, and return it with the name of its writer.

        It gets a new number only if a field that ledgers count (`Row.NUMBERED`) has changed.
        """
        number, old = self._known.get(row.key, (0, None))
        if any(getattr(row, name) != getattr(old, name, None) for name in row.NUMBERED):
            self._last += 1
            number = self._last
        noted = replace(row, writer=by)
        self._known[row.key] = (number, noted)
        return noted

    def dropped(self, row: Row) -> None:
        """Forget the number of a removed value. Values that are not numbered are ignored."""
        if row.NUMBERED:
            self._known.pop(row.key, None)

    def since(self, guards: Iterable[CapacityGuard], *, by: str) -> list[NewReservation]:
        """Return the reservations that controllers other than `by` stored after the oldest reading of the guards."""
        seen = min(guard.seen for guard in guards)
        return [
            NewReservation(row.cluster, number, row.replicas, row.request)
            for number, row in self._known.values()
            if number > seen and row.writer != by
        ]


def overcommitted_cluster(guards: Iterable[CapacityGuard], others: Sequence[NewReservation]) -> str:
    """Return the first cluster where other controllers reserved more than a decision can spare; "" if there is none.

    Example: a decision read the ledger up to number 7 and can spare 2000 thousandths of a CPU on member1. Number 8
    reserves 3 replicas of 1000 there: member1 is overcommitted and the decision is lost.
    """
    for guard in guards if others else ():
        used: Counter[str] = Counter()
        for reservation in others:
            if reservation.cluster == guard.cluster and reservation.number > guard.seen:
                request = decoded(reservation.request)
                if isinstance(request, Bundle):
                    pods, amounts = request.pods, request.total.amounts
                else:
                    pods, amounts = 1, request.amounts
                used[""] += pods * reservation.replicas
                for name, amount in amounts:
                    used[name] += amount * reservation.replicas
        if any(used[name] > spare for name, spare in guard.spare):
            return guard.cluster
    return ""
