"""Connections to the database break, at any moment and all at once: workers and members connect again and go on."""

from __future__ import annotations

import select
from pathlib import Path

import psycopg
import pytest
from django.db import OperationalError, connection, transaction

from apps.objects.apply import binary_cursor
from apps.objects.notifications import listening
from tests.apps.stack import WITHIN, Stack, deployment, policy, stack
from tests.processes import Process, until

pytestmark = pytest.mark.django_db(transaction=True)

BREAKS = 20


def break_all() -> int:
    """End the database's sessions of all other processes; return how many there were. What this one keeps for later
    ends as well, and is forgotten."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        ended = int(cursor.fetchone()[0])
    connection.close()
    connection.close_pool()
    return ended


@pytest.mark.slow
def test_a_worker_and_the_members_process_outlive_connections_that_break_while_they_work(
    tmp_path: Path, redis_url: str, redis_client: object
) -> None:
    with stack(tmp_path, redis_url, "member1") as running:
        with running.processes.at_once():
            processes = [running.processes.worker(), running.processes.beat(), running.processes.members()]
        running.join("member1")
        running.create(policy("member1"))

        for number in range(BREAKS):
            until(break_all, within=WITHIN, every=0.01)
            running.create(deployment(f"web-{number}"))

        until(lambda: is_everywhere(running), within=WITHIN)
        assert [one.poll() for one in processes] == [None] * len(processes)
        assert not tracebacks(running, processes)


def is_everywhere(running: Stack) -> bool:
    return all(running.healthy(f"web-{number}") == {"member1"} for number in range(BREAKS))


def tracebacks(running: Stack, processes: list[Process]) -> list[str]:
    """Return the lines of the logs in which an unexpected error is reported."""
    logs = running.processes.folder.glob("*.log")
    return [line for log in logs for line in log.read_text().splitlines() if "Traceback" in line]


@pytest.mark.slow
def test_workers_and_members_log_a_held_write_lock_and_go_on_when_it_is_free(
    tmp_path: Path, redis_url: str, redis_client: object
) -> None:
    with stack(tmp_path, redis_url, "member1", database_lock_seconds="1") as running:
        with running.processes.at_once():
            processes = [running.processes.worker(), running.processes.beat(), running.processes.members()]
        running.join("member1")
        running.create(policy("member1"))
        running.create("\n---\n".join(deployment(f"web-{number}") for number in range(BREAKS)))

        with psycopg.connect(**connection.get_connection_params()) as person:  # type: ignore[arg-type]
            person.execute("SET idle_in_transaction_session_timeout = 0")
            person.execute("SELECT 1 FROM objects_counter WHERE id = 1 FOR UPDATE")
            until(lambda: "another session holds a lock" in log_of(running, "worker"), within=WITHIN)
            until(lambda: "another session holds a lock" in log_of(running, "members"), within=WITHIN)

        until(lambda: is_everywhere(running), within=WITHIN)
        assert [one.poll() for one in processes] == [None] * len(processes)
        assert not tracebacks(running, processes)


def log_of(running: Stack, name: str) -> str:
    return "".join(log.read_text() for log in running.processes.folder.glob(f"{name}-*.log"))


@pytest.mark.parametrize(
    "ending",
    ["SELECT pg_terminate_backend(pg_backend_pid())", "SET LOCAL idle_in_transaction_session_timeout = '10ms'"],
)
def test_a_session_that_was_ended_is_an_operational_error_as_of_any_cursor_of_django(ending: str) -> None:
    with pytest.raises(OperationalError):
        ask_after(ending)


def ask_after(ending: str) -> None:
    with transaction.atomic(), binary_cursor() as cursor:
        cursor.run(ending)
        select.select([cursor.connection.fileno()], [], [], WITHIN)  # the server says that it has ended it
        cursor.run("SELECT 1")


def test_listening_is_done_with_all_that_the_databases_url_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "application_name", "reported in the URL")

    with listening("lifeboat") as own:
        assert own.info.get_parameters()["application_name"] == "reported in the URL"
