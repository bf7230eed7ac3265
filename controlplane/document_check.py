"""Documents against the schema of their kind: what is null, what is missing, what has the wrong type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import jsonschema_rs

from controlplane.causes import duplicate, invalid, mistyped, required, unsupported
from controlplane.errors import Cause
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


def without_faults(document: Document, schema: Schema) -> Document:
    """Return a copy without the members whose values their schema does not allow, so that the rest can be judged.

    A list with a wrong item goes as a whole: what is said of the others must not name wrong places.
    """
    copy: Document = _plain(document)
    for error in _validator(schema).iter_errors(document):
        if not isinstance(error.kind, _Kind.Required):
            _drop(copy, list(error.instance_path))
    return copy


def _drop(document: Document, path: list[str | int]) -> None:
    while path and isinstance(path[-1], int):
        path.pop()
    inner: Any = document
    for part in path[:-1]:
        try:
            inner = inner[part]
        except (KeyError, IndexError):  # it went with what it stands in
            return
    if path:
        inner.pop(path[-1], None)


@lru_cache(maxsize=512)
def _validator(schema: Schema) -> Any:
    """Return the compiled form of a schema; each kind's is compiled once a process."""
    if isinstance(schema, StructuralSchema):
        return schema.validator
    components = schema.components.schemas
    used = _reachable(schema.node, components)
    nodes = {name: components[name] for name in sorted(used)}
    return jsonschema_rs.validator_for({**schema.node, "components": {"schemas": _plain(nodes)}})


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
