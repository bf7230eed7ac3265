"""Hiding what Secrets hold: people see which keys there are, never a value, and edit without having seen one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controlplane.errors import Cause

Document = dict[str, Any]

MASK = "(hidden)"  # no base64, so it can never be taken for a value
_HELD = ("data", "stringData")
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # kubectl keeps the whole Secret in it


def is_secret(document: Document) -> bool:
    """Test whether a document is a Secret."""
    return document.get("kind") == "Secret" and document.get("apiVersion") == "v1"


def masked(document: Document) -> Document:
    """Return the document with the values of every Secret in it hidden: itself, or one a Work carries to a member."""
    found = list(_secrets(document))
    if not found:
        return document
    copy = _copied(document)
    for path in found:
        _mask(_at(copy, path))
    return copy


def without_contents(document: Document) -> Document:
    """Return the document with every Secret in it reduced to its metadata: not even the keys are named."""
    copy = _copied(document)
    for path in _secrets(document):
        secret = _at(copy, path)
        _mask(secret)
        for part in _HELD:
            secret.pop(part, None)
    return copy


def unmasked(document: Document, stored: Document | None) -> tuple[Document, list[Cause]]:
    """Return the document with the values that were left hidden put back, and a cause for each that never was one."""
    causes: list[Cause] = []
    copy = _copied(document)
    for path in _secrets(document):
        secret = _at(copy, path)
        before = {} if stored is None else _at(stored, path)
        if before.get("metadata", {}).get("name") != secret.get("metadata", {}).get("name"):
            before = {}
        for part in _HELD:
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


def _secrets(document: Document) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of the Secrets in a document."""
    if is_secret(document):
        yield ()
    spec = document.get("spec")
    workload = spec.get("workload") if isinstance(spec, dict) else None
    manifests = workload.get("manifests") if isinstance(workload, dict) else None
    for index, manifest in enumerate(manifests if isinstance(manifests, list) else ()):
        if isinstance(manifest, dict) and is_secret(manifest):
            yield "spec", "workload", "manifests", index


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
    for part in _HELD:
        values = secret.get(part)
        if isinstance(values, dict):
            secret[part] = dict.fromkeys(values, MASK)
    annotations = _annotations(secret)
    if LAST_APPLIED in annotations:
        annotations[LAST_APPLIED] = MASK


def _restore_last_applied(secret: Document, before: Document) -> None:
    annotations = _annotations(secret)
    if annotations.get(LAST_APPLIED) != MASK:
        return
    kept = _annotations(before).get(LAST_APPLIED)
    if kept is None:
        del annotations[LAST_APPLIED]
    else:
        annotations[LAST_APPLIED] = kept


def _annotations(document: Document) -> Document:
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value
