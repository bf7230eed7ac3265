"""Memory that a process of the pool keeps after large batches.

Python returns little of it, because small objects that stay keep large blocks in use. What was shared with the main
process of the worker is copied by each process once it is used. A new process has neither.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

MOST_KEPT: Final = 16 << 20  # bytes, more than at the start of the process
YOUNGEST: Final = 30.0  # seconds that each process lives at least: a new one costs about 0.1 s of CPU
FEW: Final = 100  # objects: a turn that processed no more than these was a quiet one
QUIET: Final = 5.0  # seconds without any other turn: more of a large batch may be coming


class KeptMemory:
    """Finds out, after each turn, whether a new process had better take over."""

    def __init__(self, now: float) -> None:
        self._began = self._quiet_since = now
        self._at_start = own_memory()
        self.too_much = False

    def turn_ended(self, processed: int, now: float) -> None:
        """Look at the memory after a turn that processed so many objects. Monotonic seconds."""
        if processed > FEW:
            self._quiet_since = now
        settled = now - self._quiet_since >= QUIET and now - self._began >= YOUNGEST
        self.too_much = settled and own_memory() - self._at_start > MOST_KEPT


def own_memory() -> int:
    """Return the bytes of memory of this process that are no part of a file. 0: the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:")), 0)
