"""The only place that reads a clock, and only for waiting: decisions get the database's now."""

from __future__ import annotations

import time


def ticks() -> float:
    """Return monotonic seconds."""
    return time.monotonic()
