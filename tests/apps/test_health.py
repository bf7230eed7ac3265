"""Health of an api process: what /readyz says of each group, and that it answers in time whatever hangs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from threading import Event
from typing import Any

import psycopg
import pytest
from django.db import connection

from apps.api import health, shell
from apps.api.shell import Shell
from apps.worker.beat_presence import BEAT
from apps.worker.clock import monotonic_seconds
from apps.worker.groups import GROUPS, MEMBERS, tick_names
from apps.worker.watchdog import STOPPED
from tests.apps.name_server import ZONE, NameServer

LEASE = """
    INSERT INTO objects_lease (name, shard, holder, epoch, until)
    VALUES (%s, %s, %s, 1, clock_timestamp() - %s * interval '1 second')"""
DUE = """
    INSERT INTO objects_due (controller, kind, namespace, name, due_at, seq, lease_until, cursor, hash)
    VALUES (%s, 'v1/ConfigMap', 'default', %s, clock_timestamp() - %s * interval '1 second', 1,
            clock_timestamp() + %s * interval '1 second', '', 0)"""
PLACE = tick_names()[0]
GROUP = PLACE.partition("/")[0]


def lease(name: str, shard: int, *, ended: float, holder: str = "") -> None:
    """Let the lease of a shard end so many seconds ago; negative: it is held. With a holder, it was not returned."""
    with connection.cursor() as cursor:
        cursor.execute(LEASE, [name, shard, holder, ended])


def due(group: str, name: str, *, waits: float, claimed_for: float | None = None) -> None:
    """Let an object of a group's last controller be due for so many seconds."""
    with connection.cursor() as cursor:
        cursor.execute(DUE, [GROUPS[group].controllers[-1].name, name, waits, claimed_for])


def line(title: str) -> str:
    """Return the line of /readyz?verbose about a group, each number of seconds rounded down to tens."""
    with health._connect() as own:
        (found,) = (str(one) for one in health.groups(own) if one.name == title)
    return re.sub(r"(\d+) s\b", lambda number: f"{int(number[1]) // 10 * 10} s", found)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("title", "group", "who"), [(f"workers {PLACE}", GROUP, "worker"), ("members", MEMBERS, "members process")]
)
@pytest.mark.parametrize(
    ("ended", "waits", "said"),
    [
        (None, None, "[-]{} never seen, nothing waits: is a {} running?"),
        (None, 40, "[-]{} never seen, the oldest due object waits for 40 s: is a {} running?"),
        (-10, None, "[+]{} ok: held now, nothing waits"),
        (-10, 40, "[+]{} ok: held now, the oldest due object waits for 40 s"),
        (
            -10,
            90,
            "[-]{} held now, but the oldest due object waits for 90 s: it does not keep up, or fails; see its log",
        ),
        (10, None, "[+]{} ok: held 10 s ago, nothing waits"),
        (30, None, "[-]{} not held, last held 30 s ago, nothing waits: is a {} running?"),
        (30, 40, "[-]{} not held, last held 30 s ago, the oldest due object waits for 40 s: is a {} running?"),
    ],
)
def test_readiness_says_of_a_group_whether_it_is_held_and_what_waits(
    title: str, group: str, who: str, ended: float | None, waits: float | None, said: str
) -> None:
    if ended is not None:
        lease(group, 0, ended=ended)
    if waits is not None:
        due(group, "late", waits=waits)
        due(group, "later", waits=waits / 2)

    assert line(title) == said.format(title, who)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("name", "title"), [(GROUP, f"workers {PLACE}"), (MEMBERS, "members"), (BEAT, "beat")], ids=str
)
def test_a_lease_that_a_process_did_not_return_is_missed_after_three_seconds(name: str, title: str) -> None:
    lease(name, 0, ended=2, holder="killed")
    assert line(title).startswith("[+]")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE objects_lease SET until = until - interval '2 seconds'")

    assert line(title).startswith("[-]")


@pytest.mark.django_db(transaction=True)
def test_the_pool_of_a_worker_reports_a_main_process_that_does_not_run() -> None:
    lease(STOPPED, 0, ended=20, holder="host1:11")
    assert line("worker") == "[+]worker ok: every main process runs"

    lease(STOPPED, 1, ended=-5, holder="host2:22")

    assert line("worker").startswith("[-]worker process 22 on host2 is stopped or was killed")
    assert "kill -KILL 22 " in line("worker")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("holder", "reported"), [("host1:11", True), ("", False)])
def test_a_stopped_main_process_stays_reported_while_its_pool_is_late_with_the_lease(
    holder: str, reported: bool
) -> None:
    lease(STOPPED, 0, ended=4, holder=holder)

    assert line("worker").startswith("[-]worker process 11" if reported else "[+]worker ok")


def test_checks_that_take_too_long_hide_no_problem_that_was_known() -> None:
    known = health.HealthReport((health.Line("database", ""), health.Line("redis", "away"), health.Line("beat", "")))

    found = health.unanswered(5.0, known)

    assert found.lines == (
        health.Line("database", "no answer within 5 s", needed=True),
        health.Line("redis", "away"),
    )


@pytest.mark.django_db(transaction=True)
def test_what_is_due_later_or_claimed_does_not_wait() -> None:
    lease(GROUP, 0, ended=-10)
    due(GROUP, "in-a-minute", waits=-60)
    due(GROUP, "claimed", waits=200, claimed_for=60)
    assert line(f"workers {PLACE}").endswith("held now, nothing waits")

    due(GROUP, "claim-ended", waits=200, claimed_for=-5)
    assert "waits for 200 s" in line(f"workers {PLACE}")


@pytest.mark.django_db(transaction=True)
def test_of_several_members_processes_the_one_that_is_there_counts() -> None:
    lease(MEMBERS, 0, ended=300)
    lease(MEMBERS, 1, ended=-5)

    assert line("members") == "[+]members ok: held now, nothing waits"


@pytest.mark.django_db(transaction=True)
def test_each_group_has_a_line_of_its_own() -> None:
    lease(GROUP, 0, ended=-10)

    with health._connect() as own:
        found = {one.name: not one.problem for one in health.groups(own)}

    others = {"worker": True, "members": False, "beat": False}
    assert found == {f"workers {place}": place == PLACE for place in tick_names()} | others


@pytest.fixture
def look() -> Iterator[health.Health]:
    made = health.Health()
    yield made
    made.close()


@pytest.mark.django_db(transaction=True)
def test_a_look_at_locked_tables_ends_by_itself_and_names_the_lock(look: health.Health) -> None:
    began = monotonic_seconds()
    with psycopg.connect(**connection.get_connection_params()) as session:
        session.execute("LOCK TABLE objects_lease, django_migrations")
        found = {one.name: one.problem for one in look.report().lines}

    assert "another session holds a lock" in found["migrations"]
    assert "another session holds a lock" in found["workers"]
    assert monotonic_seconds() - began < 30


async def asked(application: Shell, path: str) -> tuple[int, str]:
    """Return status and text of an answer."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"verbose", "headers": []}
    await application(scope, receive, send)
    return sent[0]["status"], b"".join(one.get("body", b"") for one in sent).decode()


def hung(application: Shell, *pools: Any, paths: Iterable[str]) -> list[tuple[int, str]]:
    """Return the answers for paths while all threads of these pools wait for something."""
    end = Event()
    try:
        for pool in pools:
            for _ in range(pool._max_workers):
                pool.submit(end.wait, 60)

        async def story() -> list[tuple[int, str]]:
            return [await asyncio.wait_for(asked(application, path), 30) for path in paths]

        return asyncio.run(story())
    finally:
        for pool in (application.pool, application.health):
            pool.shutdown(wait=False, cancel_futures=True)  # what was not begun shall not begin
        end.set()


def test_while_all_threads_wait_the_process_is_alive() -> None:
    application = Shell(lambda *request: [], threads=3, buffer=1000)

    found = hung(application, application.pool, application.health, paths=["/livez", "/healthz"])

    assert found == [(200, "ok"), (200, "ok")]


def test_readiness_is_answered_while_a_look_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "READY_SECONDS", 0.2)
    application = Shell(lambda *request: [], threads=3, buffer=1000)

    ((status, text),) = hung(application, application.health, paths=["/readyz"])

    assert status == 503
    assert text.startswith("[-]database failed: no answer within 0.2 s")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (None, "[-]beat never seen: is beat running? Workers run without it, but take over from each other later"),
        (
            40,
            "[-]beat last seen 40 s ago: is beat running? Workers run without it, but take over from each other later",
        ),
        (-5, "[+]beat ok: seen now"),
    ],
)
def test_readiness_says_whether_beat_was_seen(ended: float | None, said: str) -> None:
    if ended is not None:
        lease(BEAT, 0, ended=ended)

    assert line("beat") == said


@pytest.mark.django_db(transaction=True)
def test_a_process_is_ready_although_the_name_of_redis_is_not_resolved(name_server: NameServer, settings: Any) -> None:
    """One bug: no api process was ready then, because the check of Redis outlasted the answer."""
    settings.REDIS_URL = f"redis://redis{ZONE}:6379/0"
    checked, began = health.Health(), monotonic_seconds()
    try:
        report = checked.report()
    finally:
        checked.close()

    assert monotonic_seconds() - began < health.WAIT_SECONDS
    assert report.ready
    assert "[-]redis no eviction tokens: it does not answer in time" in map(str, report.lines)


@pytest.fixture
def far_east() -> Iterator[None]:
    """The database has a time zone of its own."""
    database = f'ALTER DATABASE "{connection.settings_dict["NAME"]}"'
    with connection.cursor() as cursor:
        cursor.execute(f"{database} SET timezone = 'Asia/Tokyo'")
    yield
    with connection.cursor() as cursor:
        cursor.execute(f"{database} RESET timezone")


@pytest.mark.django_db(transaction=True)
def test_the_time_of_a_restore_is_in_utc_wherever_the_server_is(far_east: None) -> None:
    """The session of the checks is opened without Django, which would set the time zone."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO objects_origin (id, installation, system, timeline, database, floor, held_since, held_for, "
            "confirmed) VALUES (1, 'here', '', 0, 0, 0, '2026-03-14 03:12:00Z', 'a test', false)"
        )

    with health._connect() as own:
        said = health.restore(own)

    assert "since 2026-03-14 03:12:00 UTC: a test" in said
