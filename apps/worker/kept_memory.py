"""Memory that a process of the pool keeps after large batches.

Python returns little of it, because small objects that stay keep large blocks in use. What was shared with the main
process of the worker is copied by each process once it is used. A new process has neither.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from apps.objects.free_memory import return_free_memory

MOST_KEPT: Final = 16 << 20  # bytes, more than at the start of the process
FEW: Final = 100  # objects: a turn that processed no more than these was a quiet one
QUIET: Final = 5.0  # seconds after the last large batch: more of it may be coming
YOUNGEST: Final = 20.0  # seconds that a process lives at least: a new one costs about 0.1 s of CPU, and has no caches
SLOWLY: Final = 300.0  # the same for a process without large batches: what it keeps, a new one will soon keep as well


class KeptMemory:
    """Finds out, after each turn, whether a new process had better take over."""

    def __init__(self, now: float) -> None:
        self._began = now
        self._large_batch: float | None = None  # when the last one ended; None: there was none
        self._at_start = own_memory()
        self.too_much = False

    def turn_ended(self, processed: int, now: float, *, evicting: bool = False) -> None:
        """Look at the memory after a turn that processed so many objects. Monotonic seconds.

        `evicting`: a process of this pool evicts many copies. Then none of the pool is replaced: evictions and the new
        Works would wait until the new process has started.
        """
        if processed > FEW:
            self._large_batch = now
        age, last = now - self._began, self._large_batch
        settled = age >= SLOWLY if last is None else age >= YOUNGEST and now - last >= QUIET
        self.too_much = settled and not evicting and self._keeps_much()

    def _keeps_much(self) -> bool:
        """Test whether the process has too much memory, also without what it can return."""
        if own_memory() - self._at_start <= MOST_KEPT:
            return False
        return_free_memory()
        return own_memory() - self._at_start > MOST_KEPT


def own_memory() -> int:
    """Return the bytes of memory of this process that are no part of a file. 0: the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:")), 0)
