"""Hiding what Secrets hold: people see which keys there are, never a value, and edit without having seen one."""

from __future__ import annotations

from typing import Any

from apps.objects.secret_fields import HELD, LAST_APPLIED, annotations_of, secrets
from controlplane.apimachinery.errors import Cause

Document = dict[str, Any]

MASK = "(hidden)"  # no base64, so it can never be taken for a value


def masked(document: Document) -> Document:
    """Return the document with the values of every Secret in it hidden: itself, or one a Work carries to a member."""
    found = list(secrets(document))
    if not found:
        return document
    copy = _copied(document)
    for path in found:
        _mask(_at(copy, path))
    return copy


def without_contents(document: Document) -> Document:
    """Return the document with every Secret in it reduced to its metadata: not even the keys are named."""
    copy = _copied(document)
    for path in secrets(document):
        secret = _at(copy, path)
        _mask(secret)
        for part in HELD:
            secret.pop(part, None)
    return copy


def unmasked(document: Document, stored: Document | None) -> tuple[Document, list[Cause]]:
    """Return the document with the values that were left hidden put back, and a cause for each that never was one."""
    causes: list[Cause] = []
    copy = _copied(document)
    for path in secrets(document):
        secret = _at(copy, path)
        before = {} if stored is None else _at(stored, path)
        if before.get("metadata", {}).get("name") != secret.get("metadata", {}).get("name"):
            before = {}
        for part in HELD:
            values: Any = secret.get(part)
            for key in values if isinstance(values, dict) else ():
                if values[key] != MASK:
                    continue
                kept = (before.get(part) or {}).get(key)
                if kept is None:
                    field = ".".join((*map(str, path), part, key))
                    causes.append(
                        Cause("FieldValueInvalid", f'"{MASK}" stands for a value that is stored, and none is', field)
                    )
                else:
                    values[key] = kept
        _restore_last_applied(secret, before)
    return copy, causes


def _at(document: Document, path: tuple[str | int, ...]) -> Document:
    """Return what stands at a path, {} where the document does not go that far."""
    value: Any = document
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return {}
    return value if isinstance(value, dict) else {}


def _mask(secret: Document) -> None:
    for part in HELD:
        values = secret.get(part)
        if isinstance(values, dict):
            secret[part] = dict.fromkeys(values, MASK)
    said = annotations_of(secret)
    if LAST_APPLIED in said:
        said[LAST_APPLIED] = MASK


def _restore_last_applied(secret: Document, before: Document) -> None:
    said = annotations_of(secret)
    if said.get(LAST_APPLIED) != MASK:
        return
    kept = annotations_of(before).get(LAST_APPLIED)
    if kept is None:
        del said[LAST_APPLIED]
    else:
        said[LAST_APPLIED] = kept


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value
