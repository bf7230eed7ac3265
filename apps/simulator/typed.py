"""Values of a type that their field does not have: an API server cannot read a document that holds one."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from controlplane.wire import document_check
from controlplane.wire.schema import Schema
from controlplane.wire.structural import StructuralSchema
from controlplane.wire.structured import METADATA

Document = dict[str, Any]

_METADATA = Schema({"type": "object", "properties": {"metadata": METADATA.node}})
_TYPED = ("FieldValueTypeInvalid",)
# Formats are part of the type: a quantity or a time that cannot be parsed is no value of its field.
_FORMATS = ("must be a quantity", "must be a time")
# Texts that hold bytes, by the field of the object.
_BYTES = {"Secret": "data", "ConfigMap": "binaryData"}


def mistyped(document: Document, schema: Schema) -> list[str]:
    """Return a message for every value that has not the type of its field.

    The schema of a custom kind is enforced after decoding, by validation; only its metadata is typed.
    """
    schemas = [_METADATA] if isinstance(schema, StructuralSchema) else [_METADATA, schema]
    return list(dict.fromkeys([*(told for one in schemas for told in _told(document, one)), *_no_bytes(document)]))


def unmergeable(document: Document, schema: Schema) -> list[str]:
    """Return a message for every value whose owner server-side apply cannot compute: values of another type, and items
    without the keys of their list. In built-in kinds a missing key is the empty text."""
    keyless = _keyless(document, schema, "") if isinstance(schema, StructuralSchema) else ()
    return [*mistyped(document, schema), *_told(document, schema), *keyless]


def _told(document: Document, schema: Schema) -> Iterator[str]:
    plain = document_check.without_nulls(document, schema)
    for cause in document_check.faults(plain, schema):
        if cause.reason in _TYPED or any(form in cause.message for form in _FORMATS):
            yield f".{cause.field}: {cause.message}"


def _no_bytes(document: Document) -> Iterator[str]:
    field = _BYTES.get(document.get("kind", "")) if document.get("apiVersion") == "v1" else None
    found = document.get(field) if field else None
    for name, text in found.items() if isinstance(found, dict) else ():
        try:
            base64.b64decode(text or "", validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            yield f".{field}[{name}]: {error}"


def _keyless(value: Any, schema: Schema, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _keyless(inner, schema.property(name) or Schema.OPEN, f"{path}.{name}")
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            if schema.list_type == "map" and isinstance(item, dict):
                for key in schema.list_map_keys:
                    inner_schema = schema.items.property(key)
                    if key not in item and (inner_schema is None or inner_schema.default is None):
                        yield f"{path}[{index}]: associative list with keys has an element that omits key field {key!r}"
            yield from _keyless(item, schema.items, f"{path}[{index}]")
