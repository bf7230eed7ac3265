"""Presence of beat: a lease shows others that it runs, and which of several sends the ticks.

Beat itself needs no database: without it, each beat sends ticks.
"""

from __future__ import annotations

import atexit
import logging
import threading
from typing import Final

from django.db import Error, close_old_connections

from apps.objects.refusal import cause
from apps.objects.store import DjangoStore
from apps.worker.presence import take_presence_lease
from apps.worker.turn import holder
from controlplane.engine.state import HeldLease

log = logging.getLogger(__name__)

BEAT: Final = "beat"
SECONDS: Final = 10.0  # validity of the lease
LEAVE_SECONDS: Final = 2.0  # how long a process that ends waits until its lease is returned


class BeatPresence:
    """The thread of a beat process that renews its lease. A process that is killed keeps it until it expires.

    The beat with the first lease sends ticks. Each of the others takes that lease when it is free.
    """

    def __init__(self, store: DjangoStore) -> None:
        self._store = store
        self._holder = holder()
        self._lease: HeldLease | None = None
        self._database_away = False
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)

    def start(self) -> None:
        """Start the thread. The lease is returned when this process ends."""
        atexit.register(self.leave)
        self._thread.start()

    def leave(self) -> None:
        """Have the thread return the lease, and wait for that, but not longer than LEAVE_SECONDS."""
        self._leaving.set()
        self._thread.join(LEAVE_SECONDS)

    def sends(self) -> bool:
        """Test whether this beat sends ticks: it has the first lease, or cannot know who has it."""
        lease = self._lease
        return self._database_away or lease is None or lease.shard == 0

    def _run(self) -> None:
        while not self._leaving.is_set():
            self.renew()
            self._leaving.wait(SECONDS / 3)
        self._return()

    def _return(self) -> None:
        """Return the lease. Otherwise a beat that starts soon after this one would send no ticks until it expires."""
        try:
            if self._lease is not None:
                self._store.drop_lease(self._lease, holder=self._holder)
        except Error as error:
            log.warning("beat could not return its lease, which expires within %g s: %s", SECONDS, cause(error))
        finally:
            close_old_connections()

    def renew(self) -> None:
        """Renew the lease, or take the first one if it is free."""
        try:
            self._take_first()
            self._lease = take_presence_lease(self._store, BEAT, self._lease, holder=self._holder, seconds=SECONDS)
            self._database_away = False
        except Error as error:
            if not self._database_away:
                log.warning("ticks are sent, but beat cannot show that it runs: %s", cause(error))
            self._database_away = True
        finally:
            close_old_connections()

    def _take_first(self) -> None:
        """Take the lease of the beat that sent the ticks and ended."""
        if self._lease is not None and self._lease.shard:
            first = self._store.take_lease(BEAT, 0, holder=self._holder, seconds=SECONDS)
            if first is not None:
                self._store.drop_lease(self._lease, holder=self._holder)
                self._lease = first
                log.info("this beat sends the ticks now, because the one that did has ended")
