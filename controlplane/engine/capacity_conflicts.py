"""Conflicts over capacity: does a decision's reservation still fit beside reservations that were made meanwhile?

Several controllers reserve capacity on clusters, each on its own reading of the ledger. A reservation that another
controller stored after that reading may have taken the capacity that a decision counts on. The store numbers
reservations in the order in which they are stored, and checks the `CapacityGuard`s of a decision against those with
higher numbers than the controller had read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import takewhile
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


class NewReservations:
    """What other controllers have reserved, summed up once for each cluster and reading of the ledger.

    The sums make a check of n guards against m reservations cost n + m, and not n × m, while the write lock is held.
    """

    def __init__(self, rows: Iterable[NewReservation] = ()) -> None:
        self._rows: dict[str, list[NewReservation]] = {}
        self._used: dict[tuple[str, int], Counter[str]] = {}
        for row in rows:
            self._rows.setdefault(row.cluster, []).append(row)

    def __bool__(self) -> bool:
        return bool(self._rows)

    def used(self, cluster: str, *, after: int) -> Counter[str]:
        """Return by resource what reservations with higher numbers than `after` take on a cluster; "": pods."""
        known = self._used.get((cluster, after))
        if known is None:
            known = self._used[cluster, after] = _sums(row for row in self._rows.get(cluster, ()) if row.number > after)
        return known


def _sums(rows: Iterable[NewReservation]) -> Counter[str]:
    used: Counter[str] = Counter()
    for row in rows:
        request = decoded(row.request)
        if isinstance(request, Bundle):
            pods, amounts = request.pods, request.total.amounts
        else:
            pods, amounts = 1, request.amounts
        used[""] += pods * row.replicas
        for name, amount in amounts:
            used[name] += amount * row.replicas
    return used


NOTHING_RESERVED = NewReservations()


class ReservationNumbers:
    """Numbers reservations in the order they are stored, for a store in memory. A database numbers its rows itself."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, CapacityReservation]] = {}  # in the order of the numbers
        self._last = 0

    @property
    def newest(self) -> int:
        """Return the highest number of a stored reservation; 0: there are none."""
        return next((number for number, _ in reversed(self._known.values())), 0)

    def stored(self, row: CapacityReservation, *, by: str) -> CapacityReservation:
        """Number a reservation that is being stored, and return it with the name of its writer.

        It gets a new number only if a field that ledgers count (`Row.NUMBERED`) has changed.
        """
        number, old = self._known.get(row.key, (0, None))
        if any(getattr(row, name) != getattr(old, name, None) for name in row.NUMBERED):
            self._last += 1
            number = self._last
            self._known.pop(row.key, None)
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
        newer = takewhile(lambda known: known[0] > seen, reversed(self._known.values()))
        return [
            NewReservation(row.cluster, number, row.replicas, row.request) for number, row in newer if row.writer != by
        ]


def overcommitted_cluster(guards: Iterable[CapacityGuard], others: NewReservations) -> str:
    """Return the first cluster where other controllers reserved more than a decision can spare; "" if there is none.

    Example: a decision read the ledger up to number 7 and can spare 2000 thousandths of a CPU on member1. Number 8
    reserves 3 replicas of 1000 there: member1 is overcommitted and the decision is lost.
    """
    for guard in guards if others else ():
        used = others.used(guard.cluster, after=guard.seen)
        if any(used[name] > spare for name, spare in guard.spare):
            return guard.cluster
    return ""
