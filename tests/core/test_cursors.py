"""A fan-out goes on after an upgrade or a downgrade in the middle of it, and stops nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.engine import run
from controlplane.engine.controller import Controller, Ownership, cursor_after, page
from controlplane.engine.decision import NOTHING, Decision
from controlplane.engine.memory import MemoryStore
from controlplane.engine.run import Report, World, run_batch
from controlplane.engine.state import State, Watch
from controlplane.kinds import CLUSTER, RESOURCE_BINDING
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster

NAMES = ("a", "b", "c", "d", "e")


class Before(Controller):
    """Looks at all bindings when a cluster changes. It takes them in the order of their names."""

    name = "placer"
    group = "test"
    keys = (RESOURCE_BINDING,)
    watches = (Watch(CLUSTER, lambda old, new: [(new or old).ref], fan_out=True),)
    owns = Ownership({})
    seen: ClassVar[list[str]] = []

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Any]:
        return refs

    def decide(self, snapshot: Any, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        self.seen.append(snapshot.name)
        return NOTHING

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        found = state.list(RESOURCE_BINDING, after=cursor_after(after), limit=limit)
        return page([one.ref for one in found], limit=limit)


class After(Before):
    """The next release: its cursor is the number of bindings that it has taken, from the last one."""

    cursor_form = "2"

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        taken = int(after or 0)
        found = [one.ref for one in reversed(state.list(RESOURCE_BINDING))][taken : taken + limit]
        return found, str(taken + limit) if len(found) == limit else None


class Careless(After):
    """The same, by authors who have forgotten the form."""

    cursor_form = ""


class Time:
    now = START


def batch(controller: Controller, store: MemoryStore) -> Report:
    return run_batch(controller, store, Settings(), world=World())


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """A store whose fan-outs take two bindings at once."""
    monkeypatch.setattr(run, "FAN_OUT_CHUNK", 2)
    monkeypatch.setattr(Before, "seen", [])
    time = Time()
    made = MemoryStore(controllers=[Before()], clock=lambda: time.now)
    made.create(*(binding(name, None) for name in NAMES))
    made.create(cluster("member1"))
    made.time = time  # type: ignore[attr-defined]
    return made


@pytest.mark.parametrize(
    ("first", "then"),
    [(Before, After), (After, Before), (Before, Careless), (Careless, Before)],
    ids=["upgrade", "downgrade", "upgrade to a form without a name", "downgrade from a form without a name"],
)
@pytest.mark.parametrize("chunks", [1, 2])
def test_all_objects_are_reached_although_the_cursor_has_another_form(
    store: MemoryStore, first: type[Controller], then: type[Controller], chunks: int
) -> None:
    for _ in range(chunks):
        batch(first(), store)
    Before.seen.clear()

    for _ in range(9):
        batch(then(), store)
        store.time.now += timedelta(seconds=11)  # type: ignore[attr-defined]

    assert {f"{name}-deployment" for name in NAMES} <= set(Before.seen)
    assert store.due["placer"] == {}


def test_a_fan_out_with_an_unknown_cursor_stops_nothing_else(store: MemoryStore) -> None:
    """The controller failed as a whole in each turn, for all objects, as long as the earlier release ran."""
    origin = Ref(CLUSTER, "", "member1")
    due = store.due["placer"]
    due[origin] = replace(due[origin], cursor="policy>0#x")
    store.mark("placer", [Ref(RESOURCE_BINDING, "default", "c-deployment")])

    report = batch(Careless(), store)

    assert Before.seen == ["c-deployment"]
    assert [one.ref for one in report.failures] == [origin]
    assert (due[origin].cursor, due[origin].due_at > START) == ("", True)
