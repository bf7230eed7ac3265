"""Comparing documents the way Go's omitempty makes necessary."""

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


def _is_nothing(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_nothing(member) for member in value.values())
    return not value
