"""Answers: an object, a list or a plain document, before a renderer encodes it as JSON, YAML, Table or page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import orjson

from controlplane.wire.resource import Resource
from controlplane.wire.table import (
    Beside,
    IncludeObject,
    partial_object_metadata,
    partial_object_metadata_list,
    table,
)

Document = dict[str, Any]
ReadBeside = Callable[[], Beside]
"""Reads what columns of a kind show and its objects do not contain. Called once for each Table."""


class Answer:
    """A plain document, for example discovery, a Status or a review."""

    def __init__(self, document: Document) -> None:
        self._document = document

    @property
    def document(self) -> Document:
        return self._document

    @property
    def text(self) -> bytes:
        return orjson.dumps(self.document, option=orjson.OPT_UTC_Z)

    def as_table(self, *, now: datetime, include_object: IncludeObject) -> Document:
        """Return the answer as a Table. An answer without columns is returned as it is."""
        return self.document

    def as_metadata(self) -> Document:
        """Return the answer reduced to its metadata."""
        return self.document


class Text(Answer):
    """A document that is already encoded as JSON."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    @property
    def text(self) -> bytes:
        return self._text

    @cached_property
    def document(self) -> Document:
        document: Document = orjson.loads(self._text)
        return document


class ObjectAnswer(Text):
    """One object. `read_beside` None: its columns show only what the object contains."""

    def __init__(self, resource: Resource, text: bytes, read_beside: ReadBeside | None = None) -> None:
        super().__init__(text)
        self.resource = resource
        self.read_beside = read_beside

    def as_table(self, *, now: datetime, include_object: IncludeObject) -> Document:
        meta = {"resourceVersion": self.document["metadata"].get("resourceVersion", "")}
        beside = None if self.read_beside is None else self.read_beside()
        return table(
            self.resource, [self.document], now=now, include_object=include_object, list_meta=meta, beside=beside
        )

    def as_metadata(self) -> Document:
        return partial_object_metadata(self.document)


class ListAnswer(Answer):
    """A list of objects. Its JSON joins the stored texts of its items, without decoding or encoding them.

    `read_beside` None: the columns show only what the objects contain.
    """

    def __init__(
        self, resource: Resource, texts: Sequence[bytes], list_meta: Document, read_beside: ReadBeside | None = None
    ) -> None:
        self.resource = resource
        self.read_beside = read_beside
        self.texts = texts
        self.list_meta = list_meta

    @property
    def head(self) -> Document:
        return {
            "kind": self.resource.list_kind,
            "apiVersion": self.resource.api_version,
            "metadata": self.list_meta,
        }

    @property
    def text(self) -> bytes:
        return b"".join((orjson.dumps(self.head)[:-1], b',"items":[', b",".join(self.texts), b"]}"))

    @cached_property
    def items(self) -> list[Document]:
        return [orjson.loads(text) for text in self.texts]

    @property
    def rows(self) -> Sequence[Document]:
        """The objects that a Table shows."""
        return self.items

    def decoded(self) -> Iterator[Document]:
        """Yield the decoded items. Only one item is in memory at a time."""
        return (orjson.loads(text) for text in self.texts)

    @property
    def document(self) -> Document:
        return {**self.head, "items": self.items}

    def as_table(self, *, now: datetime, include_object: IncludeObject) -> Document:
        beside = None if self.read_beside is None else self.read_beside()
        return table(
            self.resource,
            self.rows,
            now=now,
            include_object=include_object,
            list_meta=self.list_meta,
            beside=beside,
        )

    def as_metadata(self) -> Document:
        return partial_object_metadata_list(self.items, self.list_meta)
