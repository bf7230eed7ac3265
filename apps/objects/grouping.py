"""Groups: writes of requests that arrive while a transaction is being written go into the next transaction together.

The first request that finds no transaction in progress leads: its thread writes what all waiting requests have decided.
What arrives meanwhile waits, and its first request leads the next group. So no request waits for more than the group
before its own, and a request that meets no other is written at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from threading import Lock
from typing import Protocol

import psycopg
from django.db import InterfaceError, OperationalError

from apps.objects import tracing
from controlplane.engine.decision import Decision
from controlplane.engine.state import Actor, Claim, Outcome

Decisions = Sequence[tuple[Claim | None, Decision]]

# The database is away, or refuses all writes: what holds for one request of a group holds for all of them.
_AWAY = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)


class Write(Protocol):
    """Writes decisions of one author. Outcomes of committed decisions are added to `written`, also before an error."""

    def __call__(self, decisions: Decisions, *, by: Actor, written: list[Outcome]) -> object: ...


class _Request:
    """The decisions of one request. `woken` is released when they are written, or when the request leads."""

    def __init__(self, decisions: Decisions, by: Actor) -> None:
        self.decisions = decisions
        self.by = by
        self.outcomes: list[Outcome] = []
        self.error: BaseException | None = None
        self.is_done = False
        self.woken = Lock()
        self.woken.acquire()


class Groups:
    """The groups of one process. Threads that write at the same time share transactions."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._lock = Lock()
        self._waiting: list[_Request] = []
        self._is_busy = False

    def apply(self, decisions: Decisions, *, by: Actor) -> list[Outcome]:
        """Write decisions and return their outcomes, in a transaction with those of other requests.

        Raises the errors of `Store.apply`. An error that the decisions of one request cause is raised for that request
        only. If the database is away, all requests of the group get its error.
        """
        mine = _Request(decisions, by)
        with self._lock:
            self._waiting.append(mine)
            leads, self._is_busy = not self._is_busy, True
        if not leads:
            mine.woken.acquire()
        if not mine.is_done:
            self._lead()
        tracing.mark_written((decision for _, decision in decisions), mine.outcomes)
        if mine.error is not None:
            raise mine.error
        return mine.outcomes

    def _lead(self) -> None:
        """Write what waits, wake its requests, and let the first of those that came meanwhile lead the next group."""
        with self._lock:
            group, self._waiting = self._waiting, []
        try:
            for by, members in groupby(group, key=lambda request: request.by):
                self._write_all(list(members), by=by)
        except BaseException as error:
            for request in group:
                request.error = request.error or (None if request.outcomes else error)
            raise
        finally:
            for request in group:
                request.is_done = True
                request.woken.release()
            with self._lock:
                following = self._waiting[0] if self._waiting else None
                self._is_busy = following is not None
            if following is not None:
                following.woken.release()

    def _write_all(self, members: list[_Request], *, by: Actor) -> None:
        """Write the decisions of requests of one author together. If that fails, each request is written alone."""
        written: list[Outcome] = []
        error: Exception | None = None
        try:
            self._write([pair for request in members for pair in request.decisions], by=by, written=written)
        except Exception as raised:  # noqa: BLE001  # the requests raise it
            error = raised
        place = 0
        for request in members:
            request.outcomes = written[place : place + len(request.decisions)]
            place += len(request.decisions)
            if len(request.outcomes) == len(request.decisions):
                continue
            if len(members) == 1 or request.outcomes or isinstance(error, _AWAY):
                request.error = error
            else:
                self._write_all([request], by=by)
