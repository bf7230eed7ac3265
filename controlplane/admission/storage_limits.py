"""Limits of PostgreSQL for the texts that are stored in columns and indexes: names, references and index entries.

The JSON document of an object may contain any text. PostgreSQL refuses the character NUL in a text column, and an index
entry of more than a third of a page. Admission refuses both here, by field, because the database would refuse a whole
batch.
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
"""Maximum bytes of an entry "index=value". PostgreSQL 15 allows 2704; a reference has about 700 at most."""

Path = tuple[str | int, ...]


def nul_causes(kind: Kind, document: dict[str, Any]) -> Iterator[Cause]:
    """Yield a cause for every NUL in a field that may be stored in a column: metadata, and the fields of our own kinds.

    The content of templates and a status may contain NUL, because they are stored in the document only.
    """
    if r"\x00" not in repr(document):  # the normal case; visiting every text takes ten times as long
        return
    described = {"metadata": document.get("metadata")}
    if not issubclass(kind.type, Template):
        described = {name: value for name, value in document.items() if name != "status"}
    for path, text in _texts(described, kind.schema()):
        if "\0" in text:
            yield invalid(path_text(path), text, r"must not contain the character NUL (\u0000)")


def index_entry_causes(kind: Kind, obj: Object) -> Iterator[Cause]:
    """Yield a cause for every field whose text is too long for an index of the kind."""
    too_long = (key for index in kind.indexes for key in index.keys(obj) if not fits(f"{index.name}={key}"))
    fields = {}
    for key in too_long:
        texts = _texts(msgspec.to_builtins(to_wire(obj)), Schema.OPEN)
        path, text = max(((path, text) for path, text in texts if text in key), key=lambda pair: len(pair[1]))
        fields[path_text(path)] = text
    for field, text in fields.items():
        yield invalid(field, text, f"is too long to be indexed: its index entry may have at most {MAX_ENTRY} bytes")


def fits(entry: str) -> bool:
    """Test whether an entry is short enough for an index."""
    return len(entry) * 4 <= MAX_ENTRY or len(entry.encode()) <= MAX_ENTRY


def _texts(value: Any, schema: Schema | None, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield the path and the text of every string that a schema describes, including the names of fields.

    Parts of the document with an OPEN schema are skipped, unless the schema of the whole value is OPEN.
    """
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
