"""GET /stream?page=<path>: the events of a page, as server-sent events. It is authorised as the page itself is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.http import HttpResponseBase, QueryDict
from django.urls import Resolver404, resolve
from rest_framework.request import Request

from apps.api.authorization import Attributes, authorize
from apps.api.logins import login_of
from apps.api.pushes import Push, PushResponse
from apps.api.renderers import JSONRenderer
from apps.api.views import KubernetesView
from apps.console.board import AWAY, BOARD, EVERYTHING
from apps.console.page import Page
from apps.console.shared import SHARED, SharedPart
from controlplane.apimachinery.errors import NotFound

_ENDED = b"event: login\ndata: ended\n\n"  # the browser loads the page again, which says what the reader may do
_AWAY = b"event: away\ndata: database\n\n"
_BACK = b"event: back\ndata: database\n\n"
COMMENT = b": \n\n"  # keeps the connection, and means nothing to a browser


class StreamView(KubernetesView):
    """Serves the stream of a page: the names of its parts, whenever their subjects have changed."""

    http_method_names = ["get", "options"]

    def attributes(self, request: Request) -> Attributes:
        return self._page(request).attributes(request)

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        return JSONRenderer(), "application/json"  # of errors; the stream has its own type, which is not negotiated

    def get(self, request: Request) -> HttpResponseBase:
        page = self._page(request)
        allowed = page.attributes(request)
        source = Topics(page.subjects(), page.shared_part(request), allowed=allowed)
        return PushResponse(Push(allowed=allowed, login=login_of(request), source=source))

    def _page(self, request: Request) -> Page:
        """Return the page that the query names. Raises NotFound."""
        path = urlsplit(request.query_params.get("page", "/"))
        try:
            match = resolve(path.path)
        except Resolver404:
            match = None
        view: Any = getattr(match.func, "cls", None) if match is not None else None
        if match is None or view is None or not issubclass(view, Page):
            raise NotFound(f"{path.path} is no page of the console")
        page: Page = view(**match.func.initkwargs)  # type: ignore[attr-defined]  # what as_view() adds to a view
        page.args, page.kwargs = match.args, match.kwargs
        page.query = QueryDict(path.query)
        return page


class Topics:
    """The source of the events of one page: the parts that have changed since the last event was sent.

    An event has the name of a part, or the whole part if it is shared.
    """

    def __init__(
        self, subjects: Mapping[str, Sequence[str]], shared: SharedPart | None, *, allowed: Attributes
    ) -> None:
        self._allowed = allowed
        self._parts = {part: frozenset(names) for part, names in subjects.items()}
        self._shared = shared
        self._sent: Any = None  # fingerprint of the shared part that was sent last
        self._event = b""  # the shared part to be sent
        self._changed = set[str]()
        self._silent = False
        self._lock = threading.Lock()
        self._wake: Callable[[], None] | None = None

    def open(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        BOARD.join(self._notify)

    def close(self) -> None:
        BOARD.leave(self._notify)

    def take(self) -> bytes:
        with self._lock:
            changed, self._changed = sorted(self._changed), set()
            silent, self._silent = self._silent, False
            event, self._event = self._event, b""
        if changed or event:
            return event + b"".join(f"event: topic\ndata: {part}\n\n".encode() for part in changed)
        return COMMENT if silent else b""

    def _notify(self, subjects: frozenset[str], round_: int) -> None:
        """Remember what a change concerns, and wake the sender. Without subjects: keep the connection."""
        if AWAY in subjects:
            return self._send(_AWAY)
        if not authorize(self._allowed).allowed:  # the rights of the reader have changed since the stream began
            return self._send(_ENDED)
        everything = EVERYTHING in subjects
        parts = {part for part, names in self._parts.items() if everything or names & subjects}
        event = _BACK if everything else b""
        if self._shared is not None and (self._shared.name in parts or not subjects):
            parts.discard(self._shared.name)
            fingerprint, rendered = SHARED.event(self._shared, round_=round_)
            if fingerprint != self._sent:
                self._sent, event = fingerprint, event + rendered
        with self._lock:
            self._changed |= parts
            self._event = event or self._event
            self._silent = not subjects
        if (parts or event or not subjects) and self._wake is not None:
            self._wake()

    def _send(self, event: bytes) -> None:
        """Send an event instead of all that was to be sent."""
        with self._lock:
            self._changed, self._event = set(), event
        if self._wake is not None:
            self._wake()
