"""The clock of worker processes, for waiting and intervals only. Decisions get the time of the database."""

from __future__ import annotations

import time


def monotonic_seconds() -> float:
    """Return seconds that only grow. Only differences mean something."""
    return time.monotonic()
