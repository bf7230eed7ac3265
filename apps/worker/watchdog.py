"""Runs groups that receive no ticks, in each process of the pool, and reports a main process that does not run.

Ticks may be missing because beat or the broker is away, the queue is full, or the broker refuses writes. All of these
show in the lease rows of the database: while ticks arrive, the lease of every group is held nearly all the time.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable
from typing import Final

from django.db import OperationalError, close_old_connections

from apps.objects.refusal import cause
from apps.objects.store import DjangoStore
from apps.worker.clock import monotonic_seconds
from apps.worker.groups import INTERVAL_SECONDS, tick_names
from apps.worker.nudges import KeptNudges
from apps.worker.presence import take_presence_lease
from apps.worker.tick_times import TickTimes
from controlplane.engine.state import HeldLease

log = logging.getLogger(__name__)

LOOK_SECONDS = INTERVAL_SECONDS / 2  # between two checks of the leases
SHARED_SECONDS = 0.9 * LOOK_SECONDS  # for so long the others of a pool rely on a process that found all groups run
QUIET_SECONDS = 2 * INTERVAL_SECONDS  # a group whose lease was free for so long is run without a tick
STOPPED: Final = "worker-stopped"  # lease that a pool holds while its main process does not run
STOPPED_SECONDS = 5.0  # without a sign of the main process


class Watchdog:
    """A thread of one process of the pool."""

    def __init__(
        self,
        tick_times: TickTimes,
        store: DjangoStore,
        turn: Callable[[str], object],
        stopping: threading.Event,
        *,
        nudges: KeptNudges,
    ) -> None:
        self._tick_times = tick_times
        self._store = store
        self._turn = turn
        self._stopping = stopping
        self._nudges = nudges
        self._main = f"{socket.gethostname()}:{tick_times.main}"
        self._stopped: HeldLease | None = None
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait at most `seconds` until this thread has ended. `stopping` must be set before."""
        self._thread.join(seconds)

    def _run(self) -> None:
        began, database_away = monotonic_seconds(), False
        while not self._stopping.wait(LOOK_SECONDS):
            self._nudges.close_unused(QUIET_SECONDS)
            if monotonic_seconds() - began < QUIET_SECONDS:
                continue
            try:
                self._report_main()
                self.run_free_group()
                database_away = False
            except OperationalError as error:
                if not database_away:
                    log.warning("cannot read which leases are free: %s", cause(error))
                database_away = True
            except Exception:
                log.exception("a turn without a tick failed; it is tried again")
            finally:
                close_old_connections()

    def _report_main(self) -> None:
        """Hold a lease while the main process of this pool is stopped, killed or hangs. All of the pool share it."""
        if self._tick_times.main_stopped(monotonic_seconds(), after=STOPPED_SECONDS):
            seconds = 3 * LOOK_SECONDS
            self._stopped = take_presence_lease(self._store, STOPPED, self._stopped, holder=self._main, seconds=seconds)
        elif self._stopped is not None:
            self._store.drop_lease(self._stopped, holder=self._main)
            self._stopped = None

    def run_free_group(self) -> None:
        """Take a turn with a group whose lease is free: the one whose last turn without a tick is longest ago.

        Of groups without such a turn, each process prefers another one.
        """
        now, names = monotonic_seconds(), tick_names()
        if self._tick_times.all_ran_within(SHARED_SECONDS, now):
            return
        held = {f"{group}/{shard}" for group, shard in self._store.held_lately(QUIET_SECONDS)}
        if held.issuperset(names):
            self._tick_times.all_run(now)
            return
        first = os.getpid() % len(names)
        for name in sorted(names[first:] + names[:first], key=self._tick_times.latest_without_tick):
            if name in held:
                continue
            if self._tick_times.claim_without_tick(name, monotonic_seconds(), after=QUIET_SECONDS):
                log.warning("%s: its lease was free for %g s; it is run without ticks", name, QUIET_SECONDS)
                self._turn(name)
                return
