"""The frames of a watch stream: the initial state or earlier changes, then later changes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import orjson

from apps.simulator.requests import Request
from apps.simulator.store import Change, Store, Stored, Subscriber
from controlplane.apimachinery.errors import Expired
from controlplane.wire.negotiate import representation
from controlplane.wire.table import include_object_of, partial_object_metadata, table
from controlplane.wire.watch import ADDED, DELETED, MODIFIED, bookmark, error_frame, frame

MAX_PENDING = 50_000  # a client with more pending changes is too slow: its watch ends, and it must list again


class Watch:
    """The frames of a client's watch. The caller reads them in a loop; `subscriber` wakes it when there are more."""

    def __init__(self, request: Request, store: Store, subscriber: Subscriber) -> None:
        self._request = request
        self._store = store
        self._subscriber = subscriber
        self._choice = request.choice
        self._form = representation(request.accept)
        self._include = include_object_of(request.query.get("includeObject"))
        self._columns_sent = False
        self.over = False  # True: it ended with an error
        self.bookmarks = request.flag("allowWatchBookmarks")
        self.timeout_seconds = request.number("timeoutSeconds")

    def first(self) -> Iterator[bytes]:
        """Yield the first frames: the present state, or the changes after the requested version, or the error 410."""
        request, store = self._request, self._store
        text = request.query.get("resourceVersion", "")
        version = request.number("resourceVersion")
        initial = request.flag("sendInitialEvents")
        if initial or text in ("", "0"):
            for stored in store.all(request.target.resource.key, request.target.namespace):
                if self._choice.takes(stored.document):
                    yield self._shown(ADDED, stored)
            if initial and self.bookmarks:
                yield self.bookmark(initial_events_end=True)
            return
        if version < store.trimmed or version > store.version:
            yield error_frame(Expired(f"too old resource version: {version} ({store.trimmed})"))
            self.over = True
            return
        for change in store.changes_since(request.target.resource.key, version):
            yield from self._frames(change)

    def more(self) -> bytes:
        """Return the frames of all changes since the last call; b"": no selected object changed."""
        pending = self._subscriber.pending
        if len(pending) > MAX_PENDING:
            raise Expired("the client reads too slowly")
        frames: list[bytes] = []
        while pending:
            frames.extend(self._frames(pending.popleft()))
        return b"".join(frames)

    def bookmark(self, *, initial_events_end: bool = False) -> bytes:
        """Return a bookmark with the version of the last change that was sent."""
        resource = self._request.target.resource
        return bookmark(
            resource.api_version,
            resource.kind,
            self._store.version,
            initial_events_end=initial_events_end,
            form=self._form.convert,
        )

    def _frames(self, change: Change) -> Iterator[bytes]:
        """Yield the event for this client. An object that starts to match is ADDED, one that stops to match DELETED."""
        before = change.old is not None and self._choice.takes(change.old.document)
        now = self._choice.takes(change.new.document)
        if change.event == DELETED:
            if before:
                yield self._shown(DELETED, change.new)
        elif now:
            yield self._shown(MODIFIED if before else ADDED, change.new)
        elif before:
            yield self._shown(DELETED, change.new)

    def _shown(self, event: str, stored: Stored) -> bytes:
        if self._form.convert == "Table":
            shown = table(
                self._request.target.resource,
                [stored.document],
                now=datetime.now(UTC),
                include_object=self._include,
                list_meta={"resourceVersion": str(stored.version)},
                definitions=not self._columns_sent,
            )
            self._columns_sent = True
            return frame(event, orjson.dumps(shown))
        if self._form.convert:
            return frame(event, orjson.dumps(partial_object_metadata(stored.document)))
        return frame(event, stored.text)
