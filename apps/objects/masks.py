"""Hiding the values of Secrets: pages show the keys, never a value. A Secret can be edited with its values hidden."""

from __future__ import annotations

from typing import Any

from apps.objects.secret_fields import HELD, LAST_APPLIED, annotations_of, secrets
from controlplane.apimachinery.errors import Cause

Document = dict[str, Any]

MASK = "(hidden)"  # not base64, so it cannot be the value of a Secret


def masked(document: Document) -> Document:
    """Return the document with all values of Secrets replaced by MASK.

    The document may be a Secret, or a Work that carries Secrets to a cluster.
    """
    paths = list(secrets(document))
    if not paths:
        return document
    copy = _copied(document)
    for path in paths:
        _mask(_at(copy, path))
    return copy


def without_contents(document: Document) -> Document:
    """Return the document with every Secret in it reduced to its metadata, without values and without keys."""
    copy = _copied(document)
    for path in secrets(document):
        secret = _at(copy, path)
        _mask(secret)
        for part in HELD:
            secret.pop(part, None)
    return copy


def unmasked(document: Document, stored: Document | None) -> tuple[Document, list[Cause]]:
    """Return the document with each MASK replaced by the stored value.

    `stored`: the object as the user saw it; None: a new object. The second result has a cause for each MASK that stands
    for no stored value.
    """
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
                value = (before.get(part) or {}).get(key)
                if value is None:
                    field = ".".join((*map(str, path), part, key))
                    message = (
                        f'"{MASK}" stands for a stored value, and no value is stored for this key: write the value'
                    )
                    causes.append(Cause("FieldValueInvalid", message, field))
                else:
                    values[key] = value
        _restore_last_applied(secret, before)
    return copy, causes


def _at(document: Document, path: tuple[str | int, ...]) -> Document:
    """Return the object at a path of a document; {}: there is none."""
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
    annotations = annotations_of(secret)
    if LAST_APPLIED in annotations:
        annotations[LAST_APPLIED] = MASK


def _restore_last_applied(secret: Document, before: Document) -> None:
    annotations = annotations_of(secret)
    if annotations.get(LAST_APPLIED) != MASK:
        return
    stored = annotations_of(before).get(LAST_APPLIED)
    if stored is None:
        del annotations[LAST_APPLIED]
    else:
        annotations[LAST_APPLIED] = stored


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value
