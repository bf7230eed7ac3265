"""Types and values of CEL for the fields that a structural schema describes.

The compiler sees an object with declared fields as a message, so that a field which does not exist is refused.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from google.protobuf import descriptor_pb2, duration_pb2, timestamp_pb2

from controlplane.wire.cel.kind_nodes import Node

_Field = descriptor_pb2.FieldDescriptorProto
_INT_OR_STRING, _PRESERVE = "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
RESERVED = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIELD_TYPES = {
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
    "int": _Field.TYPE_INT64,
    "double": _Field.TYPE_DOUBLE,
}
_MESSAGES = {
    "dyn": ".google.protobuf.Value",
    "timestamp": ".google.protobuf.Timestamp",
    "duration": ".google.protobuf.Duration",
}
_METADATA: Node = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
}
_ROOT: Node = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": _METADATA}
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def escaped(name: str) -> str:
    """Return the name of a field in CEL; "": expressions cannot name the field."""
    if name in RESERVED:
        return f"__{name}__"
    for text, by in _ESCAPES:
        name = name.replace(text, by)
    return name if _NAME.fullmatch(name) else ""


def fields_of(node: Node, *, is_root: bool = False) -> dict[str, Node]:
    """Return the fields of an object. A resource has apiVersion, kind and metadata even if they are not declared."""
    declared = dict(node.get("properties") or {})
    if is_root or node.get(_EMBEDDED) is True:
        return {**declared, **_ROOT}
    return declared


class Types:
    """The messages for the objects of a schema, in one file.

    escapes: names of fields that CEL reserves are escaped, as in the rules of a definition.
    reserved: they can be written without escapes, too.
    """

    def __init__(self, *, escapes: bool = True, reserved: bool = False) -> None:
        self._escapes, self._reserved = escapes, reserved
        dependencies = [f"google/protobuf/{name}.proto" for name in ("struct", "timestamp", "duration")]
        self.file = descriptor_pb2.FileDescriptorProto(
            name="schema.proto", package="schema", syntax="proto2", dependency=dependencies
        )

    def name(self, node: Node, *, is_root: bool = False) -> str:
        """Return the name of the type of a node, as `environment.type_of` reads it."""
        stated = node.get("type")
        if node.get(_INT_OR_STRING) is True:
            return "dyn"
        if stated == "array":
            return f"list({self.name(node.get('items') or {})})"
        if stated == "object":
            values = node.get("additionalProperties")
            if isinstance(values, Mapping) and not node.get("properties"):
                return f"map(string, {self.name(values)})"
            return self._message(node, is_root=is_root)
        if stated == "string":
            formats = {"byte": "bytes", "duration": "duration", "date": "timestamp", "date-time": "timestamp"}
            return formats.get(str(node.get("format")), "string")
        return {"boolean": "bool", "integer": "int", "number": "double"}.get(str(stated), "dyn")

    def _message(self, node: Node, *, is_root: bool) -> str:
        message = self.file.message_type.add(name=f"Type{len(self.file.message_type)}")
        for name, inner in fields_of(node, is_root=is_root).items():
            cel_name = escaped(name) if self._escapes else name
            if not cel_name or not (inner.get("type") or inner.get(_INT_OR_STRING) is True):
                continue  # a field without a type cannot be named
            type_name = self.name(inner)
            self.add_field(message, cel_name, type_name)
            if self._reserved and name in RESERVED:
                self.add_field(message, name, type_name)
        return f"schema.{message.name}"

    def add_field(self, message: Any, name: str, type_name: str) -> None:
        number = len(message.field) + 1
        label = _Field.LABEL_OPTIONAL
        if type_name.startswith("list("):
            label, type_name = _Field.LABEL_REPEATED, _inside(type_name[5:-1])
        elif type_name.startswith("map("):
            entry_name = "".join(word[:1].upper() + word[1:] for word in name.split("_")) + "Entry"
            if any(known.name == entry_name for known in message.nested_type):  # of a_b and aB
                self._add(message, name, number, label, "dyn")
                return
            entry = message.nested_type.add(name=entry_name)
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, type=_Field.TYPE_STRING, label=label)
            self._add(entry, "value", 2, _Field.LABEL_OPTIONAL, _inside(type_name[12:-1]))
            label, type_name = _Field.LABEL_REPEATED, f"schema.{message.name}.{entry.name}"
        self._add(message, name, number, label, type_name)

    def _add(self, message: Any, name: str, number: int, label: Any, type_name: str) -> None:
        if type_name in _FIELD_TYPES:
            message.field.add(name=name, number=number, label=label, type=_FIELD_TYPES[type_name])
            return
        target = _MESSAGES.get(type_name, f".{type_name}")
        message.field.add(name=name, number=number, label=label, type=_Field.TYPE_MESSAGE, type_name=target)


def _inside(type_name: str) -> str:
    """Return the type of items and values. It is `dyn` for lists and maps, because messages have no list of lists."""
    return "dyn" if type_name.startswith(("list(", "map(")) else type_name


def to_cel(value: Any, node: Node | None, *, is_root: bool = False) -> Any:
    """Return a value of JSON as CEL has it: names of fields escaped, numbers, times and bytes of their types."""
    if node is None:
        return value
    if isinstance(value, dict):
        values = node.get("additionalProperties")
        if isinstance(values, Mapping) and not node.get("properties"):
            return {key: to_cel(item, values) for key, item in value.items()}
        fields = fields_of(node, is_root=is_root)
        return {
            escaped(name): to_cel(value[name], inner)
            for name, inner in fields.items()
            if name in value and escaped(name) and not (value[name] is None and inner.get("nullable") is not True)
        }
    if isinstance(value, list):
        items = node.get("items")
        return [to_cel(item, items if isinstance(items, Mapping) else None) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and node.get("type") == "number":
        return float(value)
    if isinstance(value, str) and node.get("type") == "string" and "format" in node:
        return _formatted(value, str(node["format"]))
    return value


def _formatted(text: str, format: str) -> Any:
    """Return a text as the value of its format. A text that the format does not allow stays a text."""
    try:
        match format:
            case "byte":
                return base64.b64decode(text, validate=True)
            case "date":
                moment = timestamp_pb2.Timestamp()
                moment.FromDatetime(datetime.combine(date.fromisoformat(text), datetime.min.time()))
                return moment
            case "date-time":
                moment = timestamp_pb2.Timestamp()
                moment.FromDatetime(datetime.fromisoformat(text).astimezone(UTC))
                return moment
            case "duration":
                length = duration_pb2.Duration()
                seconds = sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(text))
                length.FromTimedelta(timedelta(seconds=-seconds if text.startswith("-") else seconds))
                return length
    except (ValueError, binascii.Error, OverflowError):
        return text
    return text
