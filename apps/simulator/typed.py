"""Values whose type differs from that of their field. kube-apiserver cannot decode a document with such a value."""

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
# Formats are part of the type: a quantity or time that cannot be parsed is mistyped.
_FORMATS = ("must be a quantity", "must be a time")
# Fields with base64 texts, by kind.
_BYTES = {"Secret": "data", "ConfigMap": "binaryData"}


def mistyped(document: Document, schema: Schema) -> list[str]:
    """Return a message for every mistyped value.

    Of custom resources, only the metadata is typed. Their schema is enforced by validation after decoding.
    """
    schemas = [_METADATA] if isinstance(schema, StructuralSchema) else [_METADATA, schema]
    return list(
        dict.fromkeys(
            [*(message for schema_ in schemas for message in _messages(document, schema_)), *_no_bytes(document)]
        )
    )


def unmergeable(document: Document, schema: Schema) -> list[str]:
    """Return a message for every value for which server-side apply cannot compute an owner.

    These are mistyped values, and items without the keys of their list. In built-in kinds, a missing key is "".
    """
    keyless = _keyless(document, schema, "") if isinstance(schema, StructuralSchema) else ()
    return [*mistyped(document, schema), *_messages(document, schema), *keyless]


def _messages(document: Document, schema: Schema) -> Iterator[str]:
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
