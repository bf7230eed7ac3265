"""Waiting for work with PostgreSQL's LISTEN, so that a change is processed within milliseconds.

A notification that is lost costs time only: the due rows are looked at again after an interval.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import psycopg
from django.db import OperationalError

from apps.objects.due import CHANNEL
from apps.objects.notifications import listening
from apps.worker.clock import monotonic_seconds


class Nudges:
    """A database connection that receives which controllers have new due rows. Methods raise OperationalError."""

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
        """Start to receive. Call this before looking for work, so that no notification is missed in between."""
        self._listening()

    def wait(self, seconds: float, controllers: frozenset[str]) -> bool:
        """Return True as soon as one of the controllers has new due rows, False after `seconds`."""
        ends = monotonic_seconds() + seconds
        while (left := ends - monotonic_seconds()) > 0:
            if controllers & self.next_notified(left):
                return True
        return False

    def next_notified(self, seconds: float) -> set[str]:
        """Return the names of the controllers in the next notification, an empty set after `seconds`."""
        connection = self._listening()
        try:
            notifications = connection.notifies(timeout=seconds, stop_after=1)
            return {name for notification in notifications for name in notification.payload.split(",")}
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
