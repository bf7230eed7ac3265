"""A batch of decisions, settled in memory against what is stored: which lines it writes and who has to look at them.

Nothing here touches the database. It is done once before the write lock is taken, on the assumption that nobody wrote
meanwhile, and again under the lock only where that turned out wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from math import ceil
from typing import NamedTuple

from msgspec.structs import replace

from apps.objects.encryption import sealed
from controlplane.apimachinery.meta import Object, Ref
from controlplane.engine.capacity_conflicts import NewReservation, overcommitted_cluster
from controlplane.engine.decision import CapacityGuard, Decision, Delete, Drop, Put, Save
from controlplane.engine.events import counted, event_ref
from controlplane.engine.merge import Lost, Remove, Same, Write, check_generation, merge_change
from controlplane.engine.routing import Router
from controlplane.engine.state import Actor, Claim, Mark
from controlplane.kind import Encoded, encode
from controlplane.kinds.event import Event

MAX_OBJECTS = 600  # in one transaction
SLACK = 5  # objects by which parts may differ: a decision is never cut
ROWS_PER_OBJECT = 4  # row-native values that cost as much as one object with its line in the log
_STAGED = "staged"  # stands for the version an object gets in this very batch


class Line(NamedTuple):
    """One change to be written: a row of an object table and of the log."""

    ref: Ref
    old: Object | None  # None: it is created
    new: Object  # of a removed object: what it was last
    removed: bool = False
    merged: bool = False
    reason: str = ""
    cause: int = 0
    own: Ref | None = None  # the key that was being decided


class Verdict(NamedTuple):
    """What becomes of one decision. `results`: per change the index of its line, or what is stored unchanged."""

    lost: str = ""
    results: tuple[int | Object | None, ...] = ()


class Settled(NamedTuple):
    """What becomes of a batch."""

    verdicts: list[Verdict]
    lines: list[Line]
    kept: list[Save | Drop]
    marks: set[Mark]


def refs_of(decision: Decision) -> list[Ref | None]:
    """Return what each change of a decision writes; None for row-native values."""
    found: list[Ref | None] = []
    for change in decision.changes:
        if isinstance(change, Put):
            found.append(change.new.ref)
        else:
            found.append(change.old.ref if isinstance(change, Delete) else None)
    return found


class Item(NamedTuple):
    """One decision of a batch. `refs`: what each change writes; `told`: what each event is kept as. Made once, for
    everything below asks."""

    claim: Claim | None
    decision: Decision
    refs: list[Ref | None]
    told: list[Ref]


def batches(decisions: Sequence[tuple[Claim | None, Decision]], *, by: Actor) -> Iterator[list[Item]]:
    """Yield the decisions in order, in parts that fit a transaction and never touch again what they wrote.

    Parts are of about the same size: while one is written the next is packed, and neither waits long for the other.
    """
    items = [
        Item(claim, decision, refs_of(decision), [event_ref(event, by=by.name) for event in decision.events])
        for claim, decision in decisions
    ]
    weights = [_weight(item) for item in items]
    fits = _even(sum(weights))
    part: list[Item] = []
    size, seen = 0.0, set[Ref | None]()
    for item, weight in zip(items, weights, strict=True):
        again = not seen.isdisjoint(item.refs) or any(guard.ref in seen for guard in item.decision.guards)
        if part and (size + weight > fits or again):
            yield part
            part, size, seen = [], 0.0, set()
        part.append(item)
        size += weight
        seen.update(item.refs)
        seen.discard(None)
    if part:
        yield part


def _weight(item: Item) -> float:
    """Return what an item costs, in objects with their lines in the log."""
    rows = item.refs.count(None)
    return len(item.refs) - rows + len(item.told) + rows / ROWS_PER_OBJECT


def _even(weight: float) -> float:
    """Return how much goes into each of as few parts as it takes."""
    parts = max(1, ceil(weight / MAX_OBJECTS))
    return min(MAX_OBJECTS, weight / parts + SLACK)


class Batch:
    """Decisions that are written in one transaction. No object is written by two of them."""

    def __init__(self, items: Sequence[Item], *, router: Router, by: Actor) -> None:
        self.items = items
        self.router = router
        self.by = by
        self._encoded: dict[int, tuple[Object, Encoded]] = {}
        for item in items:
            for change in item.decision.changes:
                if by.controller:
                    router.check(by.name, change)
                if isinstance(change, Put):
                    check_generation(change)

    def expected(self) -> dict[Ref, Object | None]:
        """Return what the Puts assume to be stored."""
        found: dict[Ref, Object | None] = {}
        for item in self.items:
            for ref, change in zip(item.refs, item.decision.changes, strict=True):
                if isinstance(change, Put) and ref is not None:
                    found.setdefault(ref, change.old)
        return found

    def unknown(self) -> set[Ref]:
        """Return what has to be read first: Events are counted up, a Delete names what it wants and not what it saw."""
        found = {ref for item in self.items for ref in item.told}
        for item in self.items:
            for ref, change in zip(item.refs, item.decision.changes, strict=True):
                if isinstance(change, Delete) and ref is not None:
                    found.add(ref)
        return found

    def created(self) -> set[Ref]:
        """Return what the batch takes to be new: objects it creates, and Events."""
        found = {ref for item in self.items for ref in item.told}
        for item in self.items:
            for ref, change in zip(item.refs, item.decision.changes, strict=True):
                if isinstance(change, Put) and change.old is None and ref is not None:
                    found.add(ref)
        return found

    def guards(self) -> set[Ref]:
        """Return what the decisions only read and rely upon."""
        return {guard.ref for item in self.items for guard in item.decision.guards}

    def rooms(self) -> list[CapacityGuard]:
        """Return the room that the decisions rely upon."""
        return [room for item in self.items for room in item.decision.capacity_guards]

    def holds(self, generations: Mapping[Ref, int | None], promised: Sequence[NewReservation] = ()) -> bool:
        """Return whether every guard is met. `promised`: what other controllers promised since the ledger was read."""
        met = all(generations[guard.ref] == guard.generation for item in self.items for guard in item.decision.guards)
        return met and not overcommitted_cluster(self.rooms() if promised else (), promised)

    def encoded(self, obj: Object) -> Encoded:
        """Return the object's text, made once."""
        found = self._encoded.get(id(obj))
        if found is None:
            found = self._encoded[id(obj)] = (obj, encode(sealed(obj)))
        return found[1]

    def settle(
        self,
        stored: Mapping[Ref, Object | None],
        generations: Mapping[Ref, int | None],
        promised: Sequence[NewReservation] = (),
        *,
        now: datetime,
    ) -> Settled:
        """Return what the batch writes, given what is stored under every reference it names.

        `generations` of guarded objects; one of them missing counts as meeting its guard. `promised`: what other
        controllers promised since the ledger was read.
        """
        settled = Settled([], [], [], set())
        told: dict[Ref, int] = {}
        for item in self.items:
            decision = item.decision
            wrong = next((g for g in decision.guards if generations.get(g.ref, g.generation) != g.generation), None)
            if wrong:
                verdict = Verdict(f"guard {wrong.ref}")
            elif full := overcommitted_cluster(decision.capacity_guards, promised):
                verdict = Verdict(f"room on cluster {full}")
            else:
                verdict = self._settle_one(item, stored, settled)
            settled.verdicts.append(verdict)
            if item.told and not verdict.lost:
                self._tell(item, stored, settled.lines, told, now=now)
        for line in settled.lines:
            new = None if line.removed else line.new
            settled.marks.update(self.router.marks(line.old, new, by=self.by, own=line.own, merged=line.merged))
        return settled

    def _settle_one(self, item: Item, stored: Mapping[Ref, Object | None], settled: Settled) -> Verdict:
        claim, decision, refs, _ = item
        staged: dict[Ref, Write | Remove] = {}
        results: list[Ref | Object | None] = []
        for ref, change in zip(refs, decision.changes, strict=True):
            if ref is None or isinstance(change, Save | Drop):
                results.append(None)
                continue
            result = merge_change(change, _after(staged[ref]) if ref in staged else stored.get(ref))
            if isinstance(result, Lost):
                return Verdict(f"{result.why} {ref}")
            if isinstance(result, Same):
                results.append(ref if ref in staged else result.current)
                continue
            merged = isinstance(result, Write) and result.merged
            if ref in staged and isinstance(result, Write) and merged:
                before = staged[ref]
                result = Write(result.new, isinstance(before, Write) and before.merged)
            staged[ref] = result
            results.append(ref)
        own = claim.ref if claim is not None else None
        places: dict[Ref, int] = {}
        for ref, result in staged.items():
            line = _line(ref, stored.get(ref), result, decision, own)
            if line is not None:
                places[ref] = len(settled.lines)
                settled.lines.append(line)
        for change in decision.changes:
            if isinstance(change, Save | Drop):
                settled.kept.append(self._stamped(change))
                settled.marks.update(self.router.row_marks(change, by=self.by, own=own))
        return Verdict("", tuple(places.get(one) if isinstance(one, Ref) else one for one in results))

    def _stamped(self, change: Save | Drop) -> Save | Drop:
        """Return the change with its writer noted, where the type asks for that."""
        noted = isinstance(change, Save) and change.row.NUMBERED
        return Save(replace(change.row, writer=self.by.name)) if noted else change

    def _tell(
        self,
        item: Item,
        stored: Mapping[Ref, Object | None],
        lines: list[Line],
        told: dict[Ref, int],
        *,
        now: datetime,
    ) -> None:
        """Add the decision's events; one that was told before in this batch is counted up where it stands."""
        for ref, event in zip(item.told, item.decision.events, strict=True):
            if ref in told:
                line = lines[told[ref]]
                assert isinstance(line.new, Event)
                lines[told[ref]] = line._replace(new=replace(line.new, count=line.new.count + 1))
                continue
            told[ref] = len(lines)
            new = counted(event, ref=ref, by=self.by.name, now=now, old=stored.get(ref))
            lines.append(Line(ref, stored.get(ref), new, reason=event.reason))


def _after(result: Write | Remove) -> Object | None:
    """Return what a later change of the same decision finds."""
    return result.new.with_meta(resource_version=_STAGED) if isinstance(result, Write) else None


def _line(ref: Ref, old: Object | None, result: Write | Remove, decision: Decision, own: Ref | None) -> Line | None:
    """Return the line of what one decision does to an object; None where it comes and goes at once."""
    if isinstance(result, Write):
        return Line(ref, old, result.new, False, result.merged, decision.reason, decision.cause, own)
    return None if old is None else Line(ref, old, result.old, True, False, decision.reason, decision.cause, own)
