"""Reading documents of third-party kinds: fields that must be there, numbers that may be written as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from controlplane.interpret.interpreter import Document
from controlplane.kinds.binding import AggregatedStatusItem

Items = Sequence[AggregatedStatusItem]


def needed(doc: Any, *path: str) -> Any:
    """Return the value at a path; None if only the last field is missing.

    Raises ValueError if an object on the way to the last field is missing: the rule cannot be applied.
    """
    value = doc
    for number, name in enumerate(path):
        if not isinstance(value, dict):
            raise ValueError(f"{'.'.join(path[:number])}: the field is missing, so {'.'.join(path)} cannot be read")
        value = value.get(name)
    return value


def at(doc: Any, *path: str) -> Any:
    """Return the value at a path; None if a field of it is missing."""
    value = doc
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def number(value: Any, default: float | None = None) -> Any:
    """Return a number that is written as a number or as text. `default`: there is none, or it is not a number."""
    if isinstance(value, bool) or value is None or value == "":
        return default
    if isinstance(value, int | float):
        return value
    try:
        parsed = float(str(value).strip())
    except ValueError:
        return default
    return int(parsed) if parsed.is_integer() else parsed


def counted(value: Any, field: str) -> Any:
    """Return a number of a document. Raises ValueError if the field is missing or is not a number."""
    found = number(value)
    if found is None:
        raise ValueError(f"{field}: {value!r} is not a number")
    return found


def listed(value: Any) -> list[Any]:
    """Return the entries of a list; empty if the value is not a list."""
    return [entry for entry in value if entry is not None] if isinstance(value, list) else []


def status_of(doc: Document) -> Document:
    status = doc.get("status")
    return dict(status) if isinstance(status, dict) else {}


def generation_of(doc: Document) -> int:
    return int(at(doc, "metadata", "generation") or 0)


def reports(items: Items) -> Iterator[Document]:
    """Yield the statuses that members report, in the order of the clusters."""
    return (item.status for item in items if item.status is not None)


def total(items: Items, field: str) -> Any:
    """Return the sum of a field over the reports of all members. A missing field counts as 0."""
    return sum(number(report.get(field), 0) for report in reports(items))


def last(items: Items, field: str, default: Any = None) -> Any:
    """Return the field of the member that is last by the order of the clusters, of those that report a value.

    `default` if none does. "" is no value.
    """
    found = [report[field] for report in reports(items) if report.get(field) not in (None, "")]
    return found[-1] if found else default


def latest(items: Items, field: str) -> Any:
    """Return the greatest value of a time. Times in UTC with whole seconds sort as text."""
    return max((report[field] for report in reports(items) if report.get(field)), default=None)


def earliest(items: Items, field: str) -> Any:
    return min((report[field] for report in reports(items) if report.get(field)), default=None)


def only_report(items: Items) -> Document | None:
    """Return the status of the only cluster; None if the object is on no cluster, or on several."""
    return dict(items[0].status or {}) if len(items) == 1 else None


def without_empty(value: Any) -> Any:
    """Return a value without fields that are zero, empty text, "0s" or empty, at any depth. None: nothing is left."""
    if isinstance(value, dict):
        kept = {key: inner for key, entry in value.items() if (inner := without_empty(entry)) is not None}
        return kept or None
    if isinstance(value, list):
        return [inner for entry in value if (inner := without_empty(entry)) is not None] or None
    return None if value is None or value in ("", "0s") or (value == 0 and value is not False) else value


def copied(*fields: str) -> Any:
    """Return the reflection rule of a kind: these fields of its status are reported."""

    def reflect(doc: Document) -> Document | None:
        status = doc.get("status")
        if not isinstance(status, dict):
            return None
        return {field: status[field] for field in fields if status.get(field) is not None}

    return reflect
