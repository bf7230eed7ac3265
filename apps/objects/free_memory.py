"""Returns memory that was freed to the system: after a large batch or answer the C library keeps it otherwise."""

from __future__ import annotations

import ctypes
import threading
from typing import Final

INTERVAL_SECONDS: Final = 30.0


def return_free_memory() -> bool:
    """Return free pages of this process to the system, within milliseconds. False: the C library has no such function.

    Documents are larger than the blocks that Python keeps for itself, so most of a batch is in memory of the C library.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only in glibc
    if trim is None:
        return False
    trim(0)
    return True


def keep_returning() -> None:
    """Return free memory again and again, in a thread that ends with the process."""
    threading.Thread(target=_run, name="free-memory", daemon=True).start()


def _run() -> None:
    while return_free_memory():
        threading.Event().wait(INTERVAL_SECONDS)
