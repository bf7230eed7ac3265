"""What something was worked out from, to know when it need not be worked out again."""

from __future__ import annotations

from operator import is_
from typing import Any


class Seen:
    """Remembers what was looked at last. Whatever it is given is never changed, so what is the very same says the same:
    objects, rows, settings and moments are frozen, and a store lists a kind as the same tuple until one of it changes.
    """

    def __init__(self) -> None:
        self._last: tuple[Any, ...] | None = None

    def again(self, *looked_at: Any) -> bool:
        """Test whether all of this was looked at the last time; it is remembered for the next."""
        last, self._last = self._last, looked_at
        return last is not None and len(last) == len(looked_at) and all(map(is_, last, looked_at))
