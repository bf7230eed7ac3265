"""The pool of a worker: Celery's, of which a process ends between two turns if it has kept too much memory.

Celery's own limits count turns, or the largest memory ever. With the first, processes that need no new one are
replaced as well. With the second, this happens while much has to be done.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from collections.abc import Callable
from typing import Any, Final

from billiard.pool import EX_RECYCLE
from celery import platforms
from celery.concurrency import asynpool, prefork

from apps.worker.clock import monotonic_seconds
from apps.worker.kept_memory import KeptMemory

log = logging.getLogger(__name__)

PR_SET_PDEATHSIG: Final = 1  # of prctl(2)

kept: KeptMemory | None = None  # None: not a process of the pool


def end_with_parent(signal: int) -> None:
    """Make the kernel send a signal to this process when its parent ends. Raises OSError where that is not possible."""
    if not sys.platform.startswith("linux"):
        raise OSError("only Linux sends a signal when the parent ends")
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


# billiard's own function makes each process of the pool load a parser of C: 5 MB of memory and 0.05 s of CPU.
platforms._set_pdeathsig = end_with_parent


class PoolProcess(asynpool.Worker):
    """A process of the pool."""

    def on_loop_start(self, pid: int) -> None:
        global kept
        kept = KeptMemory(monotonic_seconds())
        super().on_loop_start(pid)

    def _make_child_methods(self, *arguments: Any) -> None:
        super()._make_child_methods(*arguments)
        received: Callable[[], Any] = self.wait_for_job  # type: ignore[has-type]  # billiard has no types

        def wait_for_job() -> Any:
            if kept is not None and kept.too_much:
                log.info("this process ends, because it has kept much memory; another one takes over")
                sys.exit(EX_RECYCLE)
            return received()

        self.wait_for_job = wait_for_job


class AsyncPool(asynpool.AsynPool):
    """Starts these processes."""

    Worker = PoolProcess
    _processes: int

    @property
    def size(self) -> int:
        """Return how many processes the pool has when it is complete."""
        return self._processes


class ProcessPool(prefork.TaskPool):
    """What the setting `worker_pool` names."""

    Pool = AsyncPool


def turn_ended(processed: int, *, evicting: bool) -> None:
    """Look at the memory after a turn that processed so many objects. Outside of the pool nothing happens.

    `evicting`: as in `KeptMemory.turn_ended`.
    """
    if kept is not None:
        kept.turn_ended(processed, monotonic_seconds(), evicting=evicting)
