"""Clocks of the API process, for ages in tables and deadlines of streams. Stored times are the database's."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def wall_now() -> datetime:
    """Return the time of this host, for ages in tables."""
    return datetime.now(UTC)


def ticks() -> float:
    """Return the seconds of a monotonic clock, for deadlines."""
    return time.monotonic()
