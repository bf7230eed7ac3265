"""Single objects, read on the event loop: one prepared statement for all that wait, over a session of its own.

A thread with Django's connection costs more than the statement. So this uses libpq as the event loop does: it sends,
and looks at the answer when the socket has data. The session is opened in a thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final

import psycopg
from django.apps import apps
from django.db import connection
from psycopg import pq

from apps.objects.arrays import TextArray, texts
from apps.objects.models import StoredObject

log: Final = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 3.0  # a statement that is not answered in this time ends the session
SESSION: Final = "lifeboat reads single objects"
_place: Final = Struct("!q").unpack
_BINARY: Final = 1

Read = Callable[[list[bytes | None] | None], None]
"""Takes the documents in the order of their names; None for an object that does not exist. None: reading failed."""


class PointReads:
    """The session. All but `connect` runs on the event loop, and one statement at a time is under way."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._raw: Any = None  # keeps `_session` open
        self._session: pq.abc.PGconn | None = None  # None: not open
        self._socket = -1  # of the session; libpq names it no more when the server has closed it
        self._read: Read | None = None  # None: no statement is under way
        self._count = 0
        self._result: pq.abc.PGresult | None = None
        self._late: asyncio.TimerHandle | None = None
        self._is_writing = False

    @property
    def is_open(self) -> bool:
        """Test whether statements can be sent."""
        return self._session is not None

    @property
    def is_free(self) -> bool:
        """Test whether no statement is under way."""
        return self._read is None

    def connect(self) -> psycopg.Connection[Any]:
        """Return a new session with its prepared statements, for `open`. Blocks. Raises psycopg.Error."""
        given: dict[str, Any] = connection.get_connection_params()
        made = psycopg.connect(**{"application_name": SESSION, **given, "autocommit": True})
        try:
            for table in tables():
                done = made.pgconn.prepare(table.encode(), _query(table).encode(), [TextArray.oid] * 3)
                if done.status != pq.ExecStatus.COMMAND_OK:
                    raise psycopg.OperationalError(done.get_error_message())
            made.pgconn.nonblocking = 1
        except BaseException:
            made.close()
            raise
        return made

    def open(self, made: psycopg.Connection[Any]) -> None:
        """Use a session from now on."""
        self._loop = asyncio.get_running_loop()
        self._raw, self._session, self._socket = made, made.pgconn, made.pgconn.socket
        self._loop.add_reader(self._socket, self._readable)

    def close(self) -> None:
        """End the session. What is under way fails."""
        if self._session is None or self._loop is None:
            return
        self._loop.remove_reader(self._socket)
        if self._is_writing:
            self._loop.remove_writer(self._socket)
        self._raw.close()
        self._raw = self._session = self._result = None
        self._is_writing = False
        self._finish(None)

    def start(self, table: str, names: Sequence[tuple[str, str, str]], read: Read) -> None:
        """Read objects by (kind, namespace, name) from their table. `read` is called with the documents."""
        assert self._session is not None
        assert self._loop is not None
        self._read, self._count = read, len(names)
        columns = [texts(column).packed for column in zip(*names, strict=True)]
        try:
            self._session.send_query_prepared(table.encode(), columns, [_BINARY] * 3, _BINARY)
            self._late = self._loop.call_later(ANSWER_SECONDS, self._fail, "no answer in time")
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
            while self._read is not None and not session.is_busy():
                result = session.get_result()
                if result is None:
                    self._finish(self._documents())
                    return
                self._result = result
        except psycopg.Error as error:
            self._fail(str(error))

    def _documents(self) -> list[bytes | None] | None:
        """Return the documents of the result; None: the statement failed, and the session goes on."""
        result, self._result = self._result, None
        if result is None or result.status != pq.ExecStatus.TUPLES_OK or result.ntuples != self._count:
            log.warning("objects could not be read: %s", "no result" if result is None else result.get_error_message())
            return None
        found: list[bytes | None] = [None] * self._count
        for row in range(self._count):
            found[_place(result.get_value(row, 0) or b"")[0] - 1] = result.get_value(row, 1)
        return found

    def _finish(self, found: list[bytes | None] | None) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
        read, self._read = self._read, None
        if read is not None:
            read(found)

    def _fail(self, reason: str) -> None:
        """End the session, because it is broken or does not answer."""
        log.warning("the session that reads single objects ended: %s", reason.strip())
        self.close()


def tables() -> list[str]:
    """Return the names of the tables of stored objects."""
    models = (model for model in apps.get_models() if issubclass(model, StoredObject))
    return sorted({model._meta.db_table for model in models})


def _query(table: str) -> str:
    """Return the statement for documents by reference. The subquery looks up each reference in the index."""
    return f"""
        SELECT w.place, (
            SELECT o.doc FROM {table} o WHERE o.kind = w.kind AND o.namespace = w.namespace AND o.name = w.name)
        FROM unnest($1, $2, $3) WITH ORDINALITY AS w(kind, namespace, name, place)"""
