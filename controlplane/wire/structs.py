"""The OpenAPI schemas of Lifeboat's own kinds, made from the msgspec types that declare them.

Descriptions for `kubectl explain` come from `Annotated[..., msgspec.Meta(description=...)]` and from the docstrings of
the types, `x-kubernetes-*` keys from `Meta(extra_json_schema=...)`.
"""

from collections import ChainMap
from collections.abc import Mapping
from functools import cache
from inspect import cleandoc
from typing import Any

import msgspec
from msgspec import inspect

from controlplane.apimachinery.meta import ObjectMeta
from controlplane.wire import builtin
from controlplane.wire.resource import Resource
from controlplane.wire.schema import REF_PREFIX, Components, Schema

Node = dict[str, Any]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_INT_OR_STRING = {"x-kubernetes-int-or-string": True}
_OPEN = {"x-kubernetes-preserve-unknown-fields": True}
# The limits of msgspec by their names, and the names in OpenAPI.
_LIMITS = {
    "ge": "minimum",
    "le": "maximum",
    "multiple_of": "multipleOf",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
}
_LIST_LIMITS = {"min_length": "minItems", "max_length": "maxItems"}
_SCALARS = str | int | float | bool


_texts: dict[type, Mapping[str, str]] = {}


def describe(struct_type: type, texts: Mapping[str, str]) -> None:
    """Set the descriptions of a type's fields, by name. A description in the declaration of a field is kept."""
    _texts[struct_type] = texts


@cache
def schema_of(struct_type: type[msgspec.Struct], resource: Resource | None = None) -> Schema:
    """Return the Schema of a msgspec Struct type, always the same object.

    Metadata has the schema of Kubernetes' ObjectMeta. Fields of type Any and dict[str, Any] are open. `resource` is
    the kind that has this schema; None: it is no schema of a kind.
    Raises TypeError if a type has no form in OpenAPI.
    """
    own: dict[str, Node] = {}
    components = Components(ChainMap(own, builtin.components().schemas))  # type: ignore[arg-type]  # the second mapping is read-only
    info = inspect.type_info(struct_type)
    assert isinstance(info, inspect.StructType), f"{struct_type} is no Struct"
    node = _Translation(own).reference(info)
    if resource is None:
        return components.schema(_name(node["$ref"]))
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return Schema({**own[_name(node["$ref"])], "x-kubernetes-group-version-kind": [kind]}, components)


class _Translation:
    """Translates types to schema nodes, and collects each Struct among them as a component."""

    def __init__(self, components: dict[str, Node]) -> None:
        self.components = components

    def node(self, info: inspect.Type) -> Node:
        """Return the schema node of a type."""
        match info:
            case inspect.Metadata():
                return _with(self.node(info.type), info.extra_json_schema)
            case inspect.StructType():
                return self.reference(info)
            case inspect.UnionType():
                return self._union(info)
            case inspect.DictType():
                return self._map(info)
            case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType():
                return {"type": "array", "items": self.node(info.item_type), **_limits(info, _LIST_LIMITS)}
            case inspect.AnyType() | inspect.RawType():
                return dict(_OPEN)
            case _:
                return _scalar(info)

    def reference(self, info: inspect.StructType) -> Node:
        """Return a reference to the component of a Struct. The component is made at the first reference."""
        if info.cls is ObjectMeta:
            return {"$ref": f"{REF_PREFIX}{_META}ObjectMeta"}
        name = component_name(info.cls)
        if name not in self.components:
            component: Node = {"type": "object"}
            self.components[name] = component  # before its fields, because a type may contain itself
            text = _text(info.cls)
            if text:
                component["description"] = text
            texts = ChainMap(*[dict(_texts.get(type_, {})) for type_ in info.cls.__mro__])
            component["properties"] = {
                field.encode_name: self._field(field, texts.get(field.name, "")) for field in info.fields
            }
            required = [field.encode_name for field in info.fields if field.required]
            if required:
                component["required"] = required
        return {"$ref": REF_PREFIX + name}

    def _field(self, field: inspect.Field, text: str) -> Node:
        node = self.node(field.type)
        own = field.type.extra_json_schema if isinstance(field.type, inspect.Metadata) else None
        if text and "description" not in (own or {}):
            node = _with(node, {"description": text})
        if field.default_factory in (msgspec.NODEFAULT, list, dict, set):
            default: Any = field.default or None  # an empty default only means that the field is optional
        else:
            default = field.default_factory()  # a declared default is stored, even if it is empty
        if isinstance(default, _SCALARS) and "$ref" not in node:
            node["default"] = default
        return node

    def _union(self, info: inspect.UnionType) -> Node:
        """Return the node of a union. None is left out: in Kubernetes, null means that a field is not set."""
        choices = [choice for choice in info.types if not isinstance(choice, inspect.NoneType)]
        if len(choices) == 1:
            return self.node(choices[0])
        if {type(choice) for choice in choices} == {inspect.IntType, inspect.StrType}:
            return dict(_INT_OR_STRING)
        return {"oneOf": [self.node(choice) for choice in choices]}

    def _map(self, info: inspect.DictType) -> Node:
        if isinstance(info.value_type, inspect.AnyType):
            return {"type": "object", **_OPEN}
        return {"type": "object", "additionalProperties": self.node(info.value_type)}


def component_name(struct_type: type) -> str:
    """Return the name of a type's component. kubectl shows the part after the last dot."""
    return f"{struct_type.__module__.removeprefix('controlplane.')}.{struct_type.__qualname__}".replace(".<locals>", "")


def _scalar(info: inspect.Type) -> Node:
    """Return the node of a plain type. Raises TypeError for a type that OpenAPI cannot express."""
    match info:
        case inspect.StrType():
            return {"type": "string", **_limits(info, _LIMITS)}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.IntType():
            return {"type": "integer", "format": "int64", **_limits(info, _LIMITS)}
        case inspect.FloatType():
            return {"type": "number", "format": "double", **_limits(info, _LIMITS)}
        case inspect.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case inspect.BytesType():
            return {"type": "string", "format": "byte"}
        case inspect.LiteralType():
            return _enum(list(info.values))
        case inspect.EnumType():
            return _enum([member.value for member in info.cls])
        case _:
            raise TypeError(f"{info} has no form in OpenAPI; use a Struct, a list, a map or a plain value")


def _enum(values: list[Any]) -> Node:
    kind = "string" if all(isinstance(value, str) for value in values) else "integer"
    return {"type": kind, "enum": values}


def _limits(info: Any, names: Mapping[str, str]) -> Node:
    stated = {openapi: getattr(info, name, None) for name, openapi in names.items()}
    return {name: value for name, value in stated.items() if value is not None}


def _with(node: Node, extra: dict[str, Any] | None) -> Node:
    """Return the node with the keys that Meta adds. If the node is a reference, `openapi` wraps it in allOf later."""
    return {**node, **(extra or {})}


def _text(struct_type: type) -> str:
    """Return the first paragraph of a type's own docstring, with its fields under their names in documents. The rest is
    meant for readers of the code."""
    text = cleandoc(struct_type.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
    for field in msgspec.structs.fields(struct_type):
        text = text.replace(f"`{field.name}`", f"`{field.encode_name}`")
    return text


def _name(reference: str) -> str:
    return reference.removeprefix(REF_PREFIX)
