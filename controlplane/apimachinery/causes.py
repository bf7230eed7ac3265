"""Reasons to refuse a field, worded as the users of kubectl know them: value, rule, way out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from controlplane.apimachinery.as_written import plain
from controlplane.apimachinery.errors import Cause

MAX_REASON = 1024  # characters of what people give as a reason: it is kept, and shown in many places
_SHOWN = 200  # characters of a value in a message
_CONTROL = frozenset(map(chr, range(32))) - frozenset("\t\n\r")


def invalid(field: str, value: Any, rule: str) -> Cause:
    """Return the cause for a value that breaks a rule."""
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {rule}", field)


def unsupported(field: str, value: Any, choices: Iterable[str]) -> Cause:
    """Return the cause for a value outside a closed list."""
    listed = ", ".join(f'"{choice}"' for choice in choices)
    return Cause("FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {listed}", field)


def required(field: str, rule: str = "") -> Cause:
    """Return the cause for a field that has to be there and is not."""
    return Cause("FieldValueRequired", f"Required value: {rule}" if rule else "Required value", field)


def reason(field: str, text: str, why: str) -> list[Cause]:
    """Return what is wrong with a reason people give; `why` says what to write where there is none."""
    if not text.strip():
        return [required(field, why)]
    if len(text) > MAX_REASON:
        return [invalid(field, text, f"must have at most {MAX_REASON} characters")]
    if _CONTROL.intersection(text):
        return [invalid(field, text, "must not contain control characters")]
    return []


def duplicate(field: str, value: Any, rule: str = "") -> Cause:
    """Return the cause for a value that may stand only once."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown(value)}{f': {rule}' if rule else ''}", field)


def forbidden(field: str, rule: str) -> Cause:
    """Return the cause for a field that may not be set here."""
    return Cause("FieldValueForbidden", f"Forbidden: {rule}", field)


def mistyped(field: str, value: Any, rule: str) -> Cause:
    """Return the cause for a value of another type than the field's."""
    return Cause("FieldValueTypeInvalid", f"Invalid value: {shown(value)}: {rule}", field)


def immutable(field: str, value: Any) -> Cause:
    """Return the cause for a change of a field that never changes."""
    return invalid(field, value, "field is immutable: delete the object and create it anew to change it")


def shown(value: Any) -> str:
    """Return a value as it stands in a message: JSON, cut where it is long."""
    text = msgspec.json.encode(value, enc_hook=plain).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
