"""The sessions of the event loop: which statements they prepare, and what a failure costs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from psycopg import pq

from apps.objects.loop_session import LoopSession, PreparedStatement

pytestmark = pytest.mark.django_db(transaction=True)

ONE = PreparedStatement(b"one", b"SELECT 1", ())
TWO = PreparedStatement(b"two", b"SELECT 2", ())
BROKEN = PreparedStatement(b"broken", b"SELECT nothing FROM nowhere", ())


@contextmanager
def opened() -> Iterator[LoopSession]:
    session = LoopSession("lifeboat tests a session")
    session.open(session.connect())
    try:
        yield session
    finally:
        session.end()


async def run(session: LoopSession, statement: PreparedStatement) -> int | None:
    """Return how a statement ended; None: the session ended."""
    ended: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
    session.run(statement, (), lambda result: ended.set_result(None if result is None else result.status), within=20)
    return await ended


def test_a_statement_that_cannot_be_prepared_costs_the_prepared_statements_nothing() -> None:
    async def outcomes() -> list[int | None]:
        with opened() as session:
            return [await run(session, statement) for statement in (ONE, BROKEN, ONE, BROKEN, TWO, ONE, TWO)]

    done, failed = pq.ExecStatus.TUPLES_OK, pq.ExecStatus.FATAL_ERROR
    assert asyncio.run(outcomes()) == [done, failed, done, failed, done, done, done]
