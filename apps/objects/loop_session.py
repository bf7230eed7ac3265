"""A database session of the event loop, for statements that are cheaper than a thread with Django's connection.

It uses libpq as the event loop does: it sends, and looks at the answer when the socket has data. The session is opened
in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import psycopg
from django.db import connection
from psycopg import pq

log: Final = logging.getLogger(__name__)

BINARY: Final = 1  # format of all parameters and answers
_DONE: Final = frozenset((pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK))


class PreparedStatement(NamedTuple):
    """An SQL statement with the types of its parameters. It is prepared when it is run for the first time."""

    name: bytes
    text: bytes
    types: tuple[int, ...]


Answered = Callable[[pq.abc.PGresult | None], None]
"""Takes the answer of a statement, which may be an error. None: the session ended, and what was done is unknown."""


class LoopSession:
    """The session. All but `connect` runs on the event loop, and one statement at a time is under way.

    `name`: of the session in pg_stat_activity.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._raw: Any = None  # keeps `_session` open
        self._session: pq.abc.PGconn | None = None  # None: not open
        self._socket = -1  # of the session; libpq names it no more when the server has closed it
        self._prepared: set[bytes] = set()
        self._answered: Answered | None = None  # None: no statement is under way
        self._began = 0.0
        self._next: Callable[[], None] | None = None  # sends the statement that is being prepared
        self._result: pq.abc.PGresult | None = None
        self._late: asyncio.TimerHandle | None = None
        self._is_writing = False
        self._has_ended = False  # it is not opened again

    @property
    def is_open(self) -> bool:
        """Test whether statements can be sent."""
        return self._session is not None

    @property
    def may_open(self) -> bool:
        """Test whether a session is missing and may be opened."""
        return not self.is_open and not self._has_ended

    @property
    def is_free(self) -> bool:
        """Test whether no statement is under way."""
        return self._answered is None

    @property
    def busy_seconds(self) -> float:
        """Return for how long a statement has been under way; 0: no statement is under way."""
        return 0.0 if self._answered is None else time.monotonic() - self._began

    def connect(self) -> psycopg.Connection[Any]:
        """Return a new session, for `open`. Blocks. Raises psycopg.Error."""
        given: dict[str, Any] = connection.get_connection_params()
        made = psycopg.connect(**{"application_name": self._name, **given, "autocommit": True})
        made.pgconn.nonblocking = 1
        return made

    def open(self, made: psycopg.Connection[Any]) -> None:
        """Use a session from now on. A second one is closed."""
        if self._has_ended or self.is_open:
            made.close()
            return
        self._loop = asyncio.get_running_loop()
        self._raw, self._session, self._socket = made, made.pgconn, made.pgconn.socket
        self._prepared = set()
        self._loop.add_reader(self._socket, self._readable)

    def end(self) -> None:
        """End the session for ever."""
        self._has_ended = True
        self.close()

    def close(self) -> None:
        """End the session. What is under way is answered with None."""
        if self._session is None or self._loop is None:
            return
        self._loop.remove_reader(self._socket)
        if self._is_writing:
            self._loop.remove_writer(self._socket)
        self._raw.close()
        self._raw = self._session = self._result = self._next = None
        self._is_writing = False
        self._finish(None)

    def is_alive(self) -> bool:
        """Test whether an open session may be used: the server has not ended it while no statement was under way."""
        if self._session is None:
            return False
        try:
            self._session.consume_input()
        except psycopg.Error as error:
            self._fail(str(error))
        return self.is_open

    def run(
        self, statement: PreparedStatement, params: Sequence[bytes | None], answered: Answered, *, within: float
    ) -> None:
        """Run a statement with packed parameters. Without an answer `within` seconds the session ends."""
        session, loop = self._session, self._loop
        assert session is not None
        assert loop is not None
        self._answered, self._began = answered, time.monotonic()
        self._late = loop.call_later(within, self._fail, "no answer in time")

        def send() -> None:
            session.send_query_prepared(statement.name, params, [BINARY] * len(params), BINARY)
            self._flush()

        def prepared() -> None:
            self._prepared.add(statement.name)
            send()

        try:
            if statement.name in self._prepared:
                send()
                return
            self._next = prepared
            session.send_prepare(statement.name, statement.text, statement.types)
            self._flush()
        except psycopg.Error as error:
            self._fail(str(error))

    def _flush(self) -> None:
        """Send what the socket takes, and the rest when it takes more."""
        assert self._session is not None
        assert self._loop is not None
        is_writing = self._session.flush() == 1
        if is_writing != self._is_writing:
            self._is_writing = is_writing
            if is_writing:
                self._loop.add_writer(self._socket, self._writable)
            else:
                self._loop.remove_writer(self._socket)

    def _writable(self) -> None:
        try:
            self._flush()
        except psycopg.Error as error:
            self._fail(str(error))

    def _readable(self) -> None:
        session = self._session
        assert session is not None
        try:
            session.consume_input()
            while self._answered is not None and not session.is_busy():
                result = session.get_result()
                if result is not None:
                    self._result = result
                elif not self._goes_on():
                    return
        except psycopg.Error as error:
            self._fail(str(error))

    def _goes_on(self) -> bool:
        """Send the statement that was prepared, and return True; False: what was under way is answered."""
        result, self._result = self._result, None
        send, self._next = self._next, None
        if send is not None and result is not None and result.status in _DONE:
            send()
            return True
        self._finish(result)
        return False

    def _finish(self, result: pq.abc.PGresult | None) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(result)

    def _fail(self, reason: str) -> None:
        """End the session, because it is broken or does not answer."""
        log.warning("the session %r ended: %s", self._name, reason.strip())
        self.close()
