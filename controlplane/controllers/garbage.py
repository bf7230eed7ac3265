"""Garbage: deletes expired Events, rows about deleted objects, and bindings whose template does not exist.

A young binding may be imported, and holds the placement for a template that is written later.

Rows are dropped when their object is deleted. Events and bindings are checked in rounds over all of them, page by page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from controlplane import kinds
from controlplane.apimachinery.meta import Object, Ref, Struct
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Delete, Drop, Put, Save, deleting
from controlplane.engine.state import State, Watch
from controlplane.kind import KINDS
from controlplane.kinds.event import Event
from controlplane.kinds.rows import (
    BindingReadiness,
    CapacityReservation,
    Collected,
    Eviction,
    MatchWindow,
    Observation,
    PlacementHint,
    PlacementNote,
    Row,
    Sweep,
    UnhealthyCopies,
)
from controlplane.propagation import bindings
from controlplane.settings import Settings

EVENT_LIFETIME = timedelta(hours=1)
AWAITS_TEMPLATE = timedelta(hours=1)  # `lifeboat import` writes bindings first, and thousands of objects take minutes
PAGE = 500  # objects of one kind checked at once
PAUSE = timedelta(minutes=5)  # between two rounds over a kind
STEP = timedelta(seconds=1)  # between two pages of a round

# Stands for a whole kind in a key. No object can have this name.
EVERYTHING = "*"
SWEPT = (kinds.EVENT, *kinds.BINDINGS)
_OF_BINDING: tuple[tuple[type[Row], str], ...] = (
    (Eviction, "binding"),
    (CapacityReservation, "binding"),
    (PlacementHint, "key"),
    (PlacementNote, "key"),
    (UnhealthyCopies, "key"),
    (BindingReadiness, "key"),
)
ROWS_OF: dict[str, tuple[tuple[type[Row], str], ...]] = {
    **dict.fromkeys(kinds.BINDINGS, _OF_BINDING),
    kinds.CLUSTER: (
        (Observation, "key"),
        (Collected, "key"),
        (Eviction, "cluster"),
        (CapacityReservation, "cluster"),
        (MatchWindow, "cluster"),
    ),
    kinds.CLUSTER_TAINT_POLICY: ((MatchWindow, "policy"),),
}


class GarbageSnapshot(Struct, frozen=True):
    """The rows about a deleted object, or a page of a kind that is checked in rounds.

    `alive`: the templates of the bindings of the page that exist.
    """

    ref: Ref
    rows: tuple[Row, ...] = ()
    page: tuple[Object, ...] = ()
    alive: frozenset[Ref] = frozenset()
    sweep: Sweep | None = None


def _object_gone(old: Object | None, new: Object | None) -> Iterator[Ref]:
    """An object is due when it was removed, or replaced by a new object of the same name."""
    if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
        yield old.ref


class Garbage(Controller):
    """Key: a deleted object, or a whole kind (name EVERYTHING) that is checked page by page."""

    name: ClassVar[str] = "garbage"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = (kinds.EVENT, *ROWS_OF)
    watches: ClassVar[tuple[Watch, ...]] = tuple(Watch(kind, _object_gone) for kind in ROWS_OF)
    owns: ClassVar[Ownership] = Ownership(
        {kinds.EVENT: ("delete",), **dict.fromkeys(kinds.BINDINGS, ("delete",))},
        rows=(
            UnhealthyCopies,
            Observation,
            Collected,
            Eviction,
            MatchWindow,
            PlacementHint,
            PlacementNote,
            CapacityReservation,
            BindingReadiness,
            Sweep,
        ),
    )
    batch: ClassVar[int] = 100
    # Each page makes the next one due. A database that was restored without due rows gets them when a process starts.
    due_at_start: ClassVar[tuple[Ref, ...]] = tuple(Ref(kind, "", EVERYTHING) for kind in SWEPT)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[GarbageSnapshot | None]:
        swept = [ref for ref in refs if ref.name == EVERYTHING]
        single = [ref for ref in refs if ref.name != EVERYTHING]
        pages = self._pages(state, swept) if swept else {}
        rows = self._rows(state, single) if single else {}
        return [pages[ref] if ref in pages else rows.get(ref) for ref in refs]

    def _pages(self, state: State, refs: Sequence[Ref]) -> dict[Ref, GarbageSnapshot]:
        """Return the next page of each kind that is checked in rounds. There are at most three of them."""
        sweeps = state.rows(Sweep, "key", [ref.kind for ref in refs])
        legible = state.legible()  # one that cannot be read stays, and keeps no other
        found = {}
        for ref in refs:
            sweep = next(iter(sweeps.get(ref.kind, ())), Sweep(key=ref.kind))
            page = legible.list(ref.kind, after=(sweep.after_namespace, sweep.after_name), limit=PAGE)
            alive: frozenset[Ref] = frozenset()
            if ref.kind in kinds.BINDINGS:
                alive = frozenset(state.get([bindings.template_ref(binding) for binding in page], unopened=True))
            found[ref] = GarbageSnapshot(ref, page=tuple(page), alive=alive, sweep=sweep)
        return found

    def _rows(self, state: State, refs: Sequence[Ref]) -> dict[Ref, GarbageSnapshot]:
        """Return the rows about each deleted object. Objects that exist, or exist again, are left out."""
        present = state.get(refs)
        gone = [ref for ref in refs if ref not in present]
        found: dict[Ref, list[Row]] = {ref: [] for ref in gone}
        for type_, index in dict.fromkeys(pair for pairs in ROWS_OF.values() for pair in pairs):
            about = {_name_in_rows(ref): ref for ref in gone if (type_, index) in ROWS_OF.get(ref.kind, ())}
            if about:
                for value, rows in state.rows(type_, index, list(about)).items():
                    found[about[value]] += rows
        return {ref: GarbageSnapshot(ref, rows=tuple(rows)) for ref, rows in found.items()}

    def decide(self, snapshot: GarbageSnapshot, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        sweep = snapshot.sweep
        if sweep is None:
            dropped = tuple(Drop(row) for row in snapshot.rows)
            return Decision(changes=dropped, reason="Gone") if dropped else NOTHING
        changes: list[Put | Delete | Save | Drop] = [
            deleting(obj, now=now) for obj in snapshot.page if _is_garbage(obj, snapshot.alive, now=now)
        ]
        full = len(snapshot.page) >= PAGE
        last = snapshot.page[-1].metadata if full else None
        cursor = ("", "") if last is None else (last.namespace, last.name)
        if cursor != (sweep.after_namespace, sweep.after_name):
            changes.append(Save(Sweep(key=sweep.key, after_namespace=cursor[0], after_name=cursor[1])))
        return Decision(changes=tuple(changes), wake_at=now + (STEP if full else PAUSE), reason="Expired")


def _name_in_rows(ref: Ref) -> str:
    """Return the text by which rows name an object: the reference of a binding, the name of a cluster or policy."""
    return str(ref) if ref.kind in kinds.BINDINGS else ref.name


def _is_garbage(obj: Object, alive: frozenset[Ref], *, now: datetime) -> bool:
    """Test whether an Event has expired, or a binding has been without its template for too long."""
    if isinstance(obj, Event):
        seen = obj.last_timestamp or obj.event_time or obj.metadata.creation_timestamp
        return seen is not None and now - seen >= EVENT_LIFETIME
    if not hasattr(obj, "clusters_kept") or obj.metadata.deletion_timestamp is not None:
        return False
    born = obj.metadata.creation_timestamp
    if born is not None and now - born < AWAITS_TEMPLATE:
        return False
    template = bindings.template_ref(obj)  # type: ignore[arg-type]  # the other kinds that are checked are bindings
    return template.kind in KINDS and template not in alive
