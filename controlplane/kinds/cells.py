"""Functions that compute cells of `kubectl get` tables, shared by the columns of several kinds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from controlplane.wire.resource import age, parse_time

Cell = Callable[[dict[str, Any], datetime], Any]


def condition(type_: str, part: str = "status") -> Cell:
    """Return a cell that shows one field of a condition, by default its status; "" if the object lacks it."""

    def cell(doc: dict[str, Any], now: datetime) -> str:
        conditions = doc.get("status", {}).get("conditions", ())
        return next((str(item.get(part, "")) for item in conditions if item.get("type") == type_), "")

    return cell


def field(*path: str, default: Any = "") -> Cell:
    """Return a cell that shows the field at a path, a list joined by commas; `default` if the object lacks it."""

    def cell(doc: dict[str, Any], now: datetime) -> Any:
        value: Any = doc
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if value is None:
            return default
        return ",".join(value) if isinstance(value, list) else value

    return cell


def since(*path: str) -> Cell:
    """Return a cell that shows how long ago the time at a path was; "" if the object lacks it."""

    def cell(doc: dict[str, Any], now: datetime) -> str:
        moment = field(*path)(doc, now)
        return age(moment, now) if moment else ""

    return cell


def open_until(end: str | None, ended: str, *, now: datetime) -> str:
    """Return "Open" before an end (RFC 3339; None: there is no end), else `ended` and how long ago: "Over 5m ago"."""
    moment = parse_time(end)
    return "Open" if moment is None or now < moment else f"{ended} {age(moment, now)} ago"
