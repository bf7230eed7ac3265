"""Returns memory that nothing uses to the system: Python and the C library keep it otherwise.

Closed connections and answered requests are objects that refer to each other. Python looks for those only after 50,000
new objects (`config/__init__.py`), and for those that have survived two looks after millions. A process with little to
do would grow for hours.
"""

from __future__ import annotations

import ctypes
import gc
import threading
from itertools import count
from typing import Final

INTERVAL_SECONDS: Final = 30.0
EVERYTHING_EACH: Final = 10  # looks; the objects of a connection that was open during a look are freed by one of these
_YOUNG, _ALL = 1, 2  # up to this generation of Python's garbage collector


def return_free_memory(*, everything: bool = True) -> bool:
    """Return free pages of this process to the system. False: the C library has no such function.

    Objects that only refer to each other are freed first. everything: also those that have survived a look before. That
    takes some milliseconds for 100,000 objects, and Python does nothing else meanwhile.

    Documents are larger than the blocks that Python keeps for itself, so most of a batch is in memory of the C library.
    """
    gc.collect(_ALL if everything else _YOUNG)
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only in glibc
    if trim is None:
        return False
    trim(0)
    return True


def keep_returning() -> None:
    """Return free memory again and again, in a thread that ends with the process.

    Objects that exist now are not looked at: most of them are code, which stays.
    """
    gc.collect()
    gc.freeze()
    threading.Thread(target=_run, name="free-memory", daemon=True).start()


def _run() -> None:
    for look in count(1):
        return_free_memory(everything=look % EVERYTHING_EACH == 0)
        threading.Event().wait(INTERVAL_SECONDS)
