"""Which groups this worker has begun with: Celery replaces the processes of its pool, and that is no new start."""

from __future__ import annotations

import mmap
from collections.abc import Sequence


class Begun:
    """A set of names that this process shares with all it forks later; a byte of common memory for each."""

    def __init__(self, names: Sequence[str]) -> None:
        self._place = {name: place for place, name in enumerate(names)}
        self._marks = mmap.mmap(-1, len(names))

    def __contains__(self, name: str) -> bool:
        return self._marks[self._place[name]] != 0

    def add(self, name: str) -> None:
        """Mark a name. Raises KeyError where it is none of those given."""
        self._marks[self._place[name]] = 1
