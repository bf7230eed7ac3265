"""Presence of beat: a lease shows others that it runs. Beat itself needs no database, and goes on without it."""

from __future__ import annotations

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


class BeatPresence:
    """The thread of a beat process that renews its lease. The lease expires when the process ends."""

    def __init__(self, store: DjangoStore) -> None:
        self._store = store
        self._holder = holder()
        self._lease: HeldLease | None = None
        self._database_away = False
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            self._renew()
            pause.wait(SECONDS / 3)

    def _renew(self) -> None:
        try:
            self._lease = take_presence_lease(self._store, BEAT, self._lease, holder=self._holder, seconds=SECONDS)
            self._database_away = False
        except Error as error:
            if not self._database_away:
                log.warning("ticks are sent, but beat cannot show that it runs: %s", cause(error))
            self._database_away = True
        finally:
            close_old_connections()
