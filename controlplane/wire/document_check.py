"""Documents against the schema of their kind: what is null, what is missing, what has the wrong type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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

Document = dict[str, Any]
_Kind = jsonschema_rs.ValidationErrorKind


def without_nulls(document: Document, schema: Schema) -> Document:
    """Return the document without members that are null: in Kubernetes null says that a field is not set.

    Where nothing is known of a value (a chart's values), null may mean something and stays.
    """
    return _pruned(document, schema)  # type: ignore[no-any-return]  # an object stays one


def _pruned(value: Any, schema: Schema | None) -> Any:
    if isinstance(value, dict):
        if schema is None or schema is Schema.OPEN:
            return value
        out = {}
        for key, item in value.items():
            inner = schema.property(key)
            if item is None and (inner is None or not (inner is Schema.OPEN or inner.nullable)):
                continue
            out[key] = _pruned(item, inner) if isinstance(item, dict | list) else item
        return out
    if isinstance(value, list) and schema is not None and schema is not Schema.OPEN:
        return [_pruned(item, schema.items) if isinstance(item, dict | list) else item for item in value]
    return value


def faults(document: Document, schema: Schema) -> list[Cause]:
    """Return a cause for everything about a document that its schema does not allow."""
    if schema is Schema.OPEN:
        return []
    validator = _validator(schema)
    causes = [] if validator.is_valid(document) else [_cause(error) for error in validator.iter_errors(document)]
    if isinstance(schema, StructuralSchema):
        causes += [duplicate(path_text(one.path), one.value) for one in schema.repeated(document)]
    return causes


def mended(document: Document, schema: Schema) -> Document | None:
    """Return a copy in which what the schema does not allow is left out, so that the rest can be judged; None where
    that cannot be done.

    Items keep their places, and what must be there has a value no other has: whoever judges the copy says nothing
    wrong of what was right, and what is said of the mended values themselves is for nobody.
    """
    copy: Document = _plain(document)
    strangers = (f"-mended-{number}-" for number in count())
    for _ in range(_ROUNDS):
        errors = list(_validator(schema).iter_errors(copy))
        if not errors:
            return copy
        for error in errors:
            path = list(error.instance_path)
            if isinstance(error.kind, _Kind.Required):
                path.append(str(error.kind.property))
                _place(copy, path, _stranger(_schema_at(schema, path), strangers))
            elif path and isinstance(path[-1], int):
                _place(copy, path, _stranger(_schema_at(schema, path), strangers))
            else:
                remove(copy, path)
    return None


_ROUNDS = 8  # what was left out may be required, and what is put there instead may have to hold something itself


def remove(document: Document, path: Sequence[str | int]) -> bool:
    """Take a member out of a document; return whether it was there. Items of lists stay: others would change places."""
    inner = at(document, path[:-1])
    if not path or not isinstance(inner, dict) or path[-1] not in inner:
        return False
    del inner[path[-1]]
    return True


def _place(document: Document, path: Sequence[str | int], value: Any) -> None:
    inner = at(document, path[:-1])
    if isinstance(inner, dict | list):
        inner[path[-1]] = value  # type: ignore[index]  # a name in an object, a number in a list


def at(document: Document, path: Sequence[str | int]) -> Any:
    """Return what stands at a path; None where nothing does."""
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


def _stranger(schema: Schema, strangers: Iterator[str]) -> Any:
    """Return a value of the type a schema asks for, unlike any other."""
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
    return plain if plain is not None else next(strangers)


@lru_cache(maxsize=512)
def _validator(schema: Schema) -> Any:
    """Return the compiled form of a schema; each kind's is compiled once a process."""
    if isinstance(schema, StructuralSchema):
        return schema.validator
    components = schema.components.schemas
    used = _reachable(schema.node, components)
    nodes = _plain({name: components[name] for name in sorted(used)})
    for name in _TEXTS.keys() & nodes.keys():
        nodes[name]["format"] = _TEXTS[name]
    whole = {**_bounded(_plain(schema.node)), "components": {"schemas": _bounded(nodes)}}
    return jsonschema_rs.validator_for(whole, formats=_FORMATS, validate_formats=True)


# What built-in kinds say as a text of a form of its own. Our own types say it themselves (meta.QuantityText, moments).
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
    """Test whether a text is a time as Kubernetes reads it (RFC 3339)."""
    if _MOMENT.fullmatch(text) is None:
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


# What a text of a format has to be, and how that is said. Clients in Go cannot read one that is none: they fail to list
# whatever it stands in.
_FORMATS = {
    "quantity": _is_quantity,
    "moment": _is_moment,
    "date-time": lambda text: True,  # of our own types: moments says more about a wrong one
}
_SAID = {
    "quantity": 'must be a quantity: a number and one suffix of n u m k M G T P E or Ki Mi Gi Ti Pi Ei, like "2Gi"',
    "moment": 'must be a time of RFC 3339, like "2026-01-02T15:04:05Z"',
}
_BITS = {"int32": 32, "int64": 64}


def _bounded(node: Any) -> Any:
    """Return a plain node whose whole numbers of so many bits have bounds: JSON Schema knows no format of numbers."""
    if isinstance(node, list):
        return [_bounded(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    made = {key: _bounded(inner) for key, inner in node.items()}
    bits = _BITS.get(made.get("format", "")) if made.get("type") == "integer" else None
    if bits is not None:
        made.setdefault("minimum", -(1 << (bits - 1)))
        made.setdefault("maximum", (1 << (bits - 1)) - 1)
    return made


def _reachable(node: Any, components: Mapping[str, Any]) -> set[str]:
    """Return the names of the components a node refers to, directly or through others."""
    found: set[str] = set()
    todo = list(references(node))
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += references(components[name])
    return found


def _plain(node: Any) -> Any:
    """Return a node in plain dictionaries and lists, as the compiler wants them."""
    if isinstance(node, Mapping):
        return {key: _plain(inner) for key, inner in node.items()}
    return [_plain(inner) for inner in node] if isinstance(node, list | tuple) else node


def _cause(error: Any) -> Cause:
    field, value = path_text(error.instance_path), error.instance
    match error.kind:
        case _Kind.Required():
            missing = str(error.kind.property)
            return required(f"{field}.{missing}" if field else missing)
        case _Kind.Type():
            types = " or ".join(str(one) for one in error.kind.types)
            return mistyped(field, value, f"must be of type {types}")
        case _Kind.Enum():
            return unsupported(field, value, [str(one) for one in error.kind.options])
        case _Kind.Minimum():
            return invalid(field, value, f"must be greater than or equal to {error.kind.limit}")
        case _Kind.Maximum():
            return invalid(field, value, f"must be less than or equal to {error.kind.limit}")
        case _Kind.Format() if error.kind.format in _SAID:
            return invalid(field, value, _SAID[error.kind.format])
        case _Kind.OneOfNotValid():
            inner = [one.kind for choice in error.kind.context for one in choice]
            choices = [name for kind in inner if isinstance(kind, _Kind.Type) for name in kind.types]
            if choices:
                return mistyped(field, value, f"must be of type {' or '.join(choices)}")
    return invalid(field, value, str(error.message))


def path_text(path: Sequence[str | int]) -> str:
    """Return where something stands in a document as people write it: spec.rules[0].name, metadata.labels[a/b]."""
    text = ""
    for part in path:
        if isinstance(part, int) or not part.replace("_", "").replace("-", "").isalnum():
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def path_of(text: str) -> list[str | int]:
    """Return where something stands from how people write it, the other way round than `path_text`."""
    return [int(inside) if inside.isdigit() else inside or name for inside, name in _PARTS.findall(text)]


_PARTS = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
