"""Heartbeat intake: an API process keeps a lease that shows that agents can report their heartbeats.

While an API process holds this lease, a missing heartbeat counts as a failure of the cluster. A second thread checks
whether the database was restored from a backup, and records the newest version outside the database for that check.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from django.db import Error, close_old_connections

from apps.objects.refusal import cause
from apps.objects.store import DjangoStore
from apps.worker import restored
from apps.worker.presence import PRESENCE_LEASES, take_presence_lease
from apps.worker.turn import holder
from controlplane.clusters.heartbeats import LISTENING
from controlplane.engine.state import HeldLease

log = logging.getLogger(__name__)

SECONDS: Final = 5.0  # validity of the lease: a dead process counts as alive for at most this long
# The first lease of the second and further processes of a `manage.py serve`. So the first lease of all, whose process
# serves the figures of the fleet, is that of the process at LIFEBOAT_METRICS_PORT itself.
FURTHER: Final = PRESENCE_LEASES // 2


@lru_cache(maxsize=1)
def own_holder() -> str:
    """Return the name of this API process in lease rows."""
    return holder()


class Listening:
    """The threads of one process that renew the lease, and check for a restore.

    A Redis that does not answer takes long for the check. The lease must not wait for it: without the lease the silence
    of a lost cluster does not count. After a check that failed the lease is not renewed.
    The lease is not released at the end, because its time shows when agents could last report.
    """

    def __init__(self, number: int = 0) -> None:
        """`number`: which of the processes of one `manage.py serve` this is."""
        self._store = DjangoStore()
        self._first = FURTHER if number else 0
        self._holder = own_holder()
        self._lease: HeldLease | None = None
        self._may_listen = False  # what the last check found
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(self._check,), name="restores", daemon=True),
            threading.Thread(target=self._repeat, args=(self._renew,), name="listening", daemon=True),
        ]

    def start(self) -> None:
        """Take the lease and begin to renew it. Returns after the first attempt."""
        self._try(self._check)
        self._try(self._renew)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop renewing the lease."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(SECONDS)

    def _repeat(self, step: Callable[[], None]) -> None:
        while not self._stopping.wait(SECONDS / 3):
            self._try(step)

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Error as error:  # a process that cannot write cannot store heartbeats either
            log.warning("agents cannot report at present: %s", cause(error))
        finally:
            close_old_connections()

    def _check(self) -> None:
        try:
            restored.detector().check()
            self._may_listen = True
        except Error:
            self._may_listen = False
            raise

    def _renew(self) -> None:
        if self._may_listen:
            self._lease = take_presence_lease(
                self._store, LISTENING, self._lease, holder=self._holder, seconds=SECONDS, first=self._first
            )
