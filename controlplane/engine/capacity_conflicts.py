"""Whether promises that were decided on one reading of the ledger still fit beside what others promised meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from controlplane.engine.decision import CapacityGuard
from controlplane.estimate.request import Bundle, decoded
from controlplane.kinds.rows import Promise, Row


class NewReservation(NamedTuple):
    """A promise that another controller stored: on which cluster, its number, and what it asks for."""

    cluster: str
    number: int
    replicas: int
    request: str


class ReservationNumbers:
    """The numbers of promises, in the order they are stored. For a store in memory; a database numbers its rows."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, Promise]] = {}
        self._last = 0

    @property
    def newest(self) -> int:
        """Return the highest number of a promise that is there; 0: there is none."""
        return max((number for number, _ in self._known.values()), default=0)

    def stored(self, row: Promise, *, by: str) -> Promise:
        """Number a promise that is being stored, where what ledgers count of it has changed, and return it with its
        writer."""
        number, old = self._known.get(row.key, (0, None))
        if any(getattr(row, name) != getattr(old, name, None) for name in row.NUMBERED):
            self._last += 1
            number = self._last
        noted = replace(row, writer=by)
        self._known[row.key] = (number, noted)
        return noted

    def dropped(self, row: Row) -> None:
        """Forget a value; nothing happens where it is no promise."""
        if row.NUMBERED:
            self._known.pop(row.key, None)

    def since(self, rooms: Iterable[CapacityGuard], *, by: str) -> list[NewReservation]:
        """Return the promises that other controllers have stored since a ledger was read."""
        seen = min(room.seen for room in rooms)
        return [
            NewReservation(row.cluster, number, row.replicas, row.request)
            for number, row in self._known.values()
            if number > seen and row.writer != by
        ]


def overcommitted_cluster(rooms: Iterable[CapacityGuard], others: Sequence[NewReservation]) -> str:
    """Return the first cluster where others promised more since the ledger was read than a decision can spare; "" if
    there is none."""
    for room in rooms if others else ():
        used: Counter[str] = Counter()
        for one in others:
            if one.cluster == room.cluster and one.number > room.seen:
                asked = decoded(one.request)
                pods, amounts = (asked.pods, asked.total.amounts) if isinstance(asked, Bundle) else (1, asked.amounts)
                used[""] += pods * one.replicas
                for name, amount in amounts:
                    used[name] += amount * one.replicas
        if any(used[name] > spare for name, spare in room.spare):
            return room.cluster
    return ""
