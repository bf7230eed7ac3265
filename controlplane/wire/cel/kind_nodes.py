"""The schemas of kinds as expressions of admission policies see them: without references, with full metadata."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from controlplane.wire import builtin
from controlplane.wire.schema import Schema

Node = Mapping[str, Any]  # of a schema

_ANY: Final[Node] = {"x-kubernetes-int-or-string": True}  # the compiler finds out nothing about it
_TEXT: Final[Node] = {"type": "string"}
_METADATA: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def kinds_named(constraints: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return (group, version, plural) for each resource that the rules of a policy name, sorted.

    As in Kubernetes, a rule with a "*" and a subresource name none.
    """
    found = {
        (group, version, plural)
        for rule in constraints.get("resourceRules") or ()
        for group in rule.get("apiGroups") or ()
        for version in rule.get("apiVersions") or ()
        for plural in rule.get("resources") or ()
        if "*" not in group + version + plural and "/" not in plural
    }
    return sorted(found)


@lru_cache(maxsize=128)
def kind_node(schema: Schema) -> Node:
    """Return the node of a kind."""
    made = _node(schema, ())
    metadata = _node(builtin.components().schema(_METADATA), ())
    own = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": metadata}
    return {"type": "object", "properties": {**made.get("properties", {}), **own}}


def _node(schema: Schema, within: tuple[int, ...]) -> Node:
    """Return a node without references. A type inside itself, and a value of any shape, are not described."""
    if id(schema) in within or schema is Schema.OPEN or schema.int_or_string:
        return _ANY
    inner = (*within, id(schema))
    match schema.type:
        case "object" if schema.properties:
            return {
                "type": "object",
                "properties": {name: _node(one, inner) for name, one in schema.properties.items()},
            }
        case "object":
            return _ANY if schema.additional is None else _map(schema.additional, inner)
        case "array":
            return {"type": "array", "items": _node(schema.items or Schema.OPEN, inner)}
        case "":
            return _TEXT if {"type": "string"} in schema.node.get("oneOf", ()) else _ANY  # a quantity is a text
    found: dict[str, Any] = {"type": schema.type}
    return found | ({"format": schema.format} if schema.format else {})


def _map(values: Schema, within: tuple[int, ...]) -> Mapping[str, Any]:
    return {"type": "object", "additionalProperties": _node(values, within)}
