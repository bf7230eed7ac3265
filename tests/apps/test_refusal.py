"""What PostgreSQL refuses is reported with its cause, and without addresses, logins and content of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, InternalError, connection, transaction

from apps.api.error_mapping import is_away, status_error
from apps.objects.apply import binary_cursor
from apps.objects.refusal import REFUSES, UNKNOWN, cause, sqlstate

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "correct-horse-battery"
ROLE = "lifeboat_of_a_test"


def parameters(**other: Any) -> dict[str, Any]:
    given = {**connection.get_connection_params(), "connect_timeout": 2}
    return {name: value for name, value in {**given, **other}.items() if value is not None}


@contextmanager
def role() -> Iterator[str]:
    """A login that is no superuser: limits of connections do not hold for those."""
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{SECRET}' CONNECTION LIMIT 0")
        try:
            yield ROLE
        finally:
            cursor.execute(f"DROP ROLE {ROLE}")


def connecting(**other: Any) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught, psycopg.connect(**parameters(**other)):
        pass
    return caught.value


def test_a_server_that_takes_no_more_connections() -> None:
    with role() as name:
        error = connecting(user=name, password=SECRET)

    assert cause(error) == "PostgreSQL accepts no more connections (max_connections) (SQLSTATE 53300)"


@pytest.mark.parametrize(
    ("other", "reported"),
    [
        ({"dbname": SECRET}, "PostgreSQL has no database of that name (SQLSTATE 3D000)"),
        ({"user": SECRET}, "PostgreSQL refuses the login"),
        ({"host": "127.0.0.1", "port": 1}, "PostgreSQL is not reachable: the connection is refused"),
        ({"host": f"{SECRET}.invalid"}, "PostgreSQL is not reachable: its host name is unknown"),
        ({"host": f"/no/such/{SECRET}"}, "PostgreSQL is not reachable: its socket does not exist"),
    ],
    ids=["database", "login", "port", "host", "socket"],
)
def test_a_connection_that_cannot_be_made_is_reported_without_names(other: dict[str, Any], reported: str) -> None:
    error = connecting(**other)

    assert cause(error).startswith(reported)
    assert SECRET not in cause(error)


def refused(run: Callable[[Any], Any]) -> BaseException:
    with pytest.raises(DatabaseError) as caught, binary_cursor() as cursor:
        run(cursor)
    return caught.value


@pytest.mark.parametrize("state", ["53100", "53200", "57P03", "58030", "55P03", "57014", "40P01"])
def test_a_refusal_of_the_server_is_reported_by_its_state_and_not_in_its_words(state: str) -> None:
    block = f"DO $$ BEGIN RAISE EXCEPTION '{SECRET}' USING ERRCODE = '{state}'; END $$"

    error = refused(lambda cursor: cursor.run(block))

    assert sqlstate(error) == state
    assert cause(error).endswith(f"(SQLSTATE {state})")
    assert cause(error) != f"PostgreSQL refuses (SQLSTATE {state})"
    assert SECRET not in cause(error)


@pytest.mark.parametrize(
    ("state", "reported", "seconds"),
    [
        ("53100", "the disk of PostgreSQL is full", 5),
        ("53200", "PostgreSQL is out of memory", 5),
        ("25006", "PostgreSQL is read-only", 5),
        ("55P03", "another session holds a lock", 5),
        ("58030", "PostgreSQL cannot read or write its files", 5),
        ("57014", "a statement was cancelled", 1),
        ("40P01", "PostgreSQL ended a transaction to resolve a deadlock", 1),
    ],
)
def test_a_request_that_the_server_refuses_is_answered_with_the_cause(state: str, reported: str, seconds: int) -> None:
    """A cause that does not pass by itself is tried again after 5 s, any other after 1 s."""
    block = f"DO $$ BEGIN RAISE EXCEPTION '{SECRET}' USING ERRCODE = '{state}'; END $$"

    answer = status_error(refused(lambda cursor: cursor.run(block)))

    assert (answer.code, answer.details.retry_after_seconds) == (503, seconds)
    assert f"the database refused this request: {reported}" in str(answer)
    assert f"(SQLSTATE {state})" in str(answer)
    assert "not reachable" not in str(answer)


def test_a_request_without_a_connection_left_is_answered_with_the_cause() -> None:
    with role() as name:
        answer = status_error(connecting(user=name, password=SECRET))

    assert (answer.code, answer.details.retry_after_seconds) == (503, 5)
    assert "PostgreSQL accepts no more connections (max_connections) (SQLSTATE 53300)" in str(answer)


@pytest.mark.parametrize(("limit", "value"), [("lock_timeout", "10s"), ("statement_timeout", "1min")])
def test_sessions_of_the_product_wait_no_longer_than_its_limits(limit: str, value: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [limit])

        assert cursor.fetchone() == (value,)


def test_a_read_only_database_is_an_operational_error_as_any_other_refusal() -> None:
    def write(cursor: Any) -> None:
        cursor.run("BEGIN READ ONLY")
        try:
            cursor.run("UPDATE objects_counter SET version = version")
        finally:
            cursor.run("ROLLBACK")

    error = refused(write)

    assert type(error).__name__ == "OperationalError"
    assert cause(error).startswith("PostgreSQL is read-only")


def test_a_read_only_database_is_a_503_for_the_writes_of_django_as_well() -> None:
    """For Django's own cursors, which write sessions and users, it is an InternalError."""
    statements = "SET TRANSACTION READ ONLY; UPDATE objects_counter SET version = version"
    with pytest.raises(InternalError) as caught, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statements)

    assert is_away(caught.value)
    answer = status_error(caught.value)
    assert (answer.code, answer.details.retry_after_seconds) == (503, 5)
    assert "PostgreSQL is read-only" in str(answer)
    assert not is_away(InternalError("something else"))


def test_an_unknown_error_is_reported_as_not_reachable() -> None:
    assert cause(psycopg.OperationalError(f"something about {SECRET}")) == UNKNOWN


def test_an_unknown_refusal_of_a_connection_names_the_log_of_the_server() -> None:
    assert cause(psycopg.OperationalError(f"connection failed: FATAL:  something about {SECRET}")) == REFUSES
