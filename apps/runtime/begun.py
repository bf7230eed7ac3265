"""Which groups a process and those forked from it have begun with: Celery's pool has one start, not one per process."""

from __future__ import annotations

import mmap
from collections.abc import Sequence


class Begun:
    """A mark for each name, shared with every process forked later: memory of this process, a byte for each."""

    def __init__(self, names: Sequence[str]) -> None:
        self._place = {name: place for place, name in enumerate(names)}
        self._marks = mmap.mmap(-1, len(names))

    def __contains__(self, name: str) -> bool:
        return self._marks[self._place[name]] != 0

    def add(self, name: str) -> None:
        """Mark a name. Raises KeyError where it is none of those given."""
        self._marks[self._place[name]] = 1
