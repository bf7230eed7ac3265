"""A thread of each process of the pool that works while it holds a lease, so that one process at a time works."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from typing import Final

from django.db import OperationalError, close_old_connections

from apps.objects.refusal import cause
from apps.objects.store import DjangoStore
from apps.worker.turn import holder
from controlplane.engine.state import HeldLease

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0  # between two calls of `work` while something may wait
SELDOM_SECONDS: Final = 20.0  # the same while nothing can wait: the lease is renewed in time
STAND_BY_SECONDS: Final = 10.0  # between two tries to take a lease that another process holds
LEASE_SECONDS: Final = 60.0  # longer than a call of `work` with all its limits


class LeasedThread(ABC):
    """Calls `work` again and again until `stopping` is set. One object for each process.

    A call that fails is logged and repeated. The lease is returned at the end, or expires.
    """

    name: str  # of the lease and the thread
    subject: str  # what is worked on, in log lines

    def __init__(self, store: DjangoStore, stopping: threading.Event) -> None:
        self.store = store
        self.stopping = stopping
        self._holder = holder()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    @abstractmethod
    def work(self) -> float:
        """Do what is due, and return after how many seconds to call again."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended. `stopping` must be set before."""
        self._thread.join(seconds)

    def _run(self) -> None:
        lease: HeldLease | None = None
        wait = LOOK_SECONDS
        while not self.stopping.wait(wait):
            wait = LOOK_SECONDS
            try:
                lease = self.store.take_lease(self.name, 0, holder=self._holder, seconds=LEASE_SECONDS)
                wait = self.work() if lease is not None else STAND_BY_SECONDS
            except OperationalError as error:
                log.warning("%s wait: %s", self.subject, cause(error))
            except Exception:
                log.exception("%s could not be processed; this is tried again", self.subject)
            finally:
                close_old_connections()
        self._return(lease)

    def _return(self, lease: HeldLease | None) -> None:
        try:
            if lease is not None:
                self.store.drop_lease(lease, holder=self._holder)
        except OperationalError:
            pass  # the lease expires
        finally:
            close_old_connections()
