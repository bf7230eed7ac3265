"""Validation of documents by the schema of their kind: nulls, missing fields and values of the wrong type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import count
from typing import Any

import jsonschema_rs

from controlplane.apimachinery import quantities
from controlplane.apimachinery.causes import duplicate, invalid, mistyped, required, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.quantities import QuantityError
from controlplane.wire.openapi import references
from controlplane.wire.schema import Schema
from controlplane.wire.structural import StructuralSchema
from controlplane.wire.unchanged import Unchanged

Document = dict[str, Any]
_Kind = jsonschema_rs.ValidationErrorKind
_LEAST = -(2**63)  # integer of JSON
_LARGEST = 1e250  # a quantity that is written as a number


def without_nulls(document: Document, schema: Schema) -> Document:
    """Return the document without fields that are null. In Kubernetes, null means that a field is not set.

    A number without a fraction becomes an integer: 1.0 is 1, as Kubernetes stores it.
    Inside values with an OPEN schema, for example the values of a Helm chart, null is kept, because it may be a value.
    """
    return _pruned(document, schema)  # type: ignore[no-any-return]  # an object remains an object


def _pruned(value: Any, schema: Schema | None) -> Any:
    if isinstance(value, dict):
        if schema is None or schema is Schema.OPEN:
            return value
        out = {}
        for key, item in value.items():
            inner = schema.property(key)
            if item is None and (inner is None or not (inner is Schema.OPEN or inner.nullable)):
                continue
            out[key] = _pruned(item, inner) if isinstance(item, dict | list) else _number(item)
        return out
    if isinstance(value, list) and schema is not None and schema is not Schema.OPEN:
        return [_pruned(item, schema.items) if isinstance(item, dict | list) else _number(item) for item in value]
    return value


def _number(value: Any) -> Any:
    """Return a float as an integer if it is one of 64 bits. A client in Go reads no integer with an exponent."""
    is_whole = isinstance(value, float) and _LEAST <= value < -_LEAST and value.is_integer()
    return int(value) if is_whole else value


def faults(document: Document, schema: Schema, *, read_before: Callable[[], Document] | None = None) -> list[Cause]:
    """Return a cause for everything in a document that its schema does not allow.

    `read_before`: returns the document before an edit. What the edit leaves as it was is not reported. None: everything
    is. It is called only if there is something to report.
    """
    if schema is Schema.OPEN:
        return []
    validator = _validator(schema)
    errors = [] if validator.is_valid(document) else list(validator.iter_errors(document))
    repeated = schema.duplicates(document) if isinstance(schema, StructuralSchema) else []
    if read_before is not None and (errors or repeated):
        before = read_before()
        unchanged = Unchanged(document, before, schema)
        errors = [error for error in errors if not unchanged.at(_path_in(document, error.instance_path))]
        # As in Kubernetes: an object that had duplicates may keep them, whatever list they are in.
        repeated = [] if isinstance(schema, StructuralSchema) and schema.duplicates(before) else repeated
    return [*map(_cause, errors), *(duplicate(path_text(one.path), one.value) for one in repeated)]


def valid_part(document: Document, schema: Schema) -> Document | None:
    """Return a copy without the parts that the schema does not allow, so that other rules can be checked on the rest.

    None: no valid copy can be made. Items of lists are replaced instead of removed, so that the others keep their
    index. Replaced items and required fields get values that occur nowhere else. Causes about these values themselves
    are meaningless; the caller drops them.
    """
    copy: Document = _plain(document)
    unique_texts = (f"-mended-{number}-" for number in count())
    for _ in range(_ROUNDS):
        errors = list(_validator(schema).iter_errors(copy))
        if not errors:
            return copy
        for error in errors:
            path = _path_in(copy, error.instance_path)
            if isinstance(error.kind, _Kind.Required):
                path.append(str(error.kind.property))
                _place(copy, path, _unique_value(_schema_at(schema, path), unique_texts))
            elif path and isinstance(path[-1], int):
                _place(copy, path, _unique_value(_schema_at(schema, path), unique_texts))
            else:
                remove(copy, path)
    return None


_ROUNDS = 8  # a removed field may be required, and the value put in its place may require fields itself


def remove(document: Document, path: Sequence[str | int]) -> bool:
    """Remove a field from a document and return whether it was there. Items of lists are never removed."""
    inner = at(document, path[:-1])
    if not path or not isinstance(inner, dict) or path[-1] not in inner:
        return False
    del inner[path[-1]]
    return True


def _path_in(document: Document, path: Sequence[str | int]) -> list[str | int]:
    """Return the path of an error with the names of fields as text: the validator gives the name "1" as a number."""
    steps: list[str | int] = []
    for part in path:
        steps.append(str(part) if isinstance(at(document, steps), dict) else part)
    return steps


def _place(document: Document, path: Sequence[str | int], value: Any) -> None:
    inner = at(document, path[:-1])
    if isinstance(inner, dict | list):
        inner[path[-1]] = value  # type: ignore[index]  # a name of a field, or the index of an item


def at(document: Document, path: Sequence[str | int]) -> Any:
    """Return the value at a path; None: there is no value."""
    inner: Any = document
    for part in path:
        try:
            inner = inner[part]
        except (KeyError, IndexError, TypeError):
            return None
    return inner


def _schema_at(schema: Schema, path: Sequence[str | int]) -> Schema:
    for part in path:
        inner = schema.items if isinstance(part, int) else schema.property(part)
        schema = inner or Schema.OPEN
    return schema


def _unique_value(schema: Schema, unique_texts: Iterator[str]) -> Any:
    """Return a value that a schema allows. Texts are unique; values of other types cannot be."""
    if schema.enum:
        return schema.enum[0]
    match schema.type:
        case "object":
            return {}
        case "array":
            return []
        case "boolean":
            return False
        case "integer" | "number":
            return max(0, int(schema.node.get("minimum", 0)))
    plain = {"date-time": "1970-01-01T00:00:00Z", "quantity": "1"}.get(schema.format)
    return plain if plain is not None else next(unique_texts)


@lru_cache(maxsize=512)
def _validator(schema: Schema) -> Any:
    """Return the compiled validator of a schema. It is compiled once per process."""
    if isinstance(schema, StructuralSchema):
        return schema.validator
    components = schema.components.schemas
    used = _reachable(schema.node, components)
    nodes = _plain({name: components[name] for name in sorted(used)})
    for name in _TEXTS.keys() & nodes.keys():
        nodes[name]["format"] = _TEXTS[name]
        if _TEXTS[name] == "quantity":  # a number; a larger one cannot be read as a quantity
            nodes[name] |= {"minimum": -_LARGEST, "maximum": _LARGEST}
    whole = {**_bounded(_plain(schema.node)), "components": {"schemas": _bounded(nodes)}}
    return jsonschema_rs.validator_for(whole, formats=_FORMATS, validate_formats=True)


# Formats of texts in built-in kinds. Lifeboat's own types check theirs when they are decoded.
_TEXTS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "moment",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "moment",
}
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:\d\d)")


def _is_quantity(text: str) -> bool:
    try:
        quantities.parse(text)
    except QuantityError:
        return False
    return True


def _is_moment(text: str) -> bool:
    """Test whether a text is a time in RFC 3339, as Kubernetes reads it."""
    if _MOMENT.fullmatch(text) is None:
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


# How texts of a format are checked. Clients in Go cannot decode an invalid text: a list with one such object fails.
_FORMATS = {
    "quantity": _is_quantity,
    "moment": _is_moment,
    "date-time": lambda text: True,  # in Lifeboat's own types: decoding gives a better message
}
_SAID = {
    "quantity": 'must be a quantity: a number and one suffix of n u m k M G T P E or Ki Mi Gi Ti Pi Ei, like "2Gi"',
    "moment": 'must be a time of RFC 3339, like "2026-01-02T15:04:05Z"',
}
_BITS = {"int32": 32, "int64": 64}


def _bounded(node: Any) -> Any:
    """Return a node with bounds for integers of format int32 and int64, because JSON Schema ignores these formats.

    The integer of an int-or-string has 32 bits. Bounds say nothing about a text.
    """
    if isinstance(node, list):
        return [_bounded(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    made = {key: _bounded(inner) for key, inner in node.items()}
    bits = _BITS.get(made.get("format", "")) if made.get("type") == "integer" else None
    bits = 32 if made.get("format") == "int-or-string" else bits
    if bits is not None:
        made.setdefault("minimum", -(1 << (bits - 1)))
        made.setdefault("maximum", (1 << (bits - 1)) - 1)
    return made


def _reachable(node: Any, components: Mapping[str, Any]) -> set[str]:
    """Return the names of all components that a node refers to, directly or through other components."""
    found: set[str] = set()
    todo = list(references(node))
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += references(components[name])
    return found


def _plain(node: Any) -> Any:
    """Return a node as plain dictionaries and lists, which the schema compiler needs."""
    if isinstance(node, Mapping):
        return {key: _plain(inner) for key, inner in node.items()}
    return [_plain(inner) for inner in node] if isinstance(node, list | tuple) else node


def _cause(error: Any) -> Cause:
    """Return the cause for an error of the schema validator, in the words of kube-apiserver."""
    field, value = path_text(error.instance_path), error.instance
    match error.kind:
        case _Kind.Required():
            missing = str(error.kind.property)
            return required(f"{field}.{missing}" if field else missing)
        case _Kind.Type():
            types = " or ".join(str(name) for name in error.kind.types)
            return mistyped(field, value, f"must be of type {types}")
        case _Kind.Enum():
            return unsupported(field, value, [str(option) for option in error.kind.options])
        case _Kind.Minimum():
            return invalid(field, value, f"must be greater than or equal to {error.kind.limit}")
        case _Kind.Maximum():
            return invalid(field, value, f"must be less than or equal to {error.kind.limit}")
        case _Kind.Format() if error.kind.format in _SAID:
            return invalid(field, value, _SAID[error.kind.format])
        case _Kind.OneOfNotValid():
            inner = [error_.kind for choice in error.kind.context for error_ in choice]
            choices = [name for kind in inner if isinstance(kind, _Kind.Type) for name in kind.types]
            if choices:
                return mistyped(field, value, f"must be of type {' or '.join(choices)}")
    return invalid(field, value, str(error.message))


def path_text(path: Sequence[str | int]) -> str:
    """Return a path as text, for example "spec.rules[0].name" or "metadata.labels[a/b]"."""
    text = ""
    for part in path:
        if isinstance(part, int) or not part.replace("_", "").replace("-", "").isalnum():
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def path_of(text: str) -> list[str | int]:
    """Return the path of a text that `path_text` made."""
    return [int(inside) if inside.isdigit() else inside or name for inside, name in _PARTS.findall(text)]


_PARTS = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
