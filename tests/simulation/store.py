"""The store of the simulator: a MemoryStore whose writes are where other workers, death and sleep come in between."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from controlplane.apimachinery.meta import Object, Ref
from controlplane.engine.decision import Decision, Drop, Put, Save
from controlplane.engine.memory import MemoryStore
from controlplane.engine.state import Actor, Claim, Complete, HeldLease, Outcome, Unstorable
from controlplane.kinds.rows import Row

if TYPE_CHECKING:
    from tests.simulation.world import Simulation


REFUSED = "the store refuses this value"


class Killed(Exception):
    """The worker ended here (kill -9): nothing after this line of it happens."""


class Kept(NamedTuple):
    """All a database holds at one moment."""

    version: int
    parts: dict[str, Any]
    logged: int


class Store(MemoryStore):
    """A store of one simulation."""

    def __init__(self, world: Simulation) -> None:
        super().__init__(controllers=world.controllers)
        self.world = world
        self.kept: defaultdict[type[Row], int] = defaultdict(int)  # how often rows of a type were kept or dropped
        self.kept_in_all = 0
        self.lost = 0  # how often commits were lost
        self.withheld: str = ""  # name of the controller whose next write sleeps too long
        self.refused: set[Ref] = set()  # objects that it does not store for now
        self.working = 0  # how many workers are at it, who may die or sleep at what they write
        self._first: dict[str, datetime] = {}  # when something is due first, by controller

    # Reading, for the clock

    def due_now(self) -> set[str]:
        """Return the controllers something is due for."""
        now = self.now()
        for name in self.due_changed:
            self._first.pop(name, None)
            if rows := self.due.get(name):
                self._first[name] = min([row.due_at for row in rows.values()])
        self.due_changed.clear()
        return {name for name, first in self._first.items() if first <= now}

    def now(self) -> datetime:
        return self.world.now

    def moments(self) -> list[datetime]:
        """Return when due rows fall due or their claims run out, and when leases do."""
        found = [lease.until for lease in self._leases.values()]
        for rows in self.due.values():
            found += [
                row.due_at if row.lease_until is None else max(row.due_at, row.lease_until) for row in rows.values()
            ]
        return found

    def busy(self, ref: Ref) -> bool:
        """Test whether any controller still has to look at an object."""
        now = self.now()
        return any(ref in rows and rows[ref].due_at <= now for rows in self.due.values())

    # Writing

    def apply(
        self,
        decisions: Sequence[tuple[Claim | None, Decision]],
        *,
        by: Actor,
        lease: HeldLease | None = None,
        dry_run: bool = False,
        complete: Complete | None = None,
    ) -> Sequence[Outcome]:
        if not by.controller or not self.working:
            return super().apply(decisions, by=by, lease=lease, dry_run=dry_run, complete=complete)
        self.world.between()
        if self.withheld == by.name:
            self.withheld = ""
            self.world.oversleep(lambda: MemoryStore.apply(self, decisions, by=by, lease=lease, complete=complete))
        how: dict[str, Any] = {"by": by, "lease": lease, "dry_run": dry_run, "complete": complete}
        stored = self._stored_before_a_refusal([decision for _, decision in decisions])
        outcomes = super().apply(decisions[:stored], **how)
        self.world.may_die("after a write")
        if stored is not None:
            raise Unstorable(REFUSED, outcomes)
        return outcomes

    def _stored_before_a_refusal(self, decisions: Sequence[Decision]) -> int | None:
        """Return how many decisions of a batch are stored before the transaction that fails; None: none fails."""
        for number, decision in enumerate(decisions) if self.refused else ():
            if any(isinstance(change, Put) and change.new.ref in self.refused for change in decision.changes):
                return self.world.chance.randint(0, number)
        return None

    def _write_row(self, change: Save | Drop, by: Actor, own: Ref | None) -> None:
        self.kept[type(change.row)] += 1
        self.kept_in_all += 1
        super()._write_row(change, by, own)

    # Losing

    def keep(self) -> Kept:
        """Return all there is, to be put back later."""
        parts = {
            "objects": dict(self.objects),
            "due": {name: dict(rows) for name, rows in self.due.items()},
            "_index": {key: set(refs) for key, refs in self._index.items()},
            "_entries": dict(self._entries),
            "_listed": {},
            "_of_kind": {kind: list(refs) for kind, refs in self._of_kind.items()},
            "_texts": dict(self._texts),
            "_rows": {type_: dict(rows) for type_, rows in self._rows.items()},
            "version": self.version,
            "_seq": self._seq,
        }
        return Kept(self.version, parts, len(self.log))

    def put_back(self, kept: Kept) -> None:
        """Make the store what it was; what was written since never happened. Leases and claims end with their holders:
        a database that was away for longer than they last."""
        for name, part in kept.parts.items():
            setattr(self, name, part)
        del self.log[kept.logged :]
        self.due = {
            name: {ref: replace(row, lease_until=None) for ref, row in rows.items()} for name, rows in self.due.items()
        }
        self._leases.clear()
        self.due_changed |= {*self.due, *self._first}
        self.lost += 1

    # For invariants

    def all_rows(self, type_: type[Row]) -> list[Any]:
        """Return all rows of a type."""
        return list(self._rows.get(type_, {}).values())

    def row(self, type_: type[Row], key: str) -> Any:
        """Return a row, None where there is none."""
        return self._rows.get(type_, {}).get(key)

    def written(self, *types: type[Row]) -> tuple[int, ...]:
        """Return what differs after any write of an object, or of a row of one of these types."""
        return self.lost, self.version, *[self.kept[type_] for type_ in types]

    def written_rows(self, type_: type[Row]) -> tuple[int, ...]:
        """Return what differs after any write of a row of this type, whatever is written of objects."""
        return self.lost, self.kept[type_]

    def stamp(self) -> tuple[Any, ...]:
        """Return what differs after any write at all."""
        return self.lost, self.version, self.kept_in_all, self._seq, len(self.log), len(self.objects)

    def object(self, ref: Ref) -> Object | None:
        """Return an object, None where there is none."""
        return self.objects.get(ref)
