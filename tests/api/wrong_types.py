"""Documents in which one field has a value of another type, for every field of every kind, as each kind of body.

`python -m tests.api.wrong_types` prints how many there are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import yaml

from controlplane.kind import KINDS, Kind
from controlplane.wire.schema import Schema
from tests.api.written import SPECS

Document = dict[str, Any]
Path = tuple[str | int, ...]

APPLY = "application/apply-patch+yaml"
MERGE_PATCH, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
DEEPEST = 4  # fields below metadata, spec and status that are tried in kinds with thousands of fields
_HUGE = "1e400-stands-here"
_DEEP: Any = "x"
for _ in range(80):
    _DEEP = {"a": [_DEEP]}
VALUES: tuple[Any, ...] = ([], {}, "", 0, -1, _HUGE, True, None, "x" * 70_000, _DEEP, [[]], [None], {"": None})
"""`_HUGE` becomes the number 1e400, which no program here can hold."""


class Attempt(NamedTuple):
    """A request that may be refused, and may not fail."""

    method: str
    url: str
    type: str
    body: bytes


def attempts(key: str, namespace: str, *, each: int = 1, first: int = 0) -> Iterator[Attempt]:
    """Yield the requests for a kind: each field with each value, one of the ways to send it in turn. Only every
    `each`th is made, from the `first` on."""
    kind = KINDS[key]
    for number, (base, path, value) in islice(enumerate(_wrong(kind)), first, None, each):
        yield _sent(kind, namespace, base, path, value, way=number // max(each, 1))


def created(key: str, namespace: str) -> tuple[str, Document]:
    """Return the URL and the document of the object that patches are sent to; not every kind has one so small."""
    resource = KINDS[key].resource
    spec = next((spec for known, spec in SPECS if known == key), None)
    head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "wrong"}}
    return _collection(KINDS[key], namespace), head if spec is None else {**head, "spec": spec}


def _collection(kind: Kind, namespace: str) -> str:
    resource = kind.resource
    root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.api_version}"
    place = f"/namespaces/{namespace}" if resource.namespaced else ""
    return f"{root}{place}/{resource.plural}"


def _wrong(kind: Kind) -> Iterator[tuple[Document, Path, Any]]:
    known = [spec for key, spec in SPECS if key == kind.key]
    bases: list[Document] = [{"spec": spec} for spec in known] or [{}]
    for path in _paths(kind.schema(), ()):
        for value in VALUES:
            yield bases[len(path) % len(bases)], path, value


def _paths(schema: Schema, path: Path) -> Iterator[Path]:
    for name, inner in schema.properties.items():
        place = (*path, name)
        yield place
        if len(place) <= DEEPEST:
            held = inner.items if inner.type == "array" and inner.items is not None else inner
            yield from _paths(held, (*place, 0) if held is not inner else place)


def _sent(kind: Kind, namespace: str, base: Document, path: Path, value: Any, *, way: int) -> Attempt:
    resource, many = kind.resource, _collection(kind, namespace)
    head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "wrong"}}
    document = _with({**head, **base}, path, value)
    one = f"{many}/wrong"
    status = "/status" if path[0] == "status" and "status" in resource.subresources else ""
    patch = _with({}, path, value)
    operation = {"op": "add", "path": "".join(f"/{part}" for part in path), "value": value}
    text = yaml.dump(document, Dumper=yaml.CSafeDumper).encode()
    match way % 6:
        case 0:
            return Attempt("POST", many, "application/json", _json(document))
        case 1:
            return Attempt("POST", many, "application/yaml", text.replace(_HUGE.encode(), b"1e400"))
        case 2:
            return Attempt("PATCH", one + status, APPLY, _json(document))
        case 3:
            return Attempt("PATCH", one + status, MERGE_PATCH, _json(patch))
        case 4:
            return Attempt("PATCH", one + status, JSON_PATCH, _json([operation]))
        case _:
            return Attempt("PUT", one + status, "application/json", _json(document))


def bent(method: str, url: str, type: str, body: Any) -> Iterator[Attempt]:
    """Yield a request whose body is good, then with each part of the body replaced by each value."""
    yield Attempt(method, url, type, _json(body))
    for path in ((), *_parts(body, ())):
        for value in VALUES:
            yield Attempt(method, url, type, _json(_with(body, path, value)))


def _parts(value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, dict):
        inner: Any = value.items()
    else:
        inner = enumerate(value[:1]) if isinstance(value, list) else ()
    for part, item in inner:
        yield (*path, part)
        yield from _parts(item, (*path, part))


def _json(value: Any) -> bytes:
    return json.dumps(value).encode().replace(f'"{_HUGE}"'.encode(), b"1e400")


def _with(document: Any, path: Path, value: Any) -> Any:
    """Return a copy of a document with a value at a path; what is missing on the way is made."""
    if not path:
        return value
    part, rest = path[0], path[1:]
    if isinstance(part, int):
        items = document if isinstance(document, list) and document else [None]
        return [_with(items[0], rest, value), *items[1:]]
    held = document if isinstance(document, dict) else {}
    return {**held, part: _with(held.get(part), rest, value)}


if __name__ == "__main__":
    print(sum(1 for kind in KINDS for _ in attempts(kind.key, "default")))
