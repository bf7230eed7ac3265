"""Listening: an API process shows that agents can report to it, so that their silence counts as a sign of failure.

On the same occasion it looks whether the database was restored, and marks outside how far the database has come.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from django.db import Error, close_old_connections

from apps.objects.refusal import cause
from apps.objects.store import DjangoStore
from apps.worker import restored
from apps.worker.presence import take_presence_lease
from apps.worker.turn import holder
from controlplane.clusters.heartbeats import LISTENING
from controlplane.engine.state import Fence

log = logging.getLogger(__name__)

SECONDS: Final = 5.0  # how long a process that is gone still seems to be there


class Listening:
    """One process's: a thread that keeps a lease. It is never given back: it tells when somebody was here last."""

    def __init__(self) -> None:
        self._store = DjangoStore()
        self._holder = holder()
        self._fence: Fence | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="listening", daemon=True)

    def start(self) -> None:
        """Show that this process is there, and go on showing it. Returns after the first look at the database."""
        self._try()
        self._thread.start()

    def stop(self) -> None:
        """Stop showing it."""
        self._stopping.set()
        self._thread.join(SECONDS)

    def _run(self) -> None:
        while not self._stopping.wait(SECONDS / 3):
            self._try()

    def _try(self) -> None:
        try:
            self._hold()
        except Error as error:  # a process that cannot write does not hear agents either
            log.warning("agents cannot report at present: %s", cause(error))
        finally:
            close_old_connections()

    def _hold(self) -> None:
        restored.detector().check()
        self._fence = take_presence_lease(self._store, LISTENING, self._fence, holder=self._holder, seconds=SECONDS)
