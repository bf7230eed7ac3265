"""Functions that return causes: why a field of an object is refused, worded as users of kubectl know it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import msgspec

from controlplane.apimachinery.as_written import plain
from controlplane.apimachinery.errors import Cause

MAX_REASON = 1024  # characters of a reason that a user gives
IMMUTABLE = "field is immutable"
_FIXED = (IMMUTABLE, "cannot change roleRef", "spec is immutable after creation")
_MAX_SHOWN = 200  # characters of a value in a message
_CONTROL = frozenset(map(chr, range(32))) - frozenset("\t\n\r")


def repeated(values: Iterable[Hashable]) -> frozenset[int]:
    """Return the places of values that occur earlier as well. Lists of users may be long: this is linear."""
    seen: set[Hashable] = set()
    found = []
    for place, value in enumerate(values):
        if value in seen:
            found.append(place)
        seen.add(value)
    return frozenset(found)


def invalid(field: str, value: Any, rule: str) -> Cause:
    """Return the cause for a value that breaks a rule."""
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {rule}", field)


def unsupported(field: str, value: Any, choices: Iterable[str]) -> Cause:
    """Return the cause for a value that is not one of the supported values."""
    listed = ", ".join(f'"{choice}"' for choice in choices)
    return Cause("FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {listed}", field)


def required(field: str, rule: str = "") -> Cause:
    """Return the cause for a required field that is missing. `rule` says what to write."""
    return Cause("FieldValueRequired", f"Required value: {rule}" if rule else "Required value", field)


def reason(field: str, text: str, why: str) -> list[Cause]:
    """Return the causes against a text in which a user gives a reason. `why` says what to write if it is empty."""
    if not text.strip():
        return [required(field, why)]
    if len(text) > MAX_REASON:
        return [invalid(field, text, f"must have at most {MAX_REASON} characters")]
    if _CONTROL.intersection(text):
        return [invalid(field, text, "must not contain control characters")]
    return []


def duplicate(field: str, value: Any, rule: str = "") -> Cause:
    """Return the cause for a value that occurs more than once."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown(value)}{f': {rule}' if rule else ''}", field)


def forbidden(field: str, rule: str) -> Cause:
    """Return the cause for a field that must not be set or changed in this way."""
    return Cause("FieldValueForbidden", f"Forbidden: {rule}", field)


def too_long(field: str, most: int) -> Cause:
    """Return the cause for a text or an object with more than `most` bytes."""
    return Cause("FieldValueTooLong", f"Too long: may not be more than {most} bytes", field)


def mistyped(field: str, value: Any, rule: str) -> Cause:
    """Return the cause for a value of the wrong type."""
    return Cause("FieldValueTypeInvalid", f"Invalid value: {shown(value)}: {rule}", field)


def immutable(field: str, value: Any) -> Cause:
    """Return the cause for a change of a field that must not change."""
    return invalid(field, value, IMMUTABLE)


def recreation_hints(causes: Iterable[Cause]) -> tuple[str, ...]:
    """Return a warning that says how to change fields that an edit must not change.

    It is not in the cause, because clients compare the words of causes with those of Kubernetes.
    """
    fixed = [cause.field for cause in causes if any(word in cause.message for word in _FIXED)]
    return (f"to change {', '.join(fixed)}, delete the object and create it again",) if fixed else ()


def shown(value: Any) -> str:
    """Return a value as messages show it: as JSON, at most 200 characters of it."""
    text = msgspec.json.encode(value, enc_hook=plain).decode()
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
