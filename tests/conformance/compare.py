"""Reading and comparing documents the way Go's omitempty makes necessary."""

from __future__ import annotations

from typing import Any


def equivalent(expected: Any, actual: Any) -> bool:
    """Return whether two JSON documents say the same: absent, null, false, 0, "" and empty containers are one."""
    if _is_nothing(expected) and _is_nothing(actual):
        return True
    if isinstance(expected, dict) and isinstance(actual, dict):
        return all(equivalent(expected.get(key), actual.get(key)) for key in expected.keys() | actual.keys())
    if isinstance(expected, list) and isinstance(actual, list | tuple):
        return len(expected) == len(actual) and all(map(equivalent, expected, actual))
    return bool(expected == actual)


def without_nulls(document: Any) -> Any:
    """Return a document without its null members: Go reads them as absent, our types want them absent."""
    if isinstance(document, dict):
        return {key: without_nulls(value) for key, value in document.items() if value is not None}
    if isinstance(document, list):
        return [without_nulls(value) for value in document]
    return document


def _is_nothing(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_nothing(member) for member in value.values())
    return not value
