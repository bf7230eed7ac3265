"""The clock of pages: ages in tables and deadlines of streams. What is stored carries the database's time."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def wall_now() -> datetime:
    """Return this host's time, for ages that people read."""
    return datetime.now(UTC)


def ticks() -> float:
    """Return monotonic seconds."""
    return time.monotonic()
