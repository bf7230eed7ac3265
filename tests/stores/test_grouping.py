"""Writes of several requests share a transaction: each has its own answer, in the order of arrival."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.db import OperationalError, connection, connections

from apps.objects.grouping import Groups
from apps.objects.store import store
from controlplane.engine.decision import Decision, Put
from controlplane.engine.state import Actor, Outcome, Unstorable
from tests.api.test_query_counts import counted
from tests.builders.templates import config_map

pytestmark = pytest.mark.django_db(transaction=True)

JANE, PAUL = Actor("jane"), Actor("paul")


def new(name: str, *, uid: str = "") -> list[tuple[None, Decision]]:
    """Return the decision to create a ConfigMap."""
    made = config_map(name, uid=uid or f"uid-{name}")
    return [(None, Decision(changes=(Put(made, None),), reason="Test"))]


def unstorable(name: str) -> list[tuple[None, Decision]]:
    """Return a decision that PostgreSQL refuses: half of a surrogate pair is no text."""
    return new(name, uid="\ud800")


class Bench:
    """Groups whose first write waits until `release`, so that everything sent meanwhile is one group."""

    def __init__(self) -> None:
        self.groups = Groups(self.write)
        self.opened = threading.Event()
        self.begun = threading.Event()
        self.sizes: list[int] = []
        self.statements: list[int] = []
        self.away = False
        self.threads: list[threading.Thread] = []
        self.answers: dict[str, Outcome | BaseException] = {}

    def write(self, decisions: Sequence[Any], *, by: Actor, written: list[Outcome]) -> None:
        self.begun.set()
        assert self.opened.wait(20)
        if self.away:
            raise OperationalError("the server closed the connection")
        with counted() as statements:
            try:
                store().apply(decisions, by=by, written=written)
            finally:
                self.sizes.append(len(decisions))
        self.statements.append(len(statements))

    def send(self, key: str, decisions: list[Any], by: Actor = JANE) -> None:
        """Send a request in a thread of its own; return when it waits in the queue, or writes."""

        def run() -> None:
            try:
                (self.answers[key],) = self.groups.apply(decisions, by=by)
            except Exception as error:  # noqa: BLE001  # is the answer that a test looks at
                self.answers[key] = error
            finally:
                connections.close_all()

        thread = threading.Thread(target=run)
        before = len(self.groups._waiting)
        self.threads.append(thread)
        thread.start()
        if len(self.threads) == 1:
            assert self.begun.wait(20)
            return
        while len(self.groups._waiting) == before:
            thread.join(0.001)

    def release(self) -> None:
        self.opened.set()
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.release()


def version(bench: Bench, key: str) -> int:
    outcome = bench.answers[key]
    assert isinstance(outcome, Outcome), outcome
    assert not outcome.lost
    return outcome.versions[0]


def test_what_arrives_while_one_writes_is_written_together_in_the_order_of_arrival(bench: Bench) -> None:
    for key in "abcdef":
        bench.send(key, new(key))
    bench.release()

    assert bench.sizes == [1, 5]
    first = version(bench, "a")
    assert [version(bench, key) for key in "abcdef"] == list(range(first, first + 6))
    for key in "abcdef":  # each answer is that of its own request
        (stored,) = bench.answers[key].objects  # type: ignore[union-attr]
        assert (stored.ref.name, stored.metadata.resource_version) == (key, str(version(bench, key)))


def test_requests_of_two_users_keep_their_order_and_their_names_in_the_log(bench: Bench) -> None:
    authors = {"a": JANE, "b": PAUL, "c": PAUL, "d": JANE}
    for key, by in authors.items():
        bench.send(key, new(key), by)
    bench.release()

    assert bench.sizes == [1, 2, 1]
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, actor FROM objects_changelog ORDER BY version")
        assert cursor.fetchall() == [(key, by.name) for key, by in authors.items()]


def test_a_group_of_forty_costs_as_many_statements_as_one_request(bench: Bench) -> None:
    bench.send("first", new("first"))
    for number in range(40):
        bench.send(f"n{number}", new(f"n{number}"))
    bench.release()

    assert bench.sizes == [1, 40]
    assert bench.statements[0] == bench.statements[1]


def test_a_request_that_fails_costs_the_others_of_its_group_nothing(bench: Bench) -> None:
    bench.send("first", new("first"))
    requests = {"a": new("a"), "bad": unstorable("bad"), "twice": new("first"), "c": new("c")}
    for key, decisions in requests.items():
        bench.send(key, decisions)
    bench.release()

    assert isinstance(bench.answers["bad"], Unstorable)
    assert bench.answers["twice"].lost  # type: ignore[union-attr]
    assert version(bench, "a") < version(bench, "c")
    assert [ref.name for ref in sorted(one.ref for one in store().list("ConfigMap"))] == ["a", "c", "first"]


@pytest.mark.parametrize("count", [2, 3])
def test_of_requests_for_one_name_in_a_group_the_first_is_stored(bench: Bench, count: int) -> None:
    bench.send("first", new("first"))
    for number in range(count):
        bench.send(f"same{number}", new("same", uid=f"uid-{number}"))
    bench.release()

    assert version(bench, "same0")
    assert all(bench.answers[f"same{number}"].lost for number in range(1, count))  # type: ignore[union-attr]
    (stored,) = (one for one in store().list("ConfigMap") if one.ref.name == "same")
    assert stored.metadata.uid == "uid-0"


def test_while_the_database_is_away_each_request_gets_the_error_and_the_next_group_is_written(bench: Bench) -> None:
    bench.away = True
    for key in "abc":
        bench.send(key, new(key))
    bench.release()
    assert all(isinstance(bench.answers[key], OperationalError) for key in "abc")

    bench.away = False
    (outcome,) = bench.groups.apply(new("later"), by=JANE)
    assert not outcome.lost


def test_an_error_in_the_code_of_a_group_leaves_no_request_waiting(bench: Bench) -> None:
    def broken(decisions: Any, *, by: Actor, written: list[Outcome]) -> None:
        bench.begun.set()
        assert bench.opened.wait(20)
        raise KeyError("a defect")

    bench.groups = Groups(broken)
    for key in "abc":
        bench.send(key, new(key))
    bench.release()

    assert all(isinstance(bench.answers[key], KeyError) for key in "abc")
    assert not bench.groups._is_busy
