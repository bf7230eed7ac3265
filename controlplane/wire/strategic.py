"""Strategic merge patch: a merge patch that merges lists by the keys in the schema.

Rules: https://github.com/kubernetes/community/blob/main/contributors/devel/sig-api-machinery/strategic-merge-patch.md
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from controlplane.apimachinery.errors import BadRequest
from controlplane.wire.schema import Schema

Document = dict[str, Any]

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
ORDER = "$setElementOrder/"
DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"


def strategic_merge_patch(doc: Document, patch: Document, schema: Schema) -> Document:
    """Return the document after a strategic merge patch. The result shares unchanged parts with `doc`.

    Raises BadRequest if a directive is unknown, or if an item of a merged list lacks its key.
    """
    return _merge_map(doc, patch, schema, "")


def _merge_map(doc: Document, patch: Document, schema: Schema, path: str) -> Document:
    """Return an object after a patch of it: fields, directives and lists."""
    directive = patch.get(DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise BadRequest(f'{path or "patch"}: $patch: {directive!r} is not one of "replace", "delete", "merge"')
    merged = _retain(doc, patch, path)
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            merged.pop(key, None)
            continue
        inner = schema.property(key) or Schema.OPEN
        where = f"{path}.{key}" if path else key
        if isinstance(value, dict):
            old = merged.get(key)
            if value.get(DIRECTIVE) == "delete" and DIRECTIVE in value:
                merged.pop(key, None)
                continue
            merged[key] = _merge_map(old if isinstance(old, dict) else {}, value, inner, where)
        elif isinstance(value, list):
            merged[key] = _merge_list(merged.get(key), value, patch, key, inner, where)
        else:
            merged[key] = value
    _apply_parallel_lists(merged, patch, schema, path)
    return merged


def _retain(doc: Document, patch: Document, path: str) -> Document:
    """Return the document with only the keys in $retainKeys, if the patch has this directive."""
    retained = patch.get(RETAIN_KEYS)
    if retained is None:
        return dict(doc)
    if not isinstance(retained, list):
        raise BadRequest(f"{path or 'patch'}: $retainKeys has to be a list of keys")
    kept = {key for key in retained if isinstance(key, str)}
    extra = [key for key, value in patch.items() if value is not None and key[:1] != "$" and key not in kept]
    if extra:
        raise BadRequest(f"{path or 'patch'}: {extra[0]!r} is set by the patch but missing in its $retainKeys")
    return {key: value for key, value in doc.items() if key in kept}


def _apply_parallel_lists(merged: Document, patch: Document, schema: Schema, path: str) -> None:
    """Apply the directives for lists that the patch does not contain: deletions of items, and their order."""
    for directive, value in patch.items():
        if directive.startswith(DELETE_PRIMITIVES):
            key = directive[len(DELETE_PRIMITIVES) :]
            if not isinstance(value, list):
                raise BadRequest(f"{path or 'patch'}: {directive} has to be a list")
            old = merged.get(key)
            if isinstance(old, list):
                deleted = set(map(orjson.dumps, value))
                added = patch.get(key)
                again = added if isinstance(added, list) else []  # what is deleted and added is kept, at the end
                left = [item for item in old if orjson.dumps(item) not in deleted]
                merged[key] = left + [item for item in again if orjson.dumps(item) in deleted]
        elif directive.startswith(ORDER) and directive[len(ORDER) :] not in patch:
            key = directive[len(ORDER) :]
            old = merged.get(key)
            if isinstance(old, list) and isinstance(value, list):
                merge_key = (schema.property(key) or Schema.OPEN).patch_merge_key
                merged[key] = _ordered(old, value, old, _identity(merge_key, f"{path}.{key}"))


def _merge_list(old: Any, patch: list[Any], around: Document, key: str, schema: Schema, path: str) -> list[Any]:
    """Return a list after a patch of it. `around` is the patch of the object, which has the list's directives."""
    if not isinstance(old, list):
        old = []
    order = around.get(ORDER + key)
    if order is not None and not isinstance(order, list):
        raise BadRequest(f"{path}: {ORDER}{key} has to be a list")
    maps = any(isinstance(item, dict) for item in patch)
    if "merge" not in schema.patch_strategy or (maps and not schema.patch_merge_key):
        return [item for item in patch if not (isinstance(item, dict) and DIRECTIVE in item)]
    identity = _identity(schema.patch_merge_key, path)
    if not schema.patch_merge_key:
        known = set(map(identity, old))
        merged = old + [item for item in dict.fromkeys(map(identity, patch)) if item not in known]
        return _ordered(merged, order or patch, old, identity)
    if wrong := [item for item in patch if not isinstance(item, dict)]:
        raise BadRequest(f"{path}: {wrong[0]!r} is not an object; items are merged by {schema.patch_merge_key}")
    if any(item.get(DIRECTIVE) == "replace" for item in patch):
        return [item for item in patch if DIRECTIVE not in item]
    merged = _merge_items(old, patch, schema, identity, path)
    plain = [item for item in patch if item.get(DIRECTIVE) != "delete"]
    return _ordered(merged, order or plain, old, identity)


def _merge_items(
    old: list[Any], patch: list[Any], schema: Schema, identity: Callable[[Any], Any], path: str
) -> list[Any]:
    """Return the old items after the patch is merged into them, item by item.

    Of old items with the same name, the first is patched, and all are deleted, as in Kubernetes. To patch all of them
    would take hours if both lists are long and have one name only.
    """
    items = schema.items or Schema.OPEN
    merged = list(old)
    places: dict[Any, list[int]] = {}  # of the items of each name; several have it if the old list has duplicates
    for place, item in enumerate(old):
        places.setdefault(identity(item), []).append(place)
    gone: set[int] = set()
    for item in patch:
        name = identity(item)
        if item.get(DIRECTIVE) == "delete":
            gone.update(places.pop(name, ()))
        elif name in places:
            place = places[name][0]
            merged[place] = _merge_map(merged[place], item, items, f"{path}[{name}]")
        else:
            places[name] = [len(merged)]
            merged.append(_merge_map({}, item, items, f"{path}[{name}]"))
    return [item for place, item in enumerate(merged) if place not in gone]


def _identity(merge_key: str, path: str) -> Callable[[Any], Any]:
    """Return the function that identifies an item of a list: by its merge key, or by value for primitives."""

    def identity(item: Any) -> Any:
        if isinstance(item, dict) and merge_key not in item:
            raise BadRequest(
                f"{path}: an item of this list has no {merge_key or 'merge key'}, by which items are merged"
            )
        found = item[merge_key] if isinstance(item, dict) else item
        if isinstance(found, dict | list):
            raise BadRequest(f"{path}: items are identified by a plain value, not by {found!r}")
        return found

    return identity


def _ordered(merged: list[Any], order: list[Any], old: list[Any], identity: Callable[[Any], Any]) -> list[Any]:
    """Return the items in the order of the patch. Items that are only on the server keep their relative position."""
    rank = {identity(item): place for place, item in enumerate(order)}
    old_place = {identity(item): place for place, item in enumerate(old)}
    patched = sorted((item for item in merged if identity(item) in rank), key=lambda item: rank[identity(item)])
    others = [item for item in merged if identity(item) not in rank]
    result: list[Any] = []
    waiting = iter(others)
    other = next(waiting, None) if others else None
    remaining = len(others)
    for item in patched:
        place = old_place.get(identity(item), -1)
        while remaining and old_place.get(identity(other), len(old)) < place:
            result.append(other)
            remaining -= 1
            other = next(waiting, None)
        result.append(item)
    if remaining:
        result.append(other)
        result.extend(waiting)
    return result
