"""Nudges: one session of PostgreSQL serves the turns of a process, and not longer than it is used."""

from __future__ import annotations

import resource
from datetime import timedelta

import psycopg
import pytest

from apps.members import pump
from apps.objects.due import CHANNEL, SOON, announced
from apps.objects.notifications import listening, received
from apps.worker import turn
from apps.worker.nudges import KeptNudges, Nudges
from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import Mark

pytestmark = pytest.mark.django_db(transaction=True)


def session(nudges: Nudges) -> int:
    """Return the process of PostgreSQL that serves these nudges."""
    nudges.listen()
    connection = nudges._connection
    assert connection is not None
    return connection.info.backend_pid


def is_notified(nudges: Nudges) -> bool:
    with listening("another") as sender:
        sender.execute("SELECT pg_notify(%s, 'scheduler')", [CHANNEL])
    return nudges.wait(10, frozenset({"scheduler"}))


@pytest.mark.parametrize(
    ("marks", "payload"),
    [
        ([], ""),
        ([("works", 0)], "works"),
        ([("readiness", 5)], "~readiness"),
        ([("readiness", 4.999)], "readiness"),
        ([("readiness", 15), ("readiness", 1)], "readiness"),
        ([("works", 0), ("readiness", 15), ("garbage", 600)], "works,~garbage,~readiness"),
    ],
)
def test_rows_that_are_due_later_are_notified_as_such(marks: list[tuple[str, float]], payload: str) -> None:
    made = [
        Mark(name, Ref("Pod", "a", str(place)), timedelta(seconds=after)) for place, (name, after) in enumerate(marks)
    ]

    assert sorted(announced(made).split(",")) == sorted(payload.split(","))


def test_no_process_looks_for_rows_that_are_due_later() -> None:
    """A failover marks thousands of bindings that are due in 15 s, in dozens of transactions a second."""
    with Nudges() as nudges, listening("another") as sender:
        nudges.listen()
        sender.execute("SELECT pg_notify(%s, '~readiness')", [CHANNEL])
        sender.execute("SELECT pg_notify(%s, 'scheduler')", [CHANNEL])

        assert not nudges.wait(0.2, frozenset({"readiness"}))
        sender.execute("SELECT pg_notify(%s, '~readiness,readiness')", [CHANNEL])
        assert nudges.wait(10, frozenset({"readiness"}))


def test_a_process_that_waits_for_rows_looks_before_such_rows_are_due() -> None:
    assert max(turn.LONGEST_WAIT, pump.LONGEST_WAIT) <= SOON.total_seconds()


def test_turns_one_after_the_other_share_a_session_until_it_is_not_used() -> None:
    kept = KeptNudges()
    with kept.taken() as first:
        server = session(first)
    kept.close_unused(60)
    with kept.taken() as second:
        assert session(second) == server
        assert is_notified(second)

    kept.close_unused(0)

    with kept.taken() as third:
        assert session(third) != server
        assert is_notified(third)
        third.close()


def test_turns_at_the_same_time_have_a_session_each_and_one_of_them_is_kept() -> None:
    kept = KeptNudges()
    with kept.taken() as outer:
        server = session(outer)
        with kept.taken() as inner:
            assert session(inner) != server
    with kept.taken() as later:
        assert session(later) == server
        later.close()


def test_a_session_that_the_server_ended_is_opened_again_by_the_next_turn() -> None:
    kept = KeptNudges()
    with kept.taken() as first:
        server = session(first)
    with listening("another") as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [server])

    with kept.taken() as second:
        assert session(second) != server
        assert is_notified(second)
        second.close()


def test_after_an_error_the_session_is_closed() -> None:
    kept = KeptNudges()
    servers: list[int] = []

    def fail() -> None:
        with kept.taken() as nudges:
            servers.append(session(nudges))
            raise RuntimeError

    for _ in range(2):
        with pytest.raises(RuntimeError):
            fail()

    assert servers[0] != servers[1]


def test_a_process_that_waits_sleeps_until_something_arrives() -> None:
    with listening(CHANNEL) as own:
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw

        assert received(own, 1.0) == []

        assert resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before <= 3


def test_a_notification_that_came_with_another_statement_is_received_at_once() -> None:
    with listening(CHANNEL) as own, listening("another") as sender:
        for name in ("fleet", "scheduler"):
            sender.execute("SELECT pg_notify(%s, %s)", [CHANNEL, name])
        own.execute("SELECT 1")

        assert [one.payload for one in received(own, 60)] == ["fleet", "scheduler"]
        assert received(own, 0) == []


def test_a_wait_ends_with_an_error_when_the_server_ends_the_session() -> None:
    with listening(CHANNEL) as own, listening("another") as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [own.info.backend_pid])

        with pytest.raises(psycopg.OperationalError):
            received(own, 60)
