"""Tables (meta.k8s.io/v1) of documents, which `kubectl get` prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import orjson

from controlplane.apimachinery.errors import BadRequest
from controlplane.wire.resource import AGE, Column, Resource, age, parse_time

Document = dict[str, Any]
IncludeObject = Literal["Metadata", "None", "Object"]
Beside = Callable[[Document], Document]
"""Returns additional fields that cells of a document may read, and that are not part of the object; {}: none."""

_NAME = Column(
    "Name",
    lambda document, now: document.get("metadata", {}).get("name", ""),
    format="name",
    description="Name of the object, unique in its namespace.",
    is_timed=False,
)
_MISSHAPEN = (AttributeError, IndexError, KeyError, TypeError, ValueError)
_ANY_TIME = datetime.min.replace(tzinfo=UTC)  # for columns that do not depend on it
_STAND_FOR_AGE = frozenset(("Age", "Last Seen", "Created At"))


def columns_of(resource: Resource) -> tuple[Column, ...]:
    """Return all columns of a resource: Name, its own columns, and, if it adds one, Age after those of priority 0."""
    names = {column.name for column in resource.columns}
    first = () if "Name" in names else (_NAME,)
    if names & _STAND_FOR_AGE or not resource.adds_age:
        return (*first, *resource.columns)
    wide = tuple(column for column in resource.columns if column.priority > 0)
    plain = tuple(column for column in resource.columns if column.priority == 0)
    return (*first, *plain, AGE, *wide)


def table(
    resource: Resource,
    documents: Iterable[Document],
    *,
    now: datetime,
    include_object: IncludeObject = "Metadata",
    list_meta: Document | None = None,
    definitions: bool = True,
    beside: Beside | None = None,
) -> Document:
    """Return the Table of a list, of a single object, or of a watch event.

    list_meta: metadata of the list (resourceVersion, continue).
    definitions: False for all watch events after the first of a stream, because clients remember the columns.
    """
    columns = columns_of(resource)
    rows = [_row(document, _cells(_with(document, beside), columns, now), include_object) for document in documents]
    shown: Document = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list_meta or {}}
    shown["columnDefinitions"] = [_definition(column) for column in columns] if definitions else []
    shown["rows"] = rows
    return shown


class SteadyRow(NamedTuple):
    """A row as JSON, without its age: the text before the age, the text behind it, and when the object was created."""

    before: bytes
    behind: bytes
    created: datetime | None

    def encoded(self, now: datetime) -> bytes:
        """Return the whole row."""
        return b'%b"%b"%b' % (self.before, age(self.created, now).encode(), self.behind)


def has_steady_rows(columns: tuple[Column, ...]) -> bool:
    """Test whether nothing but the age of an object changes in its row while the object stays as it is."""
    return columns.count(AGE) == 1 and not any(column.is_timed for column in columns if column is not AGE)


def steady_row(columns: tuple[Column, ...], document: Document) -> SteadyRow:
    """Return the row of a document, with its metadata as `object`. The columns have steady rows."""
    place = columns.index(AGE)
    cells = _cells(document, (*columns[:place], *columns[place + 1 :]), _ANY_TIME)
    before = b"".join(orjson.dumps(cell) + b"," for cell in cells[:place])
    behind = b"".join(b"," + orjson.dumps(cell) for cell in cells[place:])
    shown = orjson.dumps(_row_metadata(document))
    created = parse_time(document.get("metadata", {}).get("creationTimestamp"))
    return SteadyRow(b'{"cells":[' + before, behind + b'],"object":' + shown + b"}", created)


def include_object_of(text: str | None) -> IncludeObject:
    """Return the query parameter includeObject. Raises BadRequest if it is not None, Metadata or Object."""
    if text == "None":
        return "None"
    if text == "Object":
        return "Object"
    if text in (None, "", "Metadata"):
        return "Metadata"
    raise BadRequest(f"query parameter includeObject={text!r} is not one of None, Metadata, Object")


def partial_object_metadata(document: Document) -> Document:
    """Return the PartialObjectMetadata of a document."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": document.get("metadata", {})}


def partial_object_metadata_list(documents: Iterable[Document], list_meta: Document) -> Document:
    """Return the PartialObjectMetadataList of documents."""
    items = [partial_object_metadata(document) for document in documents]
    return {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": list_meta, "items": items}


def _with(document: Document, beside: Beside | None) -> Document:
    extra = beside(document) if beside is not None else None
    return {**document, **extra} if extra else document


def _row(document: Document, cells: list[Any], include_object: IncludeObject) -> Document:
    if include_object == "None":
        return {"cells": cells}
    return {"cells": cells, "object": document if include_object == "Object" else _row_metadata(document)}


def _cells(document: Document, columns: tuple[Column, ...], now: datetime) -> list[Any]:
    """Return the cells of a row. In a document of unexpected shape, only the affected cells are empty."""
    try:
        return [column.cell(document, now) for column in columns]
    except _MISSHAPEN:
        return [_cell(document, column, now) for column in columns]


def _cell(document: Document, column: Column, now: datetime) -> Any:
    try:
        return column.cell(document, now)
    except _MISSHAPEN:
        return "<invalid>"


def _row_metadata(document: Document) -> Document:
    """Return the metadata of a row without managedFields, which are half of a list's bytes and never printed."""
    partial = partial_object_metadata(document)
    if "managedFields" in partial["metadata"]:
        partial["metadata"] = {key: value for key, value in partial["metadata"].items() if key != "managedFields"}
    return partial


def _definition(column: Column) -> Document:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }
