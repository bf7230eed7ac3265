"""Heartbeat intake: an API process keeps a lease that shows that agents can report their heartbeats.

While an API process holds this lease, a missing heartbeat counts as a failure of the cluster. The same thread checks
whether the database was restored from a backup, and records the newest version outside the database for that check.
"""

from __future__ import annotations

import logging
import threading
from functools import lru_cache
from typing import Final

from django.db import Error, close_old_connections

from apps.objects.refusal import cause
from apps.objects.store import DjangoStore
from apps.worker import restored
from apps.worker.presence import take_presence_lease
from apps.worker.turn import holder
from controlplane.clusters.heartbeats import LISTENING
from controlplane.engine.state import HeldLease

log = logging.getLogger(__name__)

SECONDS: Final = 5.0  # validity of the lease: a dead process counts as alive for at most this long


@lru_cache(maxsize=1)
def own_holder() -> str:
    """Return the name of this API process in lease rows."""
    return holder()


class Listening:
    """The thread of one process that renews the lease.

    The lease is not released at the end, because its time shows when agents could last report.
    """

    def __init__(self) -> None:
        self._store = DjangoStore()
        self._holder = own_holder()
        self._lease: HeldLease | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="listening", daemon=True)

    def start(self) -> None:
        """Take the lease and begin to renew it. Returns after the first attempt."""
        self._try()
        self._thread.start()

    def stop(self) -> None:
        """Stop renewing the lease."""
        self._stopping.set()
        self._thread.join(SECONDS)

    def _run(self) -> None:
        while not self._stopping.wait(SECONDS / 3):
            self._try()

    def _try(self) -> None:
        try:
            self._hold()
        except Error as error:  # a process that cannot write cannot store heartbeats either
            log.warning("agents cannot report at present: %s", cause(error))
        finally:
            close_old_connections()

    def _hold(self) -> None:
        restored.detector().check()
        self._lease = take_presence_lease(self._store, LISTENING, self._lease, holder=self._holder, seconds=SECONDS)
