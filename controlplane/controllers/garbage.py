"""Garbage: what nobody needs any more, and what should have gone with something that is gone."""

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
PAGE = 500  # objects of one kind looked at in one go
PAUSE = timedelta(minutes=5)  # between two rounds over a kind
STEP = timedelta(seconds=1)  # between two pages of a round

# Stands for a whole kind in a key; no object can be called so.
EVERYTHING = "*"
SWEPT = (kinds.EVENT, *kinds.BINDINGS)
_OF_BINDING: tuple[tuple[type[Row], str], ...] = (
    (Eviction, "binding"),
    (CapacityReservation, "binding"),
    (PlacementHint, "key"),
    (PlacementNote, "key"),
    (UnhealthyCopies, "key"),
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


class Rubbish(Struct, frozen=True):
    """One key with what may go: rows about a gone object, or a page of a kind with the templates of its bindings."""

    ref: Ref
    rows: tuple[Row, ...] = ()
    page: tuple[Object, ...] = ()
    alive: frozenset[Ref] = frozenset()
    sweep: Sweep | None = None


def _gone(old: Object | None, new: Object | None) -> Iterator[Ref]:
    if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
        yield old.ref


class Garbage(Controller):
    """Key: a gone object, or a whole kind (name "*") that is looked through page by page."""

    name: ClassVar[str] = "garbage"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = (kinds.EVENT, *ROWS_OF)
    watches: ClassVar[tuple[Watch, ...]] = tuple(Watch(kind, _gone) for kind in ROWS_OF)
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
            Sweep,
        ),
    )
    batch: ClassVar[int] = 100
    # The rounds keep themselves going; a process that begins picks up those of a database restored without due rows.
    due_at_start: ClassVar[tuple[Ref, ...]] = tuple(Ref(kind, "", EVERYTHING) for kind in SWEPT)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Rubbish | None]:
        swept = [ref for ref in refs if ref.name == EVERYTHING]
        single = [ref for ref in refs if ref.name != EVERYTHING]
        pages = self._pages(state, swept) if swept else {}
        rows = self._rows(state, single) if single else {}
        return [pages[ref] if ref in pages else rows.get(ref) for ref in refs]

    def _pages(self, state: State, refs: Sequence[Ref]) -> dict[Ref, Rubbish]:
        """Return the next page of each swept kind; there are three of them at most."""
        sweeps = state.rows(Sweep, "key", [ref.kind for ref in refs])
        found = {}
        for ref in refs:
            sweep = next(iter(sweeps.get(ref.kind, ())), Sweep(key=ref.kind))
            page = state.list(ref.kind, after=(sweep.after_namespace, sweep.after_name), limit=PAGE)
            alive: frozenset[Ref] = frozenset()
            if ref.kind in kinds.BINDINGS:
                alive = frozenset(state.get([bindings.template_ref(one) for one in page]))
            found[ref] = Rubbish(ref, page=tuple(page), alive=alive, sweep=sweep)
        return found

    def _rows(self, state: State, refs: Sequence[Ref]) -> dict[Ref, Rubbish]:
        """Return the rows about objects that are gone; nothing about those that are there (again)."""
        present = state.get(refs)
        gone = [ref for ref in refs if ref not in present]
        found: dict[Ref, list[Row]] = {ref: [] for ref in gone}
        for type_, index in dict.fromkeys(pair for pairs in ROWS_OF.values() for pair in pairs):
            about = {_value(ref): ref for ref in gone if (type_, index) in ROWS_OF.get(ref.kind, ())}
            if about:
                for value, rows in state.rows(type_, index, list(about)).items():
                    found[about[value]] += rows
        return {ref: Rubbish(ref, rows=tuple(rows)) for ref, rows in found.items()}

    def decide(self, snapshot: Rubbish, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        sweep = snapshot.sweep
        if sweep is None:
            dropped = tuple(Drop(row) for row in snapshot.rows)
            return Decision(changes=dropped, reason="Gone") if dropped else NOTHING
        changes: list[Put | Delete | Save | Drop] = [
            deleting(one, now=now) for one in snapshot.page if _rubbish(one, snapshot.alive, now=now)
        ]
        full = len(snapshot.page) >= PAGE
        last = snapshot.page[-1].metadata if full else None
        place = ("", "") if last is None else (last.namespace, last.name)
        if place != (sweep.after_namespace, sweep.after_name):
            changes.append(Save(Sweep(key=sweep.key, after_namespace=place[0], after_name=place[1])))
        return Decision(changes=tuple(changes), wake_at=now + (STEP if full else PAUSE), reason="Expired")


def _value(ref: Ref) -> str:
    """Return what rows call an object: bindings by their whole reference, clusters and policies by name."""
    return str(ref) if ref.kind in kinds.BINDINGS else ref.name


def _rubbish(obj: Object, alive: frozenset[Ref], *, now: datetime) -> bool:
    if isinstance(obj, Event):
        seen = obj.last_timestamp or obj.event_time or obj.metadata.creation_timestamp
        return seen is not None and now - seen >= EVENT_LIFETIME
    if not hasattr(obj, "clusters_kept") or obj.metadata.deletion_timestamp is not None:
        return False
    template = bindings.template_ref(obj)  # type: ignore[arg-type]  # the only other kind that is swept
    return template.kind in KINDS and template not in alive
