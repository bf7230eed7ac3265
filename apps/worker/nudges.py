"""Waiting for work: LISTEN, so that a change is looked at in milliseconds. A lost nudge costs time only."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import psycopg
from django.db import OperationalError

from apps.objects.due import CHANNEL
from apps.objects.notifications import listening
from apps.worker.clock import ticks


class Nudges:
    """A connection of its own that hears which controllers have new due rows. Raises OperationalError."""

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
        """Begin to hear: call before looking for work, so that nothing falls between."""
        self._listening()

    def wait(self, seconds: float, controllers: frozenset[str]) -> bool:
        """Return True as soon as one of the controllers has new work, False after `seconds`."""
        ends = ticks() + seconds
        while (left := ends - ticks()) > 0:
            if controllers & self.hear(left):
                return True
        return False

    def hear(self, seconds: float) -> set[str]:
        """Return the controllers of the next notices, the empty set after `seconds`."""
        own = self._listening()
        try:
            notices = own.notifies(timeout=seconds, stop_after=1)
            return {name for notice in notices for name in notice.payload.split(",")}
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
