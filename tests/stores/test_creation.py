"""A transaction that only creates objects is one statement: it writes all that a longer transaction writes."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest
from django.db import connection, connections
from msgspec.structs import replace

from apps.objects.batch import Item
from apps.objects.creation import creates_only
from apps.objects.due import WRITE_LOCK
from apps.objects.store import DjangoStore
from apps.objects.transaction import CHANGES_CHANNEL, Timing
from controlplane.engine.decision import Decision, Put, Save
from controlplane.kinds.rows import Observation
from tests.api.test_query_counts import counted
from tests.builders.bare import binding, template
from tests.stores.grounds import USER, controllers, create, due_refs, write
from tests.stores.test_postgres import small_partitions

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def timings() -> list[Timing]:
    return []


@pytest.fixture
def store(timings: list[Timing]) -> DjangoStore:
    made = DjangoStore(controllers=controllers(), observe=timings.append)
    create(made, template("first"))  # the process knows the partitions of the log, and its connection is open
    return made


def creation(*names: str) -> list[tuple[None, Decision]]:
    return [(None, Decision(changes=(Put(template(name), None),), reason="Test")) for name in names]


def test_objects_of_two_tables_with_rows_and_marks_are_one_statement(store: DjangoStore) -> None:
    changes = (Put(template("a"), None), Put(binding("web"), None), Save(Observation(key="member1")))

    with counted() as statements:
        (outcome,) = store.apply([(None, Decision(changes=changes, reason="Test"))], by=USER)

    assert len(statements) == 1
    assert outcome.versions == (2, 3, 0)
    assert [(change.version, change.type, change.ref.name) for change in store.changes(1, limit=9)] == [
        (2, "ADDED", "a"),
        (3, "ADDED", "web"),
    ]
    assert [one.metadata.resource_version for one in outcome.objects[:2] if one] == ["2", "3"]
    assert [row.key for row in store.rows(Observation, "key", ["member1"])["member1"]] == ["member1"]
    assert binding("web").ref in due_refs(store)


def test_one_object_that_exists_costs_the_other_creations_neither_their_place_nor_a_version(store: DjangoStore) -> None:
    outcomes = store.apply(creation("a", "first", "b"), by=USER)

    assert [bool(outcome.lost) for outcome in outcomes] == [False, True, False]
    assert [outcome.versions for outcome in outcomes] == [(2,), (), (3,)]
    assert store.current_version() == 3


def test_a_longer_transaction_that_creates_what_exists_is_repeated_and_timed(
    store: DjangoStore, timings: list[Timing]
) -> None:
    (second,) = create(store, template("second"))
    change = Decision(changes=(Put(template("second", labels={"a": "1"}), second),), reason="Test")
    before = len(timings)

    outcomes = store.apply([(None, change), *creation("first", "b")], by=USER)

    assert [bool(outcome.lost) for outcome in outcomes] == [False, True, False]
    assert [outcome.versions for outcome in outcomes] == [(3,), (), (4,)]
    assert [timing.lines for timing in timings[before:]] == [2]


@pytest.mark.parametrize("exists", [False, True], ids=["a creation", "a change"])
def test_a_write_that_makes_nothing_due_is_notified_as_well(exists: bool) -> None:
    quiet = DjangoStore(controllers=())
    old = create(quiet, template("first"))[0] if exists else None
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as listener:  # type: ignore[arg-type]
        listener.execute(f"LISTEN {CHANGES_CHANNEL}")

        write(quiet, Put(template("first", labels={"a": "1"}), old))

        heard = [notice.payload for notice in listener.notifies(timeout=20, stop_after=1)]
    assert heard == [str(quiet.current_version())]


def test_a_log_without_a_partition_gets_one(store: DjangoStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_partitions(store, monkeypatch):
        for number in range(25):
            (outcome,) = store.apply(creation(f"n{number}"), by=USER)
            assert outcome.versions == (number + 2,)


def test_a_creation_waits_for_the_write_lock_and_does_not_count_the_wait(
    store: DjangoStore, timings: list[Timing]
) -> None:
    found: list[Any] = []

    def work() -> None:
        found.extend(store.apply(creation("late"), by=USER))
        connections.close_all()

    thread = threading.Thread(target=work)
    with psycopg.connect(**connection.get_connection_params()) as other:  # type: ignore[arg-type]
        other.execute(WRITE_LOCK)
        thread.start()
        with psycopg.connect(**connection.get_connection_params(), autocommit=True) as watcher:  # type: ignore[arg-type]
            while not watcher.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchall():
                assert thread.is_alive()
        other.execute("SELECT pg_sleep(0.5)")
        assert not found
    thread.join(20)

    assert found[0].versions == (2,)
    assert timings[-1].lines == 1
    assert timings[-1].locked_seconds < 0.5


GUARDS = [name for name in Decision.__struct_fields__ if name.endswith("guards")]


@pytest.mark.parametrize("name", GUARDS)
def test_a_decision_with_a_guard_of_any_kind_is_no_creation(name: str) -> None:
    (decision,) = (decision for _, decision in creation("a"))
    guarded = replace(decision, **{name: (object(),)})

    assert [creates_only([Item(None, one, [], [])]) for one in (decision, guarded)] == [True, False]


def test_a_write_that_changes_an_object_still_compares_it_under_the_lock(store: DjangoStore) -> None:
    (stored,) = store.list("ConfigMap")
    write(store, Put(template("first", labels={"a": "1"}), stored))

    (outcome,) = store.apply(
        [(None, Decision(changes=(Put(template("first"), stored, exact=True), Put(template("a"), None))))], by=USER
    )

    assert outcome.lost
    assert [one.ref.name for one in store.list("ConfigMap")] == ["first"]
