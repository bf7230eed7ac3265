"""What a process knows of stored objects that nearly every request needs: at most half a second old."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import RLock

FRESH_SECONDS = 0.5
_NEVER = -math.inf


class Refreshed(ABC):
    """Reads stored objects at most every half second, in one thread; other threads use what was read before.

    Until something was read for the first time, all threads wait for it. So no request is decided without roles, kinds
    or admission rules because another thread is still reading them.
    """

    def __init__(self) -> None:
        self._read_at = _NEVER
        self._lock = RLock()

    def refresh(self, *, at_once: bool = False) -> None:
        """Read if the last reading is half a second old. `at_once`: read in any case.

        If the first reading fails, its error is raised, and the next call reads again. If a later one fails, calls of
        the next half second use what was read before it.
        """
        if not (at_once or self._is_old()):
            return
        if self._lock.acquire(blocking=at_once or self._read_at == _NEVER):
            try:
                if at_once or self._is_old():
                    began = time.monotonic()
                    if self._read_at != _NEVER:
                        self._read_at = began
                    self._read()
                    self._read_at = began
            finally:
                self._lock.release()

    def take_over(self, read: Callable[[], None], *, as_of: float) -> None:
        """Use what another object read from the database at the monotonic time `as_of`, unless this one read later."""
        with self._lock:
            if as_of > self._read_at:
                read()
                self._read_at = as_of

    @property
    def age(self) -> float:
        """Return the seconds since the last reading began; infinite: nothing was read yet."""
        return time.monotonic() - self._read_at

    def _is_old(self) -> bool:
        return self.age >= FRESH_SECONDS

    @abstractmethod
    def _read(self) -> None:
        """Bring up to date what is kept. Raises the error of the database."""
