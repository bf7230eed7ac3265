"""Frames of a watch stream: one JSON document a line.

Objects come in as the exact bytes that are stored, so a frame is a splice, not an encoding.
"""

from __future__ import annotations

from typing import Any

import orjson

from controlplane.apimachinery.errors import StatusError
from controlplane.wire.status import status_of

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def frame(event: str, document: bytes) -> bytes:
    """Return the line for one event, `event` being ADDED, MODIFIED or DELETED, around an encoded document."""
    return b'{"type":"%b","object":%b}\n' % (event.encode(), document)


def bookmark(
    api_version: str, kind: str, resource_version: str | int, *, initial_events_end: bool = False, table: bool = False
) -> bytes:
    """Return a bookmark: everything up to this resourceVersion has been sent.

    `initial_events_end` marks the end of the state that sendInitialEvents asked for.
    `table` wraps it as clients that watch Tables expect it.
    """
    metadata: dict[str, Any] = {"resourceVersion": str(resource_version)}
    if initial_events_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    shown: dict[str, Any] = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
    if table:
        rows = [{"cells": [], "object": shown}]
        shown = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "rows": rows}
    return frame("BOOKMARK", orjson.dumps(shown))


def error_frame(error: StatusError) -> bytes:
    """Return the last line of a stream that has to end because of an error, usually 410 Expired."""
    return frame("ERROR", orjson.dumps(status_of(error)))
