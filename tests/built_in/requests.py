"""Objects and edits of built-in kinds, made from a seed: each object is a base, or a base with one planted change."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from controlplane.wire import builtin
from controlplane.wire.resource import Resource
from controlplane.wire.schema import Schema

Document = dict[str, Any]
Path_ = tuple[str | int, ...]

SEED = 20261123
NAMESPACE, LIMITED = "compare", "limited"
MOST = 70  # changes of one base, the largest bases excepted
LARGE = {"Deployment web": 480, "Pod alone": 150, "Service front": 120}
_NO_CHANGE = ("apiVersion", "kind")
_FORMATTED = ("quantity", "date-time", "byte", "int-or-string")
_MISSING = "$missing"


class Base(NamedTuple):
    """A valid object, and the kind that it has."""

    name: str
    document: Document
    resource: Resource


class Change(NamedTuple):
    """The value that a copy of a base has at a path. `_MISSING`: the copy has no value there."""

    base: str
    path: Path_
    value: Any


def requests(change: Change, base: Document, stored: Document) -> tuple[Document, Document | None]:
    """Return the object to create, and the edit of the stored base; None: the stored base lacks the changed part."""
    name = base["metadata"]["name"]
    created = base if change.path == ("metadata", "name") else changed(base, ("metadata", "name"), f"new-{name}")
    if base["kind"] == "Service":  # the stored base has its node port
        created = json.loads(json.dumps(created).replace("30070", "30071"))
    edited = None
    if change.path[:2] not in (("metadata",), ("metadata", "name")):  # the URL of an edit names the object
        with suppress(LookupError):
            edited = changed(stored, change.path, change.value)
    return changed(created, change.path, change.value), edited


@cache
def bases() -> dict[str, Base]:
    """Return the bases by name; their documents are not to be changed."""
    found = {}
    for document in yaml.safe_load_all(Path(__file__).with_name("bases.yaml").read_text()):
        group, _, version = document["apiVersion"].rpartition("/")
        resource = builtin.resource(group, version, document["kind"])
        assert resource is not None, document["kind"]
        if resource.namespaced:  # a LimitRange would add resources to the pods of its namespace
            document["metadata"]["namespace"] = LIMITED if resource.kind == "LimitRange" else NAMESPACE
        name = f"{document['kind']} {document['metadata']['name']}"
        found[name] = Base(name, document, resource)
    return found


def changes() -> list[Change]:
    """Return the changes of all bases, always the same."""
    made = list[Change]()
    for base in bases().values():
        schema = builtin.schema(base.resource.group, base.resource.version, base.resource.kind)
        possible = list(dict.fromkeys((path, _key(value)) for path, value in _changes(base.document, schema, ())))
        values = {(path, _key(value)): value for path, value in _changes(base.document, schema, ())}
        chance = random.Random(f"{SEED} {base.name}")
        most = LARGE.get(base.name, MOST)
        chosen = possible if len(possible) <= most else sorted(chance.sample(possible, most), key=possible.index)
        made += [Change(base.name, path, values[path, key]) for path, key in chosen]
    return made


def _key(value: Any) -> str:
    return repr(value)


def changed(document: Document, path: Path_, value: Any) -> Document:
    """Return a copy of a document with one value changed. Raises LookupError if nothing contains the path."""
    made = copy.deepcopy(document)
    inner: Any = made
    for part in path[:-1]:
        inner = inner[part]
    if value == _MISSING:
        if isinstance(inner, list) or path[-1] in inner:
            del inner[path[-1]]
    else:
        inner[path[-1]] = copy.deepcopy(value)
    return made


def _changes(value: Any, schema: Schema, path: Path_) -> Iterator[tuple[Path_, Any]]:
    """Yield the changes of a value and of everything in it. Values keep the type of their field."""
    if isinstance(value, dict):
        for name, inner in value.items():
            at = (*path, name)
            if (name in _NO_CHANGE and len(path) == 0) or at == ("metadata", "namespace"):
                continue
            if at != ("metadata", "name"):
                yield at, _MISSING
            yield from _changes(inner, schema.property(name) or Schema.OPEN, at)
        if schema.additional is not None and path:
            yield from _of_map(value, schema, path)
    elif isinstance(value, list):
        yield path, []
        yield path, [*value, value[0]]
        items = schema.items or Schema.OPEN
        if len(value) > 1:
            yield path, value[1:]
        for index, item in enumerate(value):
            yield from _changes(item, items, (*path, index))
    elif isinstance(value, bool):
        yield path, not value
    elif isinstance(value, int):
        for other in (-1, 0, 1, 70000, value + 1):
            if (other != value and path[-1] != "defaultMode") or other == -1:
                yield path, other
    elif isinstance(value, str) and schema.format not in _FORMATTED and not schema.int_or_string:
        yield from _of_text(value, path)


def _of_map(value: Document, schema: Schema, path: Path_) -> Iterator[tuple[Path_, Any]]:
    inner = schema.additional or Schema.OPEN
    if inner.type == "string" and inner.format not in _FORMATTED and not inner.int_or_string:
        yield path, {**value, "bad key!": "x"}
        yield path, {**value, "other": "x"}
        yield path, {**value, "long": "x" * 70}
    elif value:
        some = next(iter(value.values()))
        yield path, {**value, "bad key!": some}
        yield path, {**value, "other": some}
    yield path, {}


def _of_text(value: str, path: Path_) -> Iterator[tuple[Path_, Any]]:
    yield path, ""
    yield path, "Bad_Name!"
    yield path, "x" * 260
    yield path, f"{value}x"
    yield path, f"-{value}"
