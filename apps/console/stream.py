"""GET /stream?page=<path>&page=<path>: the events of pages, as server-sent events, in one connection for each browser.

Each page is authorised as the page itself is. Every event names its page.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from django.http import HttpResponseBase, QueryDict
from django.urls import Resolver404, resolve
from rest_framework.request import Request

from apps.api.authorization import Attributes, authorize
from apps.api.clock import ticks
from apps.api.logins import login_of
from apps.api.pushes import Push, PushResponse
from apps.api.renderers import JSONRenderer
from apps.api.views import KubernetesView
from apps.console.board import AWAY, BOARD, EVERYTHING, SILENT_SECONDS
from apps.console.page import Page
from apps.console.shared import SHARED, SharedPart
from controlplane.apimachinery.errors import BadRequest, NotFound

MOST_PAGES: Final = 50  # pages of a stream: the visible tabs of a browser
ALIVE: Final = b"event: alive\ndata: {}\n\n"  # keeps the connection; a browser that misses it says that its page is old


class StreamView(KubernetesView):
    """Serves the stream of pages: the names of their parts, whenever the subjects of a part have changed."""

    http_method_names = ["get", "options"]

    def attributes(self, request: Request) -> Attributes:
        """Return what the first page that the reader may read attempts. Without such a page the request is refused."""
        asked = [page.attributes(request) for _, page in self._pages(request)]
        return next((one for one in asked[:-1] if authorize(one).allowed), asked[-1])

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        return JSONRenderer(), "application/json"  # of errors; the stream has its own type, which is not negotiated

    def get(self, request: Request) -> HttpResponseBase:
        topics = [
            Topics(url, page.subjects(), page.shared_part(request), allowed=page.attributes(request))
            for url, page in self._pages(request)
        ]
        return PushResponse(Push(allowed=self.attributes(request), login=login_of(request), source=Pages(topics)))

    def _pages(self, request: Request) -> list[tuple[str, Page]]:
        """Return the pages that the query names, by their URLs. Raises NotFound and BadRequest."""
        urls = list(dict.fromkeys(request.query_params.getlist("page"))) or ["/"]
        if len(urls) > MOST_PAGES:
            raise BadRequest(f"a stream serves at most {MOST_PAGES} pages, and {len(urls)} are named; close some tabs")
        return [(url, _page(url)) for url in urls]


def _page(url: str) -> Page:
    """Return the page at a URL, as the view that would serve it. Raises NotFound."""
    path = urlsplit(url)
    try:
        match = resolve(path.path)
    except Resolver404:
        match = None
    view: Any = getattr(match.func, "cls", None) if match is not None else None
    if match is None or view is None or not issubclass(view, Page):
        raise NotFound(f"{path.path} is not a page of the console")
    page: Page = view(**match.func.initkwargs)  # type: ignore[attr-defined]  # what as_view() adds to a view
    page.args, page.kwargs = match.args, match.kwargs
    page.query = QueryDict(path.query)
    return page


class Pages:
    """The source of the events of all pages of a stream."""

    def __init__(self, topics: Sequence[Topics]) -> None:
        self._topics = topics

    def open(self, wake: Callable[[], None]) -> None:
        for one in self._topics:
            one.open(wake)

    def close(self) -> None:
        for one in self._topics:
            one.close()

    def take(self) -> bytes:
        taken = [one.take() for one in self._topics]
        return b"".join(one for one in taken if one != ALIVE) or (ALIVE if ALIVE in taken else b"")


class Topics:
    """The source of the events of one page: the parts that have changed since the last event was sent.

    An event has the name of a part, or the whole part if it is shared.
    """

    def __init__(
        self, url: str, subjects: Mapping[str, Sequence[str]], shared: SharedPart | None, *, allowed: Attributes
    ) -> None:
        self._url = orjson.dumps(url)
        self._allowed = allowed
        self._parts = {part: frozenset(names) for part, names in subjects.items()}
        self._shared = shared
        self._sent: Any = None  # fingerprint of the shared part that was sent last
        self._event = b""  # the shared part to be sent
        self._changed = set[str]()
        self._silent = False
        self._woken_at = 0.0  # ticks at which the sender was woken last
        self._lock = threading.Lock()
        self._wake: Callable[[], None] | None = None

    def open(self, wake: Callable[[], None]) -> None:
        """Begin, with the parts that have changed since the page was rendered, which no stream has named."""
        self._wake = wake
        missed = BOARD.join(self._notify)
        own = "" if self._shared is None else self._shared.name  # the first notice compares it
        with self._lock:
            self._changed |= {
                part for part, names in self._parts.items() if part != own and (EVERYTHING in missed or names & missed)
            }
            has_missed = bool(self._changed)
        if has_missed:
            wake()

    def close(self) -> None:
        BOARD.leave(self._notify)

    def take(self) -> bytes:
        with self._lock:
            changed, self._changed = sorted(self._changed), set()
            silent, self._silent = self._silent, False
            event, self._event = self._event, b""
        if changed or event:
            topics = (self._written(b"topic", b',"name":' + orjson.dumps(part) + b"}") for part in changed)
            return event + b"".join(topics)
        return ALIVE if silent else b""

    def _notify(self, subjects: frozenset[str], round_: int) -> None:
        """Remember what a change concerns, and wake the sender. Without subjects: keep the connection.

        Changes that concern other pages only are silence after SILENT_SECONDS: this page is compared and kept awake.
        """
        if AWAY in subjects:
            return self._send(self._written(b"away"))
        if not authorize(self._allowed).allowed:  # the browser loads the page again, which says what the reader may do
            return self._send(self._written(b"login"))
        everything = EVERYTHING in subjects
        parts = {part for part, names in self._parts.items() if everything or names & subjects}
        event = self._written(b"back") if everything else b""
        is_first = self._sent is None  # the page may have been rendered before the last change
        is_silent = not subjects or ticks() - self._woken_at >= SILENT_SECONDS
        if self._shared is not None and (self._shared.name in parts or is_silent or is_first):
            parts.discard(self._shared.name)
            fingerprint, rendered = SHARED.document(self._shared, round_=round_)
            if fingerprint != self._sent:
                self._sent, event = fingerprint, event + self._written(b"part", b"," + rendered[1:])
        with self._lock:
            self._changed |= parts
            self._event = event or self._event
            self._silent |= is_silent
        if parts or event or is_silent:
            self._woken_at = ticks()
            if self._wake is not None:
                self._wake()

    def _written(self, name: bytes, rest: bytes = b"}") -> bytes:
        """Return an event about the page. `rest`: what its JSON has after the page."""
        return b"event: " + name + b'\ndata: {"page":' + self._url + rest + b"\n\n"

    def _send(self, event: bytes) -> None:
        """Send an event instead of all that was to be sent."""
        with self._lock:
            self._changed, self._event = set(), event
        if self._wake is not None:
            self._wake()
