"""What is kept about an object goes with it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.controllers.garbage import Garbage
from controlplane.controllers.policies import Policies
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
from tests.core.test_customized import customization

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


def test_a_binding_that_an_import_has_written_waits_for_its_template() -> None:
    """`lifeboat import` writes all bindings first, which takes minutes, and each holds the placement of its template.

    A binding whose import was interrupted goes later.
    """
    now = START
    store = MemoryStore(controllers=[Garbage()], clock=lambda: now)
    run.mark_due_at_start([Garbage()], store)
    imported = binding("web", duplicated(), on={"member1": 2}).with_meta(creation_timestamp=START)
    store.create(imported)

    def after(passed: timedelta) -> bool:
        nonlocal now
        now = START + passed
        run.run_until_idle([Garbage()], store, Settings(), world=run.World(answer=lambda question: None))
        found = store.get([imported.ref])
        return imported.ref in found and found[imported.ref].metadata.deletion_timestamp is None

    assert [after(timedelta(minutes=passed)) for passed in (0, 6, 59)] == [True] * 3
    assert not after(timedelta(minutes=66))


def test_a_rule_for_its_kind_deletes_no_binding_that_waits_for_its_template() -> None:
    """An import writes interpreter customizations right before the bindings, and templates at its end."""
    store = MemoryStore(controllers=[Policies()], clock=lambda: START)
    imported = binding("web", duplicated(), on={"member1": 2})
    store.create(imported, customization("c", health_interpretation="x"))

    run.run_until_idle([Policies()], store, Settings(), world=run.World(answer=lambda question: None))

    assert [one.metadata.deletion_timestamp for one in store.get([imported.ref]).values()] == [None]
