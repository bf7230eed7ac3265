"""The clock of worker processes, for waiting and intervals only. Decisions get the time of the database."""

from __future__ import annotations

import asyncio
import time


def monotonic_seconds() -> float:
    """Return seconds that only grow. Only differences mean something."""
    return time.monotonic()


async def pause_since(began: float, *, seconds: float) -> None:
    """Wait until so many seconds have passed since the monotonic time `began`."""
    await asyncio.sleep(max(0.0, began + seconds - monotonic_seconds()))
