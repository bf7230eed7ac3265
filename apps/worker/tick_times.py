"""When a worker last received each tick, in memory that the processes of its pool share."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence


class Rings:
    """Two moments (monotonic seconds, 0: never) for each name, shared with every process that is forked later."""

    def __init__(self, names: Sequence[str]) -> None:
        self._place = {name: place for place, name in enumerate(names)}
        self._moments = memoryview(mmap.mmap(-1, 8 * (2 * len(names) + 1))).cast("d")
        self._count = len(names)
        self._main = os.getpid()

    @property
    def forked(self) -> bool:
        """Return whether this is a process of the pool, and not the one that receives the ticks."""
        return os.getpid() != self._main

    def note(self, name: str, moment: float) -> None:
        """Note that a tick of that name was received; unknown names are ignored."""
        if (place := self._place.get(name)) is not None:
            self._moments[place] = moment

    def latest(self, name: str) -> float:
        """Return when a tick of that name was received last."""
        return self._moments[self._place[name]]

    def volunteer(self, name: str, moment: float, *, after: float) -> bool:
        """Return whether the caller may take a turn without a tick: no other process of this worker began one within
        the `after` seconds before `moment`."""
        place = self._count + self._place[name]
        if moment - self._moments[place] < after:
            return False
        self._moments[place] = moment
        return True

    def end(self) -> None:
        """Tell every process of the pool that the worker is ending."""
        self._moments[2 * self._count] = 1.0

    @property
    def ended(self) -> bool:
        """Return whether the worker is ending."""
        return self._moments[2 * self._count] != 0.0
