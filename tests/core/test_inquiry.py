"""What a controller works out to ask the outside world reaches its decision as a value."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from controlplane.apimachinery.meta import Ref
from controlplane.engine.controller import Controller, Inquiry, Ownership
from controlplane.engine.decision import Decision
from controlplane.engine.memory import MemoryStore
from controlplane.engine.run import World, run_batch
from controlplane.engine.state import State
from controlplane.kinds import CLUSTER
from controlplane.settings import Settings

NAMES = ("member1", "member2")


class Planner(Controller):
    """Adds a plan to each snapshot when it asks, and records what it is called to decide about."""

    name = "planner"
    group = "tests"
    keys = (CLUSTER,)
    watches = ()
    owns = Ownership({})
    due_at_start = tuple(Ref(CLUSTER, "", name) for name in NAMES)

    def __init__(self, question: Any) -> None:
        self.question = question
        self.decided: list[tuple[str, Any]] = []

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[str]:
        return [ref.name for ref in refs]

    def ask(self, snapshots: Sequence[str], settings: Settings, *, now: datetime) -> Inquiry:
        return Inquiry([f"{snapshot} with plan" for snapshot in snapshots], self.question)

    def decide(self, snapshot: str, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        self.decided.append((snapshot, answer))
        return Decision()


def decided(question: Any) -> tuple[list[Any], list[tuple[str, Any]]]:
    """Run one batch. Return the questions that were asked, and each decided snapshot with its answer."""
    controller, asked = Planner(question), list[Any]()
    store = MemoryStore(controllers=[controller])
    store.mark(controller.name, controller.due_at_start)

    def answer(question: Any) -> str:
        asked.append(question)
        return "two tokens"

    run_batch(controller, store, Settings(), world=World(answer=answer))
    return asked, sorted(controller.decided)


def test_the_snapshots_that_ask_returns_are_decided() -> None:
    asked, found = decided("tokens?")

    assert asked == ["tokens?"]
    assert found == [("member1 with plan", "two tokens"), ("member2 with plan", "two tokens")]


def test_without_a_question_the_world_is_not_asked() -> None:
    asked, found = decided(None)

    assert asked == []
    assert found == [("member1 with plan", None), ("member2 with plan", None)]
