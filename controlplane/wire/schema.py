"""An OpenAPI v3 schema with answers about fields: their types, how their lists merge, and which are unknown."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple

REF_PREFIX = "#/components/schemas/"

# Keys that describe the field in which a type is used, not the type.
_REMARKS = frozenset({"description", "default", "title", "example"})


class GroupVersionKind(NamedTuple):
    """The full name of a kind; `group` is "" for the core group."""

    group: str
    version: str
    kind: str


class Components:
    """The named schemas of an API, to which nodes refer by `$ref`. A Schema is made when it is first needed."""

    def __init__(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        self.schemas = schemas
        self._made: dict[str, Schema] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.schemas

    def schema(self, name: str) -> Schema:
        """Return the Schema with a name, always the same object. Raises KeyError if there is none."""
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = Schema(self.schemas[name], self)
        return made


NO_COMPONENTS = Components({})


class Schema:
    """A node of an OpenAPI v3 schema, with the components that it refers to.

    References are resolved once: `$ref`, or `allOf` around a single `$ref`, as Kubernetes writes a reference with a
    description. Keys beside a reference override those of its target. Answers are cached, so that thousands of
    documents can be visited quickly. Schemas may be recursive; children are made when they are first needed.

    `Schema.OPEN` is the schema of values without a description: every field is allowed, lists are atomic, maps are
    granular.
    """

    OPEN: ClassVar[Schema]

    def __init__(self, node: Mapping[str, Any], components: Components | Mapping[str, Any] = NO_COMPONENTS) -> None:
        self.components = components if isinstance(components, Components) else Components(components)
        self.node: Mapping[str, Any] = _resolved(node, self.components)

    def __repr__(self) -> str:
        names = ", ".join(f"{gvk.kind}" for gvk in self.gvks) or self.type or "any"
        return f"<Schema {names}: {', '.join(list(self.properties)[:6])}>"

    def property(self, name: str) -> Schema | None:
        """Return the schema of a field; None: the object must not have this field.

        The fields of a map have its `additional` schema. Unknown fields of an open object have the schema OPEN.
        """
        known = self.properties.get(name)
        if known is not None:
            return known
        if self.additional is not None:
            return self.additional
        return Schema.OPEN if self.preserves_unknown else None

    @cached_property
    def properties(self) -> Mapping[str, Schema]:
        """Return the declared fields by name, in the order of declaration."""
        declared = {name: self._child(node) for name, node in self.node.get("properties", {}).items()}
        if self.embedded_resource:
            for name in ("apiVersion", "kind"):
                declared.setdefault(name, Schema({"type": "string"}))
            declared.setdefault("metadata", Schema.OPEN)
        return MappingProxyType(declared)

    @cached_property
    def items(self) -> Schema | None:
        """Return the schema of a list's items; OPEN: they are not described; None: this is not a list."""
        node = self.node.get("items")
        if isinstance(node, Mapping):
            return self._child(node)
        return Schema.OPEN if self.type in ("array", "") and not self.properties else None

    @cached_property
    def additional(self) -> Schema | None:
        """Return the schema of a map's values; None: this is not a map."""
        node = self.node.get("additionalProperties")
        if isinstance(node, Mapping):
            return self._child(node) if node else Schema.OPEN
        return Schema.OPEN if node is True else None

    @cached_property
    def type(self) -> str:
        """Return "object", "array", "string", "integer", "number" or "boolean"; "": several types are allowed."""
        stated = self.node.get("type", "")
        if stated:
            return str(stated)
        if "properties" in self.node or "additionalProperties" in self.node:
            return "object"
        return "array" if "items" in self.node else ""

    @cached_property
    def format(self) -> str:
        """Return the format ("int32", "date-time", "byte"…); "": none."""
        return str(self.node.get("format", ""))

    @cached_property
    def description(self) -> str:
        """Return the description that `kubectl explain` prints; "": none."""
        return str(self.node.get("description", ""))

    @cached_property
    def default(self) -> Any:
        """Return the default of a field; None: none. Example: the protocol of a port, a key of its list, is TCP."""
        return self.node.get("default")

    @cached_property
    def enum(self) -> tuple[Any, ...]:
        """Return the allowed values; empty: all values are allowed."""
        return tuple(self.node.get("enum", ()))

    @cached_property
    def nullable(self) -> bool:
        """Test whether null is a value of its own. Otherwise, null means that the field is not set."""
        return self.node.get("nullable") is True

    @cached_property
    def required(self) -> tuple[str, ...]:
        """Return the names of the required fields."""
        return tuple(self.node.get("required", ()))

    @cached_property
    def list_type(self) -> Literal["atomic", "set", "map"]:
        """Return how server-side apply merges a list: as a whole (the default), by value (set) or by keys (map)."""
        stated = self.node.get("x-kubernetes-list-type", "atomic")
        return stated if stated in ("set", "map") else "atomic"

    @cached_property
    def list_map_keys(self) -> tuple[str, ...]:
        """Return the fields that identify the items of a list of type "map"."""
        return tuple(self.node.get("x-kubernetes-list-map-keys", ()))

    @cached_property
    def map_type(self) -> Literal["granular", "atomic"]:
        """Return whether server-side apply owns an object field by field (the default) or as a whole."""
        return "atomic" if self.node.get("x-kubernetes-map-type") == "atomic" else "granular"

    @cached_property
    def patch_merge_key(self) -> str:
        """Return the field that identifies the items of a list in a strategic merge patch; "": none."""
        return str(self.node.get("x-kubernetes-patch-merge-key", ""))

    @cached_property
    def patch_strategy(self) -> tuple[str, ...]:
        """Return the strategies of a strategic merge patch ("merge", "retainKeys", "replace"); empty: not declared."""
        stated = str(self.node.get("x-kubernetes-patch-strategy", ""))
        return tuple(part for part in stated.split(",") if part)

    @cached_property
    def preserves_unknown(self) -> bool:
        """Test whether undeclared fields are kept, by declaration or because the value is not described at all."""
        if self.node.get("x-kubernetes-preserve-unknown-fields") is True:
            return True
        return not (self.type or self.int_or_string or self.enum)

    @cached_property
    def int_or_string(self) -> bool:
        """Test whether numbers and strings are both allowed, as for IntOrString and Quantity."""
        if self.node.get("x-kubernetes-int-or-string") is True or self.format == "int-or-string":
            return True
        types = {choice.get("type") for choice in self.node.get("oneOf") or self.node.get("anyOf") or ()}
        return "string" in types and bool(types & {"integer", "number"})

    @cached_property
    def embedded_resource(self) -> bool:
        """Test whether the value is a complete Kubernetes object with apiVersion, kind and metadata."""
        return self.node.get("x-kubernetes-embedded-resource") is True

    @cached_property
    def gvks(self) -> tuple[GroupVersionKind, ...]:
        """Return the kinds that have this schema. Only the root node of a kind has any."""
        return tuple(
            GroupVersionKind(entry.get("group", ""), entry.get("version", ""), entry.get("kind", ""))
            for entry in self.node.get("x-kubernetes-group-version-kind", ())
        )

    def _child(self, node: Mapping[str, Any]) -> Schema:
        if len(node) == 1 and "$ref" in node:
            return self.components.schema(_component_name(node["$ref"]))
        return Schema(node, self.components)


def _resolved(node: Mapping[str, Any], components: Components) -> Mapping[str, Any]:
    """Return the node with its reference, if it is one, replaced by the target."""
    inner: Mapping[str, Any] | None = None
    if "$ref" in node:
        inner = node
    elif len(node.get("allOf", ())) == 1 and "properties" not in node:
        inner = node["allOf"][0]
    if inner is None or "$ref" not in inner:
        return node
    target = _resolved(components.schemas[_component_name(inner["$ref"])], components)
    beside = {key: value for key, value in node.items() if key not in ("$ref", "allOf")}
    if not beside:
        return target
    if "description" not in beside and "description" in target:
        beside["description"] = target["description"]
    return {**{key: value for key, value in target.items() if key not in _REMARKS}, **beside}


def _component_name(reference: str) -> str:
    return reference.removeprefix(REF_PREFIX)


Schema.OPEN = Schema({"x-kubernetes-preserve-unknown-fields": True})
