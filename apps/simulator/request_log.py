"""The log of requests to a member, for tests."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

KEPT = 5_000


class RequestLog:
    """The latest requests to a member. An entry is made when a request arrives; status 0: it is not answered yet."""

    def __init__(self) -> None:
        self._entries: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._number = itertools.count(1)

    def begin(
        self, *, at: str, method: str, path: str, user_agent: str, impersonated: dict[str, Any]
    ) -> dict[str, Any]:
        """Add an entry for a request and return it. The caller sets `status` and `seconds` when it is answered."""
        entry = {
            "number": next(self._number),
            "at": at,
            "method": method,
            "path": path,
            "userAgent": user_agent,
            "impersonated": impersonated,
            "status": 0,
            "seconds": 0.0,
        }
        self._entries.append(entry)
        return entry

    def entries(self, *, after: int = 0) -> list[dict[str, Any]]:
        """Return the entries after the request with number `after`, oldest first."""
        return [entry for entry in self._entries if entry["number"] > after]

    def clear(self) -> None:
        """Delete all entries. The numbers of later requests continue."""
        self._entries.clear()
