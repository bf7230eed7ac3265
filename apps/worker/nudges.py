"""Waiting for work with PostgreSQL's LISTEN, so that a change is processed within milliseconds.

A notification that is lost costs time only: the due rows are looked at again after an interval.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from types import TracebackType
from typing import Self

import psycopg
from django.db import OperationalError

from apps.objects.due import CHANNEL
from apps.objects.notifications import listening, received
from apps.worker.clock import monotonic_seconds


class Nudges:
    """A database connection that receives which controllers have new due rows, and which leases were returned.

    Methods raise OperationalError.
    """

    def __init__(self) -> None:
        self._connection: psycopg.Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def listen(self) -> None:
        """Start to receive. Call this before looking for work, so that no notification is missed in between.

        A connection that was open before is read, which finds out whether the server has closed it meanwhile. What was
        notified is dropped, because the look for work follows.
        """
        if self._connection is not None:
            try:
                received(self._connection, 0.0)
            except psycopg.OperationalError:
                self.close()
        self._listening()

    def wait(self, seconds: float, names: frozenset[str]) -> bool:
        """Return True as soon as one of these is notified, False after `seconds`.

        `names`: controllers that wait for rows that are due soon, or a lease ("group/shard") that another process
        holds.
        """
        ends = monotonic_seconds() + seconds
        while (left := ends - monotonic_seconds()) > 0:
            if names & self.next_notified(left):
                return True
        return False

    def next_notified(self, seconds: float) -> set[str]:
        """Return the controllers and leases in the next notifications; empty if none arrive within `seconds`.

        LATER stands before the name of a controller that has no new row which is due soon.
        """
        connection = self._listening()
        try:
            return {name for one in received(connection, seconds) for name in one.payload.split(",")}
        except psycopg.OperationalError as error:
            self.close()
            raise OperationalError(str(error)) from error

    def _listening(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            try:
                self._connection = listening(CHANNEL)
            except psycopg.OperationalError as error:
                raise OperationalError(str(error)) from error
        return self._connection


class KeptNudges:
    """Nudges that stay open between two turns of a process, because a new session costs PostgreSQL about 20 ms of CPU.

    One turn at a time uses them. A turn in another thread has nudges of its own meanwhile.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: Nudges | None = None
        self._since = 0.0

    @contextmanager
    def taken(self) -> Iterator[Nudges]:
        """Yield nudges for one turn. After an error their connection is closed."""
        with self._lock:
            taken, self._kept = self._kept or Nudges(), None
        try:
            yield taken
        except BaseException:
            taken.close()
            raise
        self._keep(taken)

    def _keep(self, nudges: Nudges) -> None:
        with self._lock:
            spare, self._kept, self._since = self._kept, nudges, monotonic_seconds()
        if spare is not None:
            spare.close()

    def close_unused(self, seconds: float) -> None:
        """Close the connection if no turn has used it for so long: PostgreSQL keeps notifications that are not read."""
        with self._lock:
            if self._kept is None or monotonic_seconds() - self._since < seconds:
                return
            unused, self._kept = self._kept, None
        unused.close()
