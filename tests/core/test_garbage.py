"""What is kept about an object goes with it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.controllers.garbage import Garbage
from controlplane.engine import run
from controlplane.engine.decision import Decision, Save, deleting
from controlplane.engine.memory import MemoryStore
from controlplane.engine.state import Actor
from controlplane.kinds.binding import Binding
from controlplane.kinds.rows import (
    CapacityReservation,
    Eviction,
    PlacementHint,
    PlacementNote,
    Row,
    UnhealthyCopies,
    eviction_key,
)
from controlplane.settings import Settings
from tests.builders.objects import START, binding, eviction
from tests.builders.placements import duplicated

KEPT: list[type[Row]] = [UnhealthyCopies, Eviction, PlacementHint, PlacementNote, CapacityReservation]


def rows_of(ref: Ref) -> list[Row]:
    """One row of each type that is kept about a binding."""
    text, place = str(ref), eviction_key(ref, "member1")
    queued = eviction(ref, due_at=None, queued_at=None)
    promised = CapacityReservation(place, text, "member1", 1)
    return [UnhealthyCopies(text), PlacementHint(text), PlacementNote(text), queued, promised]


def kept(store: MemoryStore, of: Ref) -> set[type[Row]]:
    keys = [row.key for row in rows_of(of)]
    return {type_ for type_ in KEPT if store.rows(type_, "key", keys)}


@pytest.mark.parametrize("kind", kinds.BINDINGS)
def test_nothing_is_kept_of_a_binding_that_is_gone(kind: str) -> None:
    store = MemoryStore(controllers=[Garbage()], clock=lambda: START)
    one: Any = binding("web", duplicated(), on={"member1": 2})
    if kind == kinds.CLUSTER_RESOURCE_BINDING:
        one = replace(one, kind="ClusterResourceBinding").with_meta(namespace="")
    other: Binding = replace(one, metadata=replace(one.metadata, name="other", uid="other"))
    store.create(one, other)
    rows = [*rows_of(one.ref), *rows_of(other.ref)]
    store.apply([(None, Decision(changes=tuple(Save(row) for row in rows)))], by=Actor("test"))
    assert kept(store, one.ref) == set(KEPT)

    gone = store.get([one.ref])[one.ref]
    store.apply([(None, Decision(changes=(deleting(gone, now=START),)))], by=Actor("jane"))
    run.run_until_idle([Garbage()], store, Settings(), world=run.World(answer=lambda question: None))

    assert kept(store, one.ref) == set()
    assert kept(store, other.ref) == set(KEPT)
