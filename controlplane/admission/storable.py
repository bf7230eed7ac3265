"""What a store keeps beside a document, to find it by: names, references and the entries of its kind's indexes.

The document itself may hold any text; PostgreSQL refuses a NUL in a text of its own, and an index entry of more than a
third of a page. Both are refused here, by field, before anything of a batch is sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from controlplane.apimachinery.causes import invalid
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Object
from controlplane.kind import Kind, to_wire
from controlplane.kinds.template import Template
from controlplane.wire.document_check import path_text
from controlplane.wire.schema import Schema

MAX_ENTRY: Final = 2000
"""Bytes of an entry, "index=value" (PostgreSQL 15: an index takes 2704). A reference has some 700 at most."""

Path = tuple[str | int, ...]


def nuls(kind: Kind, document: dict[str, Any]) -> Iterator[Cause]:
    """Yield a cause for every NUL in a text that becomes more than a part of the document: in metadata, and in what
    the kinds declared here consist of. What users bring (data, manifests) and a status may hold one."""
    if r"\x00" not in repr(document):  # as nearly always; looking at text by text takes ten times as long
        return
    described = {"metadata": document.get("metadata")}
    if not issubclass(kind.type, Template):
        described = {name: value for name, value in document.items() if name != "status"}
    for path, text in _texts(described, kind.schema()):
        if "\0" in text:
            yield invalid(path_text(path), text, r"must not contain the character NUL (\u0000)")


def entries(kind: Kind, obj: Object) -> Iterator[Cause]:
    """Yield a cause for every text that is too long for objects to be found by it."""
    long = (key for index in kind.indexes for key in index.keys(obj) if not fits(f"{index.name}={key}"))
    found = {}
    for key in long:
        texts = _texts(msgspec.to_builtins(to_wire(obj)), Schema.OPEN)
        path, text = max(((path, text) for path, text in texts if text in key), key=lambda one: len(one[1]))
        found[path_text(path)] = text
    for field, text in found.items():
        told = f"must have fewer than {MAX_ENTRY} bytes, together with what it is looked up with"
        yield invalid(field, text, told)


def fits(entry: str) -> bool:
    """Test whether an index takes an entry."""
    return len(entry) * 4 <= MAX_ENTRY or len(entry.encode()) <= MAX_ENTRY


def _texts(value: Any, schema: Schema | None, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield every text of a document that its schema describes, names in it as well, and where it stands. Of OPEN
    schemas all is described."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield (*path, name), name
            known = None if schema is None else schema.property(name)
            if schema is Schema.OPEN or known is not Schema.OPEN:
                yield from _texts(inner, known, (*path, name))
    elif isinstance(value, list | tuple):
        known = None if schema is None else schema.items
        for number, inner in enumerate(value if schema is Schema.OPEN or known is not Schema.OPEN else ()):
            yield from _texts(inner, known, (*path, number))
