"""The clock of an agent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from apps.worker.clock import monotonic_seconds


def machine_time() -> datetime:
    """Return the time of the machine."""
    return datetime.now(UTC)


class SteadyClock:
    """The time of the machine, which never goes back here.

    If the clock of the machine is set back, for example when it gets its time from the network for the first time,
    this one goes on from where it was. Otherwise all that is due would wait until the old time comes again, such as the
    next probe, while heartbeats go on.
    """

    def __init__(
        self, wall: Callable[[], datetime] = machine_time, monotonic: Callable[[], float] = monotonic_seconds
    ) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._last, self._last_at = wall(), monotonic()
        self._ahead = timedelta(0)

    def __call__(self) -> datetime:
        now, at = self._wall(), self._monotonic()
        if now < self._last:
            self._ahead += self._last - now + timedelta(seconds=at - self._last_at)
        self._last, self._last_at = now, at
        return now + self._ahead
