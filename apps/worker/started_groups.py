"""The groups that this worker has started. They are remembered when Celery replaces a process of the pool."""

from __future__ import annotations

import mmap
from collections.abc import Sequence


class StartedGroups:
    """A set of names of groups, in memory that all processes forked later share. `names`: all that may be added."""

    def __init__(self, names: Sequence[str]) -> None:
        self._index = {name: index for index, name in enumerate(names)}
        self._marks = mmap.mmap(-1, len(names))

    def __contains__(self, name: str) -> bool:
        return self._marks[self._index[name]] != 0

    def add(self, name: str) -> None:
        """Record that a group has started. Raises KeyError for a name that was not given at the start."""
        self._marks[self._index[name]] = 1
