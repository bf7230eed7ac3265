"""Another session holds the write lock, or PostgreSQL takes no writes: reads and health go on, writes say why."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.api.server import SECONDS, Answer, Client, Server
from tests.builders.documents import config_map, config_maps
from tests.processes import until

LIMIT = 2  # seconds a writer waits
SLACK = 8.0  # seconds a loaded machine may take beside
LOCK = "SELECT 1 FROM objects_counter WHERE id = 1 FOR UPDATE"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose writers wait two seconds."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    with Server(tmp_path_factory.mktemp("blocked"), name=f"lifeboat_blocked_{worker}", **settings()) as running:
        yield running


def settings() -> dict[str, str]:
    return {"LIFEBOAT_DATABASE_LOCK_SECONDS": str(LIMIT), "LIFEBOAT_ALLOWED_HOSTS": "127.0.0.1"}


@contextmanager
def held(server: Server) -> Iterator[int]:
    """Hold the write lock in a session that is no part of the product; its pid."""
    with psycopg.connect(server.environment["DATABASE_URL"], application_name="a person's psql") as session:
        session.execute(LOCK)
        yield session.info.backend_pid


def timed(ask: Any) -> tuple[Answer, float]:
    began = time.monotonic()
    return ask(), time.monotonic() - began


def test_while_another_session_holds_the_write_lock_reads_go_on_and_writes_are_answered_in_time(own: Server) -> None:
    def write(number: int) -> tuple[Answer, float]:
        return timed(lambda: own.client().post(config_maps("default"), config_map(f"held-{number}")))

    crowd = 12  # more than there are threads
    with held(own), ThreadPoolExecutor(crowd) as people:
        writes = [people.submit(write, number) for number in range(crowd)]
        until(
            lambda: own.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") != [(0,)], within=60
        )
        alive = timed(lambda: own.client("").get("/livez"))
        read = timed(lambda: own.client().get("/api/v1/namespaces/default"))
        answers = [one.result() for one in writes]

    assert (alive[0].status, read[0].status) == (200, 200)
    assert max(alive[1], read[1]) < LIMIT
    for answer, seconds in answers:
        assert (answer.status, answer.document["reason"], answer.headers["retry-after"]) == (
            503,
            "ServiceUnavailable",
            "5",
        )
        assert seconds < 2 * LIMIT + SLACK
    assert any("another session holds a lock" in answer.document["message"] for answer, _ in answers)
    assert write(99)[0].status == 201


def test_readiness_names_the_session_that_holds_the_write_lock(own: Server) -> None:
    with held(own) as pid:
        answer, seconds = timed(lambda: own.client("").get("/readyz?verbose"))

    assert answer.status == 200  # reads and watches go on
    assert f"[-]writes session {pid} (a person's psql) has held the write lock".encode() in answer.body
    assert f"SELECT pg_terminate_backend({pid})".encode() in answer.body
    assert seconds < 5 + SLACK
    until(lambda: b"[+]writes ok" in own.client("").get("/readyz?verbose").body or None, within=90)


def test_readiness_is_bounded_where_a_table_it_reads_is_locked(own: Server) -> None:
    with psycopg.connect(own.environment["DATABASE_URL"]) as session:
        session.execute("LOCK TABLE objects_lease, objects_due, django_migrations, objects_counter")
        alive = timed(lambda: own.client("").get("/livez"))
        until(lambda: own.client("").get("/readyz").status == 503, within=60)  # a look is kept for a second
        answer, seconds = timed(lambda: own.client("").get("/readyz"))

    assert (alive[0].status, alive[0].body) == (200, b"ok")
    assert alive[1] < 1 + SLACK / 4
    assert answer.status == 503
    assert seconds < 5 + SLACK


def test_a_database_that_became_read_only_is_reported_as_that(own: Server) -> None:
    own._sql(f'ALTER DATABASE "{own.database}" SET default_transaction_read_only = on')
    try:
        own._sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{own.database}'")
        answer = until(lambda: refused(own.client()), within=SECONDS)
        ready = until(lambda: found(own, b"[-]writes PostgreSQL is read-only"), within=SECONDS)
        read = until(lambda: found_read(own), within=SECONDS)
    finally:
        own._sql(f'ALTER DATABASE "{own.database}" RESET default_transaction_read_only')
        own._sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{own.database}'")

    assert "PostgreSQL is read-only" in answer.document["message"]
    assert "25006" in answer.document["message"]
    assert (ready.status, read.status) == (200, 200)
    until(lambda: own.client().post(config_maps("default"), config_map("writable")).status == 201, within=SECONDS)


def refused(client: Client) -> Answer | None:
    """Return the answer to a write; None while it is of a connection that was ended."""
    answer = client.post(config_maps("default"), config_map("read-only"))
    assert answer.status == 503, answer.body
    return answer if "25006" in answer.document["message"] else None


def found(server: Server, words: bytes) -> Answer | None:
    answer = server.client("").get("/readyz?verbose")
    return answer if words in answer.body else None


def found_read(server: Server) -> Answer | None:
    answer = server.client().get("/api/v1/namespaces/default")
    return answer if answer.status == 200 else None


def test_a_strange_host_learns_that_the_process_lives(own: Server) -> None:
    """Probes of Kubernetes name the address of the pod as the host."""
    answer = own.client("").send("GET", "/livez", None, {"Host": "10.1.2.3:8001"})

    assert (answer.status, answer.body) == (200, b"ok")
