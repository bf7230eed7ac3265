"""Fields that a schema does not declare: reporting them (fieldValidation Strict and Warn) and removing them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controlplane.wire.body import join
from controlplane.wire.schema import Schema

Document = dict[str, Any]

_TOP = frozenset(("apiVersion", "kind", "metadata"))
_METADATA = frozenset(
    (
        *("annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers"),
        *("generateName", "generation", "labels", "managedFields", "name", "namespace", "ownerReferences"),
        *("resourceVersion", "selfLink", "uid"),
    )
)


def validate_fields(doc: Document, schema: Schema) -> list[str]:
    """Return a message such as `unknown field "spec.replica"` for every field that the schema does not declare.

    apiVersion, kind and the fields of metadata are always known.
    """
    return [f'unknown field "{path}"' for path in _unknown(doc, schema, "")]


def undeclared(doc: Document, schema: Schema) -> list[str]:
    """Return the path of every field that the schema does not declare, for example ".spec.replica"."""
    return [f".{path}" for path in _unknown(doc, schema, "")]


def prune(doc: Document, schema: Schema) -> Document:
    """Return the document without unknown fields; the same object if it has none."""
    return _pruned(doc, schema, "")  # type: ignore[no-any-return]


def _inner(schema: Schema, path: str, key: str) -> Schema | None:
    """Return the schema of a field; None: the field is unknown. Fields of metadata are always known."""
    inner = schema.property(key)
    if not path and key in _TOP:
        return inner or Schema.OPEN
    if path == "metadata":
        known = key in _METADATA
        return (inner or Schema.OPEN) if known else None
    return inner


def _unknown(value: Any, schema: Schema, path: str) -> Iterator[str]:
    if isinstance(value, dict) and _walks(schema, path):
        for key, item in value.items():
            inner = _inner(schema, path, key)
            if inner is None:
                yield join(path, key)
            elif isinstance(item, dict | list):
                yield from _unknown(item, inner, join(path, key))
    elif isinstance(value, list) and schema.items is not None and schema.items is not Schema.OPEN:
        for index, item in enumerate(value):
            yield from _unknown(item, schema.items, f"{path}[{index}]")


def _pruned(value: Any, schema: Schema, path: str) -> Any:
    if isinstance(value, dict) and _walks(schema, path):
        result = {}
        same = True
        for key, item in value.items():
            inner = _inner(schema, path, key)
            if inner is None:
                same = False
                continue
            result[key] = new = _pruned(item, inner, join(path, key)) if isinstance(item, dict | list) else item
            same = same and new is item
        return value if same else result
    if isinstance(value, list) and schema.items is not None and schema.items is not Schema.OPEN:
        items = [_pruned(item, schema.items, f"{path}[]") for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _walks(schema: Schema, path: str) -> bool:
    """Test whether fields can be unknown here. Values of a wrong type are reported by validation instead."""
    return schema.type in ("object", "") and (schema is not Schema.OPEN or path in ("", "metadata"))
