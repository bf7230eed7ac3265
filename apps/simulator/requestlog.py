"""What was asked of a member: tests read it instead of guessing."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

KEPT = 20_000


class RequestLog:
    """The last requests of a member. An entry is there from the moment a request arrives; status 0 is unanswered."""

    def __init__(self) -> None:
        self._entries: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._number = itertools.count(1)

    def begin(self, *, at: str, method: str, path: str, user_agent: str) -> dict[str, Any]:
        """Note a request; the caller fills in `status` and `seconds` when it is answered."""
        entry = {
            "number": next(self._number),
            "at": at,
            "method": method,
            "path": path,
            "userAgent": user_agent,
            "status": 0,
            "seconds": 0.0,
        }
        self._entries.append(entry)
        return entry

    def entries(self, *, after: int = 0) -> list[dict[str, Any]]:
        """Return the requests with a greater number, oldest first."""
        return [entry for entry in self._entries if entry["number"] > after]

    def clear(self) -> None:
        """Forget them all; numbers go on."""
        self._entries.clear()
