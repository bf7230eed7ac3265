"""Batches: decisions that are written together, and the computation of the rows that they write.

Nothing here touches the database. `apply` settles a batch before it takes the write lock, assuming that the objects are
still as the decisions expect them. It settles the batch again under the lock only if an object has changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from math import ceil
from typing import NamedTuple

from msgspec.structs import replace

from apps.objects.encryption import sealed
from apps.objects.outbox import outgoing
from controlplane.apimachinery.meta import Object, Ref
from controlplane.engine.capacity_conflicts import NOTHING_RESERVED, NewReservations, overcommitted_cluster
from controlplane.engine.decision import (
    ROW_CHANGES,
    CapacityGuard,
    Decision,
    Delete,
    Drop,
    Followed,
    Guard,
    Put,
    QuotaGuard,
    Save,
    author,
)
from controlplane.engine.events import counted, event_ref
from controlplane.engine.merge import Remove, Write, check_generation, stage
from controlplane.engine.quota_conflicts import QuotaUse
from controlplane.engine.routing import Router, next_looks
from controlplane.engine.state import Actor, Claim, Mark
from controlplane.kind import Encoded, encode
from controlplane.kinds.event import Event

MAX_OBJECTS = 400  # in one transaction: all other writers wait while it holds the write lock
BYTES_PER_OBJECT = 4096  # of a document; a larger one costs as much as several objects
SLACK = 5  # objects by which the sizes of batches may differ: a decision is never split
ROWS_PER_OBJECT = 3  # row-native values that cost as much as one object with its line in the change log


class Line(NamedTuple):
    """A change of one object to be written: a row of its table and a line of the change log."""

    ref: Ref
    old: Object | None  # None: the object is created
    new: Object  # of a removed object: its last state
    removed: bool = False
    merged: bool = False  # the object had changed since the decision was made; both changes are in `new`
    reason: str = ""
    cause: int = 0  # version of the change that the decision acted upon; 0: unknown
    own: Ref | None = None  # key of the claim whose decision this is; None: the decision has no claim
    actor: str = ""  # who is logged as the writer; "": the writer of the batch
    followed: tuple[Followed, ...] = ()  # decisions of other controllers that the line is a part of


class Verdict(NamedTuple):
    """The result of one decision. `lost`: why it is dropped; "": it is written.

    `results` has an item for each change: the index of its line, or the stored object if nothing changes.
    """

    lost: str = ""
    results: tuple[int | Object | None, ...] = ()


class Settled(NamedTuple):
    """The results of a batch, and the rows that it writes."""

    verdicts: list[Verdict]
    lines: list[Line]
    row_changes: list[Save | Drop]
    marks: set[Mark]


def refs_of(decision: Decision) -> list[Ref | None]:
    """Return the reference of the object that each change of a decision writes; None for a row-native value."""
    refs: list[Ref | None] = []
    for change in decision.changes:
        if isinstance(change, Put):
            refs.append(change.new.ref)
        else:
            refs.append(change.old.ref if isinstance(change, Delete) else None)
    return refs


class Item(NamedTuple):
    """A decision of a batch, with the references of the objects and of the Events that it writes."""

    claim: Claim | None  # None: no controller claimed the decision's object
    decision: Decision
    refs: list[Ref | None]  # of each change, see `refs_of`
    event_refs: list[Ref]  # of each event


class Texts:
    """The JSON of objects, encrypted where their kind asks for that. Each object is encoded once."""

    def __init__(self) -> None:
        self._texts: dict[int, tuple[Object, Encoded]] = {}

    def of(self, obj: Object) -> Encoded:
        """Return the JSON of an object."""
        pair = self._texts.get(id(obj))
        if pair is None:  # the object is kept beside its text: so its id cannot become that of another object
            pair = self._texts[id(obj)] = (obj, encode(sealed(obj)))
        return pair[1]


def items_of(decisions: Sequence[tuple[Claim | None, Decision]], *, by: Actor) -> list[Item]:
    """Return decisions with what they write."""
    return [
        Item(
            claim, decision, refs_of(decision), [event_ref(event, by=event.by or by.name) for event in decision.events]
        )
        for claim, decision in decisions
    ]


def batches(items: Sequence[Item], *, texts: Texts | None = None) -> Iterator[list[Item]]:
    """Yield decisions in order, in batches that fit a transaction. No batch writes an object twice.

    Batches are of about the same size. While the database writes one, the next is packed, and neither waits for long.
    `texts`: counts documents by their size, and encodes those of a batch when it is asked for; None: each document
    counts as one object.
    """
    weights = [_weight(item) for item in items]
    limit = _size_of_parts(sum(weights))
    part: list[Item] = []
    size, surplus, written = 0.0, 0.0, set[Ref | None]()
    for item, weight in zip(items, weights, strict=True):
        size += weight
        own = 0.0 if texts is None else _surplus(item, texts)
        surplus += own
        guards = item.decision.guards
        overlaps = not written.isdisjoint(item.refs) or (guards and any(guard.ref in written for guard in guards))
        if part and (size > limit or size + surplus > MAX_OBJECTS or overlaps):
            yield part
            part, size, surplus, written = [], weight, own, set()
        part.append(item)
        written.update(item.refs)
        written.discard(None)
    if part:
        yield part


def _weight(item: Item) -> float:
    """Return the cost of an item, in objects with their lines in the change log."""
    rows = item.refs.count(None)
    return len(item.refs) - rows + len(item.event_refs) + rows / ROWS_PER_OBJECT


def _surplus(item: Item, texts: Texts) -> float:
    """Return what the large documents of an item cost more than one object each."""
    changes = zip(item.refs, item.decision.changes, strict=True)  # a row-native value has no reference
    documents = [texts.of(change.new) for ref, change in changes if ref is not None and isinstance(change, Put)]
    sizes = (len(document.head) + len(document.tail) for document in documents)
    return sum(size / BYTES_PER_OBJECT - 1 for size in sizes if size > BYTES_PER_OBJECT)


def _size_of_parts(weight: float) -> float:
    """Return the size of each part if a weight is split into as few parts as possible."""
    parts = max(1, ceil(weight / MAX_OBJECTS))
    return min(MAX_OBJECTS, weight / parts + SLACK)


def unknown(items: Sequence[Item]) -> set[Ref]:
    """Return the objects that decisions do not expect in a state: Events, which are counted up, and objects of Deletes.

    A Delete names the object that it wants to remove, and not the state in which the object was seen.
    """
    refs = {ref for item in items for ref in item.event_refs}
    for item in items:
        for ref, change in zip(item.refs, item.decision.changes, strict=True):
            if ref is not None and isinstance(change, Delete):
                refs.add(ref)
    return refs


class Batch:
    """Decisions that are written in one transaction. No two of them write the same object."""

    def __init__(self, items: Sequence[Item], *, router: Router, by: Actor, texts: Texts | None = None) -> None:
        self.items = items
        self.router = router
        self.by = by
        self.texts = Texts() if texts is None else texts
        for item in items:
            if by.controller:
                router.check(by.name, item.decision)
            for change in item.decision.changes:
                if isinstance(change, Put):
                    check_generation(change)

    def expected(self) -> dict[Ref, Object | None]:
        """Return the objects that the Puts expect to be stored; None: no object is expected."""
        objects: dict[Ref, Object | None] = {}
        for item in self.items:
            for ref, change in zip(item.refs, item.decision.changes, strict=True):
                if ref is not None and isinstance(change, Put):
                    objects.setdefault(ref, change.old)
        return objects

    def created(self) -> set[Ref]:
        """Return the objects that are expected not to be stored yet: those of creating Puts, and Events."""
        refs = {ref for item in self.items for ref in item.event_refs}
        for item in self.items:
            for ref, change in zip(item.refs, item.decision.changes, strict=True):
                if ref is not None and isinstance(change, Put) and change.old is None:
                    refs.add(ref)
        return refs

    def guards(self) -> set[Guard]:
        """Return the guards: on objects that must not have changed although the batch does not write them."""
        return {guard for item in self.items for guard in item.decision.guards}

    def capacity_guards(self) -> list[CapacityGuard]:
        """Return the capacity of clusters that the decisions rely upon."""
        return [guard for item in self.items for guard in item.decision.capacity_guards]

    def quota_guards(self) -> list[QuotaGuard]:
        """Return the room in quotas that the decisions rely upon."""
        return [guard for item in self.items for guard in item.decision.quota_guards]

    def holds(
        self,
        generations: Mapping[Ref, int | None],
        reserved: NewReservations = NOTHING_RESERVED,
        used: Mapping[str, Mapping[str, int]] | None = None,
    ) -> bool:
        """Return whether every guard is met.

        `reserved`: capacity that other controllers have reserved since the decisions' controller read the ledger.
        `used`: what the namespaces of quota guards use now.
        """
        met = all(generations[guard.ref] == guard.generation for item in self.items for guard in item.decision.guards)
        if not met or overcommitted_cluster(self.capacity_guards() if reserved else (), reserved):
            return False
        use = QuotaUse(used or {})
        for guard in self.quota_guards():
            if use.exceeded([guard]):
                return False
            use.take([guard])
        return True

    def settle(
        self,
        stored: Mapping[Ref, Object | None],
        generations: Mapping[Ref, int | None],
        reserved: NewReservations = NOTHING_RESERVED,
        used: Mapping[str, Mapping[str, int]] | None = None,
        *,
        now: datetime,
    ) -> Settled:
        """Return the rows that the batch writes, given the stored state of every object that it names.

        `generations` are those of guarded objects; a guard without a generation here counts as met. `reserved`:
        capacity that other controllers have reserved since the decisions' controller read the ledger. `used`: what the
        namespaces of quota guards use; None: it has not been read, and these guards count as met.
        """
        settled, use = Settled([], [], [], set()), None if used is None else QuotaUse(used)
        event_lines: dict[Ref, int] = {}
        for item in self.items:
            decision = item.decision
            broken = next((g for g in decision.guards if generations.get(g.ref, g.generation) != g.generation), None)
            if broken:
                verdict = Verdict(f"guard {broken.ref}")
            elif full := overcommitted_cluster(decision.capacity_guards, reserved):
                verdict = Verdict(f"room on cluster {full}")
            elif use is not None and (full := use.exceeded(decision.quota_guards)):
                verdict = Verdict(f"room in the quotas of {full}")
            else:
                verdict = self._settle_one(item, stored, settled)
                if use is not None and not verdict.lost:
                    use.take(decision.quota_guards)
            settled.verdicts.append(verdict)
            if item.event_refs and not verdict.lost:
                self._add_events(item, stored, settled.lines, event_lines, now=now)
        written = (
            item.decision for item, verdict in zip(self.items, settled.verdicts, strict=True) if not verdict.lost
        )
        settled.row_changes.extend(outgoing(written, now=now))
        for line in settled.lines:
            new = None if line.removed else line.new
            settled.marks.update(
                self.router.marks(line.old, new, by=self.by, own=line.own, merged=line.merged, followed=line.followed)
            )
        return settled

    def _settle_one(self, item: Item, stored: Mapping[Ref, Object | None], settled: Settled) -> Verdict:
        """Add the lines, row changes and marks of one decision to `settled`. A lost decision adds nothing."""
        claim, decision = item.claim, item.decision
        staged = stage(decision.changes, stored.get)
        if isinstance(staged, str):
            return Verdict(staged)
        own = claim.ref if claim is not None else None
        indexes: dict[Ref, int] = {}
        for ref, result in staged.objects.items():
            line = self._line(ref, stored.get(ref), result, decision, own)
            if line is not None:
                indexes[ref] = len(settled.lines)
                settled.lines.append(line)
        for change in decision.changes:
            if isinstance(change, ROW_CHANGES):
                settled.row_changes.append(self._with_writer(change))
                settled.marks.update(self.router.row_marks(change, by=self.by, own=own))
        settled.marks.update(next_looks(decision))
        return Verdict(
            "", tuple(indexes.get(result) if isinstance(result, Ref) else result for result in staged.results)
        )

    def _with_writer(self, change: Save | Drop) -> Save | Drop:
        """Return the change with the name of its writer in the value, if the type of the value keeps it."""
        keeps_writer = isinstance(change, Save) and change.row.NUMBERED
        return replace(change, row=replace(change.row, writer=self.by.name)) if keeps_writer else change

    def _add_events(
        self,
        item: Item,
        stored: Mapping[Ref, Object | None],
        lines: list[Line],
        event_lines: dict[Ref, int],
        *,
        now: datetime,
    ) -> None:
        """Add lines for the events of a decision. An Event that this batch already writes is counted up in its line.

        `event_lines`: the indexes of the Events' lines so far.
        """
        for ref, event in zip(item.event_refs, item.decision.events, strict=True):
            if ref in event_lines:
                line = lines[event_lines[ref]]
                assert isinstance(line.new, Event)
                lines[event_lines[ref]] = line._replace(new=replace(line.new, count=line.new.count + 1))
                continue
            event_lines[ref] = len(lines)
            new = counted(event, ref=ref, by=event.by or self.by.name, now=now, old=stored.get(ref))
            lines.append(Line(ref, stored.get(ref), new, reason=event.reason, actor=event.by))

    def _line(
        self, ref: Ref, old: Object | None, result: Write | Remove, decision: Decision, own: Ref | None
    ) -> Line | None:
        """Return the line for one object of a decision; None if the decision both creates and removes the object."""
        actor, reason = author(decision, ref, by=self.by.name)
        why = (reason, decision.cause, own, actor, decision.followed)
        if isinstance(result, Write):
            return Line(ref, old, result.new, False, result.merged, *why)
        return None if old is None else Line(ref, old, result.old, True, False, *why)
