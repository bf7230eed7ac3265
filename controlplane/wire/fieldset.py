"""Sets of field paths, in the form that managedFields stores them (FieldsV1).

A set is a tree of dictionaries. Their keys are path elements: `f:name` is a field, `k:{"name":"x"}` an item of a list
of type map, `v:"x"` an item of a list of type set. The path of a node belongs to the set if the node is empty or has
the key `.`. The rules are those of https://github.com/kubernetes-sigs/structured-merge-diff (KEP-555).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from controlplane.wire.schema import Schema

Fields = dict[str, Any]

SELF = "."


def is_member(node: Fields) -> bool:
    """Test whether the path of the node itself belongs to the set, and not only paths below it."""
    return not node or SELF in node


def is_readable(fields: Any) -> bool:
    """Test whether a value is a valid set of paths. Clients may write managedFields themselves."""
    if not isinstance(fields, dict):
        return False
    return all(_is_element(element) and is_readable(node) for element, node in fields.items())


def _is_element(element: str) -> bool:
    kind, _, rest = element.partition(":")
    if kind in ("k", "v"):
        try:
            return isinstance(orjson.loads(rest), dict) or kind == "v"
        except orjson.JSONDecodeError:
            return False
    return kind == "f" or element == SELF


def fields_of(value: dict[str, Any], schema: Schema) -> Fields:
    """Return the paths of all values in an object: leaves, items of lists, and entries of maps."""
    fields: Fields = {}
    properties = schema.properties
    for key, item in value.items():
        inner = properties.get(key)
        if inner is not None:
            node = node_of(item, inner)
        else:
            node = node_of(item, schema.property(key) or Schema.OPEN)
            if node:
                node[SELF] = {}
        fields["f:" + key] = node
    return fields


def node_of(value: Any, schema: Schema) -> Fields:
    """Return the node of a value. Values are leaves, except maps and lists that merge and are not empty."""
    if isinstance(value, dict):
        return {} if schema.map_type == "atomic" else fields_of(value, schema)
    if isinstance(value, list) and schema.list_type != "atomic":
        items = schema.items or Schema.OPEN
        fields: Fields = {}
        for item in value:
            node = fields_of(item, items) if isinstance(item, dict) and schema.list_type == "map" else {}
            if node:
                node[SELF] = {}
            fields[element_of(item, schema)] = node
        return fields
    return {}


def element_of(item: Any, schema: Schema) -> str:
    """Return the path element of an item in a list of type map or set."""
    if schema.list_type == "map" and isinstance(item, dict):
        keys = schema.list_map_keys
        if len(keys) == 1:
            return f'k:{{"{keys[0]}":{orjson.dumps(_key_value(item, keys[0], schema)).decode()}}}'
        named = {key: _key_value(item, key, schema) for key in keys}
        return (
            "k:" + orjson.dumps({k: v for k, v in named.items() if v is not None}, option=orjson.OPT_SORT_KEYS).decode()
        )
    return "v:" + orjson.dumps(item, option=orjson.OPT_SORT_KEYS).decode()


def _key_value(item: dict[str, Any], key: str, schema: Schema) -> Any:
    if key in item:
        return item[key]
    declared = (schema.items or Schema.OPEN).properties.get(key)
    return declared.default if declared is not None else None


def union(left: Fields, right: Fields) -> Fields:
    """Return the paths in either set. The result may share nodes with the arguments."""
    if not left or not right:
        return left or right
    result = dict(left)
    for element, node in right.items():
        mine = result.get(element)
        if mine is None:
            result[element] = node
        elif mine is not node and mine != node:
            result[element] = _node(union(_below(mine), _below(node)), is_member(mine) or is_member(node))
    return result


def intersection(left: Fields, right: Fields) -> Fields:
    """Return the paths in both sets."""
    result: Fields = {}
    for element, node in left.items():
        theirs = right.get(element)
        if theirs is None or element == SELF:
            continue
        both = is_member(node) and is_member(theirs)
        below = intersection(node, theirs) if node and theirs else {}
        if both or below:
            result[element] = _node(below, both)
    return result


def difference(left: Fields, right: Fields, *, with_subtrees: bool = False) -> Fields:
    """Return the paths in `left` that are not in `right`. with_subtrees: nor below a path in `right`."""
    if not right:
        return left
    result: Fields = {}
    for element, node in left.items():
        removed = right.get(element)
        if removed is None:
            result[element] = node
            continue
        if element == SELF or (with_subtrees and is_member(removed)):
            continue
        stays = is_member(node) and not is_member(removed)
        below = difference(_below(node), _below(removed), with_subtrees=with_subtrees) if node else {}
        if stays or below:
            result[element] = _node(below, stays)
    return result


def _below(node: Fields) -> Fields:
    return {element: inner for element, inner in node.items() if element != SELF} if SELF in node else node


def _node(below: Fields, member: bool) -> Fields:
    return {SELF: {}, **below} if member and below else below


def paths_in(fields: Fields, prefix: str = "") -> Iterator[str]:
    """Yield the paths as text, for example .spec.template.spec.containers[name="web"].image."""
    for element, node in fields.items():
        if element == SELF:
            continue
        path = prefix + _shown(element)
        if is_member(node):
            yield path
        yield from paths_in(node, path)


def _shown(element: str) -> str:
    kind, _, rest = element.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        keys = orjson.loads(rest)
        return "[" + ",".join(f"{key}={orjson.dumps(value).decode()}" for key, value in keys.items()) + "]"
    return f"[={rest}]"
