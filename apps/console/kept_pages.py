"""Pages that are shown again while the database cannot be read: the last ones that each login has seen.

Sessions are in the database. While it is away, a page is found by the cookie of the session alone. Only the process
that has shown the page to the same session within the last hour has it.
"""

from __future__ import annotations

import hashlib
import threading
import zlib
from collections import OrderedDict
from datetime import datetime
from typing import Final, NamedTuple

from django.conf import settings
from django.http import HttpRequest
from django.template.loader import render_to_string

from apps.api.clock import ticks

MAX_BYTES: Final = 8 * 1024 * 1024  # of all kept pages of a process, compressed; the oldest are dropped first
_LEVEL: Final = 1  # of the compression: the fastest
MAX_SECONDS: Final = 3600.0
NOTICE_PLACE: Final = "<!-- notice -->"  # where base.html takes a notice


class KeptPage(NamedTuple):
    """A page as it was shown at a time of the database (`at`). `packed`: its text in UTF-8, compressed."""

    packed: bytes
    at: datetime
    shown_at: float  # seconds of the monotonic clock

    def text_with(self, why: str) -> str:
        """Return the page with a notice that says why it is old."""
        notice = render_to_string("console/away.html", {"at": self.at, "why": why})
        text = zlib.decompress(self.packed).decode()
        return text.replace(NOTICE_PLACE, notice, 1).replace("data-stream=", "data-kept data-stream=", 1)


class KeptPages:
    """The kept pages of a process. May be used from any thread."""

    def __init__(self) -> None:
        self._pages: OrderedDict[tuple[str, str], KeptPage] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def keep(self, request: HttpRequest, text: str, *, at: datetime) -> None:
        """Keep the page that a session was shown. Callers without a session have no kept page."""
        if (key := _key(request)) is None:
            return
        packed = zlib.compress(text.encode(), _LEVEL)
        with self._lock:
            self._drop(key)
            self._pages[key] = KeptPage(packed, at, ticks())
            self._bytes += len(packed)
            while self._bytes > MAX_BYTES and len(self._pages) > 1:
                self._drop(next(iter(self._pages)))

    def find(self, request: HttpRequest) -> KeptPage | None:
        """Return what the session of a request was shown last at this URL; None: nothing in the last hour."""
        key = _key(request)
        with self._lock:
            found = self._pages.get(key) if key is not None else None
        return found if found is not None and ticks() - found.shown_at <= MAX_SECONDS else None

    def _drop(self, key: tuple[str, str]) -> None:
        if (dropped := self._pages.pop(key, None)) is not None:
            self._bytes -= len(dropped.packed)


def _key(request: HttpRequest) -> tuple[str, str] | None:
    cookie = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    if not cookie or "Authorization" in request.headers:
        return None
    return hashlib.sha256(cookie.encode()).hexdigest(), request.get_full_path()


KEPT: Final = KeptPages()
