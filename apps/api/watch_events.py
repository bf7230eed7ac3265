"""Events of watches: whether a change concerns a stream, and its line in the form of the stream."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import Executor
from typing import Any

import orjson

from apps.api.clock import wall_now
from apps.api.streams import Stream
from apps.objects.listing import Logged
from apps.objects.versions import texts_in_version
from controlplane.kind import Kind
from controlplane.wire.table import partial_object_metadata, table
from controlplane.wire.watch import ADDED, DELETED, MODIFIED, frame

_VERSION_OF = re.compile(rb'"resourceVersion":"\d+"')


class Event:
    """One change, shared by all streams. It is decoded at most once, and encoded once for each form and version."""

    __slots__ = ("_frames", "_new", "_old", "_versions", "change")

    def __init__(self, change: Logged) -> None:
        self.change = change
        self._new: Any = None
        self._old: Any = None
        self._frames: dict[tuple[str, str, str, bool], bytes] = {}
        self._versions: dict[int, asyncio.Future[Event]] = {}  # by the identity of the kind, which streams hold

    def type_for(self, stream: Stream, *, converted: bool = False) -> str:
        """Return the type of the event for a stream. "": the stream does not select the object.

        An object that begins to match the selectors is ADDED; an object that no longer matches is DELETED.
        `converted`: the event is in the version of the stream. Before that, a stream that selects converted objects
        selects all of its namespace or name.
        """
        change = self.change
        choice = stream.choice.place if stream.selects_converted and not converted else stream.choice
        if choice.namespace and change.namespace != choice.namespace:
            return ""
        if choice.is_everything:
            return change.event
        if choice.name and change.name != choice.name:
            return ""
        if self._new is None:
            self._new = orjson.loads(change.document)
        matches = choice.takes(self._new)
        if change.old_document is None:
            return change.event if matches else ""
        if self._old is None:
            self._old = orjson.loads(change.old_document)
        matched = choice.takes(self._old)
        if change.event == DELETED:
            return DELETED if matched else ""
        if matches:
            return MODIFIED if matched else ADDED
        return DELETED if matched else ""

    def frame(self, stream: Stream, event: str, *, definitions: bool) -> bytes:
        """Return the line of this event in the form of a stream."""
        key = (event, stream.convert, stream.include_object, definitions)
        line = self._frames.get(key)
        if line is None:
            line = self._frames[key] = shown(stream, event, self._document(event), definitions=definitions)
        return line

    def in_version(self, pool: Executor, kind: Kind) -> asyncio.Future[Event]:
        """Return the event as a kind shows its object, made once for all streams. It outlives a stream that ends."""
        if (found := self._versions.get(id(kind))) is None:
            found = asyncio.get_running_loop().run_in_executor(pool, _event_in_version, kind, self)
            self._versions[id(kind)] = found
        return asyncio.shield(found)

    def _document(self, event: str) -> bytes:
        """Return the object of the event. An object that no longer matches is shown as before, at this version."""
        change = self.change
        if event != DELETED or change.event == DELETED or change.old_document is None:
            return change.document
        return _VERSION_OF.sub(b'"resourceVersion":"%d"' % change.version, change.old_document, count=1)


async def in_version(pool: Executor, stream: Stream, event: Event) -> Event:
    """Return an event with its object in the version of a stream. A webhook of a user may have to convert it.

    Raises StatusError if it cannot be converted.
    """
    if stream.served is None:
        return event
    return await event.in_version(pool, stream.served)


def _event_in_version(kind: Kind, event: Event) -> Event:
    change = event.change
    texts = [text for text in (change.document, change.old_document) if text is not None]
    made = texts_in_version(kind, texts)
    if made is texts:
        return event
    return Event(change._replace(document=made[0], old_document=made[1] if len(made) > 1 else None))


def shown(stream: Stream, event: str, document: bytes, *, definitions: bool) -> bytes:
    """Return the line of an object in the form of a stream."""
    if stream.convert == "Table":
        decoded = orjson.loads(document)
        meta = {"resourceVersion": decoded["metadata"].get("resourceVersion", "")}
        rows = table(
            stream.resource,
            [decoded],
            now=wall_now(),
            include_object=stream.include_object,
            list_meta=meta,
            definitions=definitions,
            beside=stream.beside,
        )
        document = orjson.dumps(rows)
    elif stream.convert:
        document = orjson.dumps(partial_object_metadata(orjson.loads(document)))
    return frame(event, document)
