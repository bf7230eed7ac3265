"""The lines of a watch stream. Each line is a JSON document.

Documents are passed as the bytes that are stored, so that no document is encoded again.
"""

from __future__ import annotations

from typing import Any

import orjson

from controlplane.apimachinery.errors import StatusError
from controlplane.wire.status import status_of
from controlplane.wire.table import partial_object_metadata

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def frame(event: str, document: bytes) -> bytes:
    """Return the line of an event (ADDED, MODIFIED or DELETED) with an encoded document."""
    return b'{"type":"%b","object":%b}\n' % (event.encode(), document)


def bookmark(
    api_version: str, kind: str, resource_version: str | int, *, initial_events_end: bool = False, form: str = ""
) -> bytes:
    """Return the line of a bookmark: all changes up to this resourceVersion have been sent.

    initial_events_end: the bookmark ends the initial events that sendInitialEvents asks for.
    form: the kind to which the watch converts its objects: Table or PartialObjectMetadata. Clients of metadata can
    decode no other kind. "": it sends the objects themselves.
    """
    metadata: dict[str, Any] = {"resourceVersion": str(resource_version)}
    if initial_events_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    shown: dict[str, Any] = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
    if form == "PartialObjectMetadata":
        shown = partial_object_metadata(shown)
    elif form == "Table":
        rows = [{"cells": [], "object": shown}]
        shown = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "rows": rows}
    return frame("BOOKMARK", orjson.dumps(shown))


def error_frame(error: StatusError) -> bytes:
    """Return the last line of a stream that ends with an error, usually 410 Expired."""
    return frame("ERROR", orjson.dumps(status_of(error)))
