"""What a schema of a CustomResourceDefinition says about its lists and maps: which values of them are one value.

The rules and their texts are those of a kube-apiserver, because the members have to accept the definition as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from controlplane.apimachinery.causes import repeated
from controlplane.wire.structural import Flaw, Node, Path, nodes

LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_MAP_KEYS: Final = "x-kubernetes-list-map-keys"
MAP_TYPE: Final = "x-kubernetes-map-type"
_LIST_TYPES: Final = ("atomic", "set", "map")
_MAP_TYPES: Final = ("atomic", "granular")


def list_flaws(root: Node) -> Iterator[Flaw]:
    """Yield every list type, key of a list and map type of a schema that cannot be."""
    for path, node in nodes(root):
        yield from _types(path, node)
        yield from _keys(path, node)
        yield from _items(path, node)


def _types(path: Path, node: Node) -> Iterator[Flaw]:
    for word, choices, wanted in ((LIST_TYPE, _LIST_TYPES, "array"), (MAP_TYPE, _MAP_TYPES, "object")):
        if (chosen := node.get(word)) is None:
            continue
        if (stated := node.get("type")) != wanted:
            rule = f"must be {wanted} if {word} is specified"
            yield Flaw((*path, "type"), stated, rule, missing=not stated)
        if chosen not in choices:
            yield Flaw((*path, word), chosen, "", choices=choices)


def _keys(path: Path, node: Node) -> Iterator[Flaw]:
    """Yield the flaws of the keys by which the items of a list are distinguished."""
    keys, list_type = node.get(LIST_MAP_KEYS) or (), node.get(LIST_TYPE)
    if keys and list_type != "map":
        rule = f"must be map if {LIST_MAP_KEYS} is non-empty"
        yield Flaw((*path, LIST_TYPE), list_type, rule, missing=list_type is None)
    if list_type != "map":
        return
    if not keys:
        yield Flaw((*path, LIST_MAP_KEYS), None, f"must not be empty if {LIST_TYPE} is map", missing=True)
    items = node.get("items")
    if not isinstance(items, Mapping):
        yield Flaw((*path, "items"), None, f"must have a schema if {LIST_TYPE} is map", missing=True)
        return
    if (stated := items.get("type")) != "object":
        rule = f"must be object if parent array's {LIST_TYPE} is map"
        yield Flaw((*path, "items", "type"), stated or "", rule)
        return
    if repeated(keys):
        yield Flaw((*path, LIST_MAP_KEYS), keys, "must not contain duplicate entries")
    properties = items.get("properties") or {}
    if any(key not in properties for key in keys):
        yield Flaw((*path, LIST_MAP_KEYS), keys, "entries must all be names of item properties")
    for key in dict.fromkeys(keys):
        if key in properties:
            yield from _key((*path, "items", "properties", key), properties[key], key in (items.get("required") or ()))


def _key(path: Path, node: Node, is_required: bool) -> Iterator[Flaw]:
    """Yield the flaws of the field of an item that is one of the keys of its list."""
    if (stated := node.get("type")) in ("array", "object"):
        yield Flaw((*path, "type"), stated, f"must be a scalar type if parent array's {LIST_TYPE} is map")
    about = f"this property is in {LIST_MAP_KEYS}, so it"
    if not is_required and node.get("default") is None:
        yield Flaw((*path, "default"), None, f"{about} must have a default or be a required property", missing=True)
    if node.get("nullable"):
        yield Flaw((*path, "nullable"), None, f"{about} cannot be nullable")


def _items(path: Path, node: Node) -> Iterator[Flaw]:
    """Yield the flaws of the items of a set or map as a whole."""
    list_type, items = node.get(LIST_TYPE), node.get("items")
    if list_type not in ("set", "map") or not isinstance(items, Mapping):
        return
    if items.get("nullable"):
        yield Flaw((*path, "items", "nullable"), None, f"cannot be nullable when {LIST_TYPE} is {list_type}")
    if list_type == "set":
        rule = f"must be atomic as item of a list with {LIST_TYPE}=set"
        if items.get("type") == "array" and items.get(LIST_TYPE) not in (None, "atomic"):
            yield Flaw((*path, "items", LIST_TYPE), items[LIST_TYPE], rule)
        if items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
            yield Flaw((*path, "items", MAP_TYPE), items.get(MAP_TYPE) or "", rule)
