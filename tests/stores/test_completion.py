"""Decisions that are completed part by part are stored as completed, in both stores."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Decision, Event, Put
from controlplane.engine.events import event_ref
from controlplane.engine.state import Outcome, Unstorable
from controlplane.engine.unstorable import MAX_DECISIONS_WITH_STEPS, apply_decisions
from controlplane.kinds.binding import Binding
from tests.builders.bare import binding
from tests.stores.grounds import USER, create, stored, write

MANY = 150  # decisions: more than a transaction takes


class Labels:
    """Completes each Put by a label and an Event. `parts`: how many decisions it was given at once."""

    def __init__(self, *, step: bool = False) -> None:
        self.parts: list[int] = []
        self.step = step

    def __call__(self, decisions: Sequence[Decision]) -> list[Decision]:
        self.parts.append(len(decisions))
        return [self._completed(one) for one in decisions]

    def _completed(self, decision: Decision) -> Decision:
        (put,) = decision.changes
        assert isinstance(put, Put)
        assert put.old is not None
        event = Event(put.old, "Completed", f"{put.old.metadata.name} is completed", step=self.step)
        new = put.new.with_meta(labels={"completed": "yes"})
        return replace(decision, changes=(replace(put, new=new),), events=(*decision.events, event))


def decisions(found: Sequence[Binding]) -> list[tuple[None, Decision]]:
    """Return a decision about each binding, with an Event."""
    return [
        (None, Decision(changes=(Put(one.with_spec(replicas=7), one),), events=(Event(one, "Scaled", "to 7"),)))
        for one in found
    ]


def event(store: Any, about: Binding, reason: str, message: str) -> Any:
    """Return the stored Event about a binding; None: there is none."""
    return stored(store, event_ref(Event(about, reason, message), by=USER.name))


def bindings(store: Any) -> list[Binding]:
    return create(store, *(binding(f"b{number}") for number in range(MANY)))


def test_what_is_stored_is_completed(store: Any) -> None:
    found, complete = bindings(store), Labels()

    outcomes = store.apply(decisions(found), by=USER, complete=complete)

    assert [outcome.lost for outcome in outcomes] == [""] * MANY
    assert sum(complete.parts) == MANY
    for one in found:
        now = stored(store, one)
        assert (now.spec.replicas, now.metadata.labels) == (7, {"completed": "yes"})
        assert event(store, one, "Scaled", "to 7").count == 1
        assert event(store, one, "Completed", f"{one.metadata.name} is completed").count == 1


def test_an_event_that_is_stored_already_is_counted_up(store: Any) -> None:
    found = bindings(store)
    store.apply(decisions(found), by=USER, complete=Labels())
    again = [stored(store, one).with_meta(labels={}) for one in found]

    store.apply(decisions(again), by=USER, complete=Labels())

    for one in found:
        assert event(store, one, "Scaled", "to 7").count == 2
        assert event(store, one, "Completed", f"{one.metadata.name} is completed").count == 2


def test_a_decision_about_a_changed_object_is_lost_and_the_others_are_stored(store: Any) -> None:
    found = bindings(store)
    changed = found[MANY // 2]
    write(store, Put(changed.with_spec(replicas=3), changed))

    outcomes = store.apply(decisions(found), by=USER, complete=Labels())

    assert [bool(outcome.lost) for outcome in outcomes] == [one is changed for one in found]
    assert stored(store, changed).spec.replicas == 3
    assert event(store, changed, "Completed", f"{changed.metadata.name} is completed") is None


@pytest.mark.parametrize(("completed", "kept"), [(MAX_DECISIONS_WITH_STEPS, 1), (MAX_DECISIONS_WITH_STEPS + 1, 0)])
def test_events_of_steps_are_left_out_if_many_decisions_may_be_completed(store: Any, completed: int, kept: int) -> None:
    found, complete = bindings(store), Labels(step=True)

    outcomes = apply_decisions(store, decisions(found), by=USER, complete=complete, completed=completed)

    assert not any(outcome.lost for outcome in outcomes if isinstance(outcome, Outcome))
    for one in found:
        assert event(store, one, "Scaled", "to 7").count == 1
        completed = event(store, one, "Completed", f"{one.metadata.name} is completed")
        assert (0 if completed is None else completed.count) == kept


def test_a_trial_completes_and_writes_nothing(store: Any) -> None:
    found, complete = bindings(store), Labels()

    outcomes = store.apply(decisions(found), by=USER, dry_run=True, complete=complete)

    assert [(one.lost, one.objects[0].metadata.labels) for one in outcomes] == [("", {"completed": "yes"})] * MANY
    assert sum(complete.parts) == MANY
    assert [stored(store, one) for one in found] == found


# PostgreSQL


@pytest.mark.django_db(transaction=True)
def test_postgresql_completes_in_parts() -> None:
    from apps.objects.apply import COMPLETED_AT_ONCE
    from apps.objects.store import DjangoStore

    store, complete = DjangoStore(), Labels()

    store.apply(decisions(bindings(store)), by=USER, complete=complete)

    assert complete.parts == [COMPLETED_AT_ONCE, COMPLETED_AT_ONCE, MANY - 2 * COMPLETED_AT_ONCE]


@pytest.mark.django_db(transaction=True)
def test_events_that_exist_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.objects.store import DjangoStore
    from apps.objects.transaction import Transaction

    store, sent, send = DjangoStore(), list[bool](), Transaction.send

    def noted(self: Transaction, *args: Any, read_created: bool, **kwargs: Any) -> None:
        sent.append(read_created)
        send(self, *args, read_created=read_created, **kwargs)

    found = bindings(store)
    store.apply(decisions(found), by=USER, complete=Labels())
    monkeypatch.setattr(Transaction, "send", noted)

    store.apply(decisions([stored(store, one) for one in found]), by=USER, complete=Labels())

    assert sent[-3:] == [True] * 3
    assert sent.count(False) <= 1  # before PostgreSQL 17 the first transaction is sent in two steps as well


@pytest.mark.django_db(transaction=True)
def test_a_decision_that_cannot_be_stored_as_completed_is_the_only_one_that_is_not_stored() -> None:
    from apps.objects.store import DjangoStore

    store, spoilt = DjangoStore(), Ref("", "", "")

    class Spoiling(Labels):
        def _completed(self, decision: Decision) -> Decision:
            made = super()._completed(decision)
            (put,) = made.changes
            assert isinstance(put, Put)
            if put.new.ref != spoilt:
                return made
            return replace(made, changes=(replace(put, new=put.new.with_meta(generation=2**63)),))

    found = bindings(store)
    spoilt = found[70].ref

    outcomes = apply_decisions(store, decisions(found), by=USER, complete=Spoiling())

    assert [isinstance(outcome, Unstorable) for outcome in outcomes] == [one.ref == spoilt for one in found]
    assert stored(store, spoilt).spec.replicas != 7
    assert [stored(store, one).spec.replicas for one in (found[69], found[71])] == [7, 7]


@pytest.mark.django_db(transaction=True)
def test_the_log_has_the_decisions_as_they_are_stored(caplog: pytest.LogCaptureFixture) -> None:
    from apps.objects.store import DjangoStore

    store = DjangoStore()
    found = bindings(store)[:2]
    caplog.clear()

    with caplog.at_level(logging.INFO, "lifeboat.decisions"):
        store.apply(decisions(found), by=USER, complete=Labels())

    (record,) = (one for one in caplog.records if one.name == "lifeboat.decisions")
    assert [line["events"] for line in record.lines] == [["Scaled", "Completed"]] * 2  # type: ignore[attr-defined]
