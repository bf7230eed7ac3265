"""Reads what members send in lists and watches: objects, and the events of a watch."""

from __future__ import annotations

from typing import Any

from apps.clusters.response_reader import decoded


class Expired(Exception):
    """The member no longer has the changes from which a watch wants to start: list again."""


def event_of(line: bytes) -> tuple[str, dict[str, Any]]:
    """Return type and object of a line of a watch. Raises Expired, and ValueError if the line is malformed."""
    frame = decoded(line)
    match frame:
        case {"type": "ERROR"}:
            raise Expired
        case {"type": str(type_), "object": {"metadata": dict()}}:
            return type_, frame["object"]
    raise ValueError(f"not a line of a watch: {line[:200]!r}")


def object_of(item: Any) -> dict[str, Any]:
    """Return an item of a list. Raises ValueError if it has no metadata, as an object of Kubernetes has."""
    if isinstance(item, dict) and isinstance(item.get("metadata"), dict):
        return item
    raise ValueError("an item of the list is not an object with metadata")
