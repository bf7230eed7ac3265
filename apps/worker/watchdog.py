"""Turns without ticks: a process of the pool runs what nobody holds, whatever the reason that nobody rang.

The reason may be beat, the broker, a full queue or a broker that answers and refuses writes. The lease rows of the
database tell: where ticks arrive, every group is held nearly all the time.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from django.db import OperationalError, close_old_connections

from apps.objects.refusal import cause
from apps.objects.store import DjangoStore
from apps.worker.clock import ticks as clock
from apps.worker.groups import INTERVAL_SECONDS, ticks
from apps.worker.tick_times import Rings

log = logging.getLogger(__name__)

LOOK_SECONDS = INTERVAL_SECONDS / 2  # between two looks at the leases
QUIET_SECONDS = 2 * INTERVAL_SECONDS  # a group that nobody held for so long is run without a tick


class Watchdog:
    """A thread of one process of the pool."""

    def __init__(
        self, rings: Rings, store: DjangoStore, turn: Callable[[str], None], stopping: threading.Event
    ) -> None:
        self._rings = rings
        self._store = store
        self._turn = turn
        self._stopping = stopping
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait until the turn it may be in has given its lease back; `stopping` was set before."""
        self._thread.join(seconds)

    def _run(self) -> None:
        began, away = clock(), False
        while not self._stopping.wait(LOOK_SECONDS):
            if clock() - began < QUIET_SECONDS:
                continue
            try:
                self._look()
                away = False
            except OperationalError as error:
                if not away:
                    log.warning("cannot look which groups nobody holds: %s", cause(error))
                away = True
            except Exception:
                log.exception("a turn without a tick failed; another one follows")
            finally:
                close_old_connections()

    def _look(self) -> None:
        """Take a turn with the first group that nobody holds; each process begins at another one."""
        held = self._store.held_lately(QUIET_SECONDS)
        names = ticks()
        first = os.getpid() % len(names)
        for name in names[first:] + names[:first]:
            group, _, shard = name.partition("/")
            if (group, int(shard)) in held:
                continue
            if self._rings.volunteer(name, clock(), after=QUIET_SECONDS):
                log.warning("%s: nobody held it for %g s; it runs without ticks", name, QUIET_SECONDS)
                self._turn(name)
                return
