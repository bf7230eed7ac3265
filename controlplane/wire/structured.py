"""Merging, comparing and pruning documents by their schema, for server-side apply.

Granular maps merge field by field, lists of type map and set merge by key or value. Everything else is replaced.
"""

from __future__ import annotations

from typing import Any, Final

from controlplane.apimachinery.equality import same
from controlplane.apimachinery.errors import BadRequest
from controlplane.wire.fieldset import SELF, Fields, element_of, fields_of, is_member, node_of, paths_in
from controlplane.wire.schema import Schema

Document = dict[str, Any]

# The merge rules for lists and maps of ObjectMeta, which are the same for every kind.
METADATA = Schema(
    {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
            "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "ownerReferences": {
                "type": "array",
                "items": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"],
            },
        },
    }
)


def without_nulls(value: Any, schema: Schema | None) -> Any:
    """Return the value without fields that are null, except fields for which null is a value."""
    schema = schema or Schema.OPEN
    if isinstance(value, dict):
        return {
            key: without_nulls(item, schema.property(key))
            for key, item in value.items()
            if item is not None or ((inner := schema.property(key)) is not None and inner.nullable)
        }
    if isinstance(value, list):
        return [without_nulls(item, schema.items) for item in value]
    return value


def merge(live: Any, applied: Any, schema: Schema) -> Any:
    """Return the live value after the applied value is merged into it."""
    if isinstance(applied, dict) and isinstance(live, dict) and schema.map_type != "atomic":
        result = None
        for key, value in applied.items():
            old = live.get(key)
            new = value if key not in live else merge(old, value, schema.property(key) or Schema.OPEN)
            if new is not old or key not in live:
                if result is None:
                    result = dict(live)
                result[key] = new
        return live if result is None else result
    if isinstance(applied, list) and schema.list_type != "atomic":
        return _merge_list(live if isinstance(live, list) else [], applied, schema)
    return live if _equal(live, applied) else applied


def _equal(left: Any, right: Any) -> bool:
    return type(left) is type(right) and same(left, right)


def _merge_list(live: list[Any], applied: list[Any], schema: Schema) -> list[Any]:
    """Return the items of both lists: applied items in their order, other live items at their relative position."""
    items = schema.items or Schema.OPEN
    wanted = {element_of(item, schema): item for item in applied}
    here = {element_of(item, schema): item for item in live}
    shared = iter([element for element in wanted if element in here])
    upcoming = next(shared, None)
    waiting = iter(wanted.items())
    result = []

    def take(last: str | None) -> None:
        for element, item in waiting:
            result.append(merge(here[element], item, items) if element in here else item)
            if element == last:
                break

    for item in live:
        element = element_of(item, schema)
        if element not in wanted:
            result.append(item)
        elif element == upcoming:
            take(element)
            upcoming = next(shared, None)
    take(None)
    return live if len(result) == len(live) and all(map(_is, result, live)) else result


class DuplicateItem(BadRequest):
    """An applied list has an item twice. `where`: the path of the list, with the key of the item."""

    def __init__(self, path: str, key: str) -> None:
        self.where = f"{path}: duplicate entries for key {key}"
        super().__init__(f"{self.where}: an applied list names each item once")


def refuse_duplicates(value: Any, schema: Schema, path: str = "") -> None:
    """Raise DuplicateItem if a list that merges by key or value has an item twice."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, dict | list):
                refuse_duplicates(item, schema.property(key) or Schema.OPEN, f"{path}.{key}")
    elif isinstance(value, list) and schema.list_type != "atomic":
        seen = set()
        for item in value:
            element = element_of(item, schema)
            shown = next(paths_in({element: {}}))
            if element in seen:
                raise DuplicateItem(path, shown)
            seen.add(element)
            if isinstance(item, dict):
                refuse_duplicates(item, schema.items or Schema.OPEN, path + shown)


def compare(old: Document, new: Document, schema: Schema) -> tuple[Fields, Fields]:
    """Return the paths that `new` adds or changes, and the paths that it lacks."""
    changed: Fields = {}
    removed: Fields = {}
    if old is new:
        return changed, removed
    for key, value in new.items():
        inner = schema.property(key) or Schema.OPEN
        if key not in old:
            changed.update(fields_of({key: value}, schema))
        elif not same(old[key], value):
            _compare_value(old[key], value, inner, "f:" + key, changed, removed)
    for key, value in old.items():
        if key not in new:
            removed["f:" + key] = _with_self(node_of(value, schema.property(key) or Schema.OPEN))
    return changed, removed


def _compare_value(old: Any, new: Any, schema: Schema, element: str, changed: Fields, removed: Fields) -> None:
    """Add the differences between two values at a path to the sets of changed and removed paths."""
    if isinstance(old, dict) and isinstance(new, dict) and schema.map_type != "atomic":
        inner_changed, inner_removed = compare(old, new, schema)
    elif isinstance(old, list) and isinstance(new, list) and schema.list_type != "atomic":
        inner_changed, inner_removed = _compare_list(old, new, schema)
    else:
        changed[element] = node_of(new, schema)
        if was := node_of(old, schema):  # a map or list that another type replaces
            removed[element] = was
        return
    if inner_changed:
        changed[element] = inner_changed
    if inner_removed:
        removed[element] = inner_removed


def _compare_list(old: list[Any], new: list[Any], schema: Schema) -> tuple[Fields, Fields]:
    """Return the paths of items that are added or changed, and of those that are removed."""
    changed: Fields = {}
    removed: Fields = {}
    items = schema.items or Schema.OPEN
    before = {element_of(item, schema): item for item in old}
    after = {element_of(item, schema): item for item in new}
    for element, item in after.items():
        if element not in before:
            changed[element] = _with_self(fields_of(item, items) if isinstance(item, dict) else {})
        elif not same(before[element], item):
            _compare_value(before[element], item, items, element, changed, removed)
    for element, item in before.items():
        if element not in after:
            removed[element] = _with_self(node_of(item, items))
    return changed, removed


def _with_self(node: Fields) -> Fields:
    return {SELF: {}, **node} if node else {}


def prune(value: Any, lost: Fields, kept: list[Fields], schema: Schema) -> Any:
    """Return the value without the paths `lost`, which a manager no longer applies, unless a set in `kept` has them.

    A map or list that loses its last entry is removed too, unless a manager owns the map or list itself.
    """
    if isinstance(value, dict):
        result = None
        for element, node in lost.items():
            key = element[2:]
            if element[:2] != "f:" or key not in value:
                continue
            inner = schema.property(key) or Schema.OPEN
            new = _pruned(value[key], node, element, kept, inner, is_named=key in schema.properties)
            if new is value[key]:
                continue
            if result is None:
                result = dict(value)
            if new is _REMOVED:
                del result[key]
            else:
                result[key] = new
        return value if result is None else result
    if isinstance(value, list) and schema.list_type != "atomic":
        items = schema.items or Schema.OPEN
        pruned = []
        for item in value:
            element = element_of(item, schema)
            node = lost.get(element)
            new = item if node is None else _pruned(item, node, element, kept, items, is_named=False)
            if new is not _REMOVED:
                pruned.append(new)
        return value if len(pruned) == len(value) and all(map(_is, pruned, value)) else pruned
    return value


_REMOVED: Final = object()


def _is(left: Any, right: Any) -> bool:
    return left is right


def _pruned(value: Any, node: Fields, element: str, kept: list[Fields], schema: Schema, *, is_named: bool) -> Any:
    """Return the pruned value at a path; _REMOVED: it is removed. None is the value null.

    is_named: it is a field of the schema, which stays while a manager owns anything in it. An item of a list or an
    entry of a map stays only while a manager owns the item itself: what others set in it does not keep it.
    """
    owners = [fields[element] for fields in kept if element in fields]
    if is_member(node) and not (owners if is_named else any(map(is_member, owners))):
        return _REMOVED
    if not node:
        return value
    new = prune(value, node, owners, schema)
    emptied = isinstance(new, dict | list) and not new and bool(value)
    return _REMOVED if emptied and not any(map(is_member, owners)) else new
