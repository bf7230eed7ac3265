"""When a worker last received each tick, in memory that all processes of its pool share."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from typing import Final

MASS_COPIES: Final = 100  # so many in MASS_SECONDS are a mass eviction; below, a process that starts delays little
MASS_SECONDS: Final = 5.0


class TickTimes:
    """For each name the time of the last tick and of the last turn without a tick, shared with processes forked later.

    The main process also writes there that it runs, and of how many processes its pool is; processes of the pool that
    all groups run, and how many copies they evict. Times are monotonic seconds; 0: never.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._index = {name: index for index, name in enumerate(names)}
        self._times = memoryview(mmap.mmap(-1, 8 * (2 * len(names) + 7))).cast("d")
        self._count = len(names)
        self.main = os.getpid()

    @property
    def forked(self) -> bool:
        """Test whether this process belongs to the pool; the main process receives the ticks."""
        return os.getpid() != self.main

    def record(self, name: str, now: float) -> None:
        """Record that a tick was received. A name that was not given at the start is ignored."""
        if (index := self._index.get(name)) is not None:
            self._times[index] = now

    def latest(self, name: str) -> float:
        """Return when a tick of that name was last received."""
        return self._times[self._index[name]]

    def latest_without_tick(self, name: str) -> float:
        """Return when the last turn without a tick began in this worker."""
        return self._times[self._count + self._index[name]]

    def claim_without_tick(self, name: str, now: float, *, after: float) -> bool:
        """Return True if the caller may take a turn without a tick, and record that turn.

        False: a process of this worker began such a turn less than `after` seconds ago.
        """
        index = self._count + self._index[name]
        if now - self._times[index] < after:
            return False
        self._times[index] = now
        return True

    def end(self) -> None:
        """Mark the worker as ending, for all processes of the pool."""
        self._times[2 * self._count] = 1.0

    @property
    def ended(self) -> bool:
        """Test whether the worker is ending."""
        return self._times[2 * self._count] != 0.0

    def main_runs(self, now: float) -> None:
        """Record that the main process runs."""
        self._times[2 * self._count + 1] = now

    def pool_has(self, processes: int) -> None:
        """Record how many processes the pool has."""
        self._times[2 * self._count + 6] = processes

    @property
    def one_for_each(self) -> bool:
        """Test whether the pool has a process for each name."""
        return self._times[2 * self._count + 6] >= self._count

    def main_stopped(self, now: float, *, after: float) -> bool:
        """Test whether the main process has recorded nothing for `after` seconds. False: it never recorded anything."""
        last = self._times[2 * self._count + 1]
        return last != 0.0 and now - last > after

    def all_run(self, now: float) -> None:
        """Record that a process of the pool found all groups run."""
        self._times[2 * self._count + 2] = now

    def all_ran_within(self, seconds: float, now: float) -> bool:
        """Test whether a process of the pool found all groups run less than `seconds` ago."""
        last = self._times[2 * self._count + 2]
        return last != 0.0 and now - last < seconds

    def evicted(self, copies: int, now: float) -> None:
        """Record that so many copies have just been evicted. One process at a time evicts copies."""
        began, count = self._times[2 * self._count + 3 : 2 * self._count + 5]
        if now - began >= MASS_SECONDS:
            began, count = now, 0.0
        self._times[2 * self._count + 3], self._times[2 * self._count + 4] = began, count + copies
        if count + copies >= MASS_COPIES:
            self._times[2 * self._count + 5] = now

    def mass_eviction(self, now: float) -> bool:
        """Test whether many copies are being evicted, or were evicted less than MASS_SECONDS ago."""
        last = self._times[2 * self._count + 5]
        return last != 0.0 and now - last < MASS_SECONDS
