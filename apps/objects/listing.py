"""Queries of the API for lists, single objects and changes, as JSON: no document is decoded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from django.db import transaction

from apps.objects import change_log, encryption
from apps.objects.apply import binary_cursor
from apps.objects.arrays import BinaryCursor
from apps.objects.arrays import texts as packed
from apps.objects.selecting import START, field_conditions, label_conditions, place_conditions
from apps.objects.tables import object_table
from controlplane.apimachinery.selectors import EVERYTHING, FieldSelectorTerm, LabelSelector


class Text(NamedTuple):
    """An object as it is served. `text` is its JSON."""

    namespace: str
    name: str
    text: bytes


class ObjectPage(NamedTuple):
    """Objects ordered by (namespace, name), and the resourceVersion of the list."""

    version: int
    found: list[Text]


@contextmanager
def one_snapshot() -> Iterator[None]:
    """Let all queries of a block see the same state of the database, that of the first query."""
    with transaction.atomic():
        with binary_cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def page(
    kind: str,
    *,
    namespace: str = "",
    after: tuple[str, str] = START,
    limit: int = 0,
    labels: LabelSelector = EVERYTHING,
    fields: Sequence[FieldSelectorTerm] = (),
    keys: Sequence[str] = (),
    opening: encryption.Opening = encryption.opened,
) -> ObjectPage:
    """Return the objects behind `after`, and the version of the list. One statement reads both from one snapshot.

    `fields`: only the terms of metadata.name and metadata.namespace count, the caller checks the other terms. `keys`:
    "index=value" of indexes that the kind declares. `limit` 0: all objects. `opening`: how Secrets are decrypted.
    Raises its SealError.
    """
    conditions, params = place_conditions(kind, namespace, after)
    extra: list[tuple[str, Any]] = [*label_conditions(labels), *field_conditions(fields)]
    if keys:
        extra.append(("keys @> %s", packed(keys)))
    for condition, value in extra:
        conditions.append(condition)
        params.append(value)
    ending = "LIMIT %s" if limit else ""
    query = f"""
        SELECT c.version, o.namespace, o.name, textsend(o.doc)
        FROM (SELECT coalesce((SELECT version FROM objects_counter WHERE id = 1), 0) AS version) c
        LEFT JOIN LATERAL (
            SELECT namespace, name, doc FROM {object_table(kind).name}
            WHERE {" AND ".join(conditions)} ORDER BY namespace, name {ending}
        ) o ON true ORDER BY o.namespace, o.name"""
    with binary_cursor() as cursor:
        rows = cursor.run(query, (*params, limit) if limit else params).fetchall()
    if kind in encryption.KINDS:
        stored = [row for row in rows if row[3] is not None]
        texts = encryption.all_opened(kind, (row[3] for row in stored), opening=opening)
        rows = [(*row[:3], text) for row, text in zip(stored, texts, strict=True)] or rows
    return ObjectPage(rows[0][0], [Text(space, name, text) for _, space, name, text in rows if name is not None])


def count(kind: str, *, namespace: str = "", after: tuple[str, str] = START, most: int = 0) -> int:
    """Return the number of objects behind `after`. `most`: the largest number that is counted; 0: all are counted."""
    query = f"""
        SELECT count(*) FROM (
            SELECT 1 FROM {object_table(kind).name}
            WHERE kind = %s AND (%s = '' OR namespace = %s) AND (namespace, name) > (%s, %s)
            ORDER BY namespace, name LIMIT %s) found"""
    with binary_cursor() as cursor:
        row = cursor.run(query, (kind, namespace, namespace, *after, most or None)).fetchone()
    return 0 if row is None else int(row[0])


def text_of(kind: str, namespace: str, name: str, *, opening: encryption.Opening = encryption.opened) -> bytes | None:
    """Return the JSON of an object; None: the object does not exist. `opening`: as of `page`."""
    query = f"""
        SELECT textsend(doc) FROM {object_table(kind).name} WHERE kind = %s AND namespace = %s AND name = %s"""
    with binary_cursor() as cursor:
        row = cursor.run(query, (kind, namespace, name)).fetchone()
    return None if row is None else opening(kind, row[0])


class Logged(NamedTuple):
    """A change of the change log, for watches."""

    version: int
    kind: str
    namespace: str
    name: str
    event: str  # ADDED, MODIFIED, DELETED
    document: bytes
    old_document: bytes | None


_CHANGES = f"""
    SELECT version, kind, namespace, name, type, textsend(doc), textsend(old_doc) FROM {change_log.TABLE}
    WHERE version > %s AND version <= %s AND kind = ANY(%s) ORDER BY version LIMIT %s"""


def read_changes(
    cursor: BinaryCursor,
    kinds: Collection[str],
    since: int,
    until: int,
    *,
    limit: int,
    opening: encryption.Opening = encryption.opened,
) -> list[Logged]:
    """Return the changes of kinds after the version `since` up to the version `until`, in order, at most `limit`.

    `opening`: as of `page`.
    """
    found = cursor.run(_CHANGES, (since, until, packed(kinds), limit))
    return [
        Logged(version, kind, namespace, name, event, *change_log.opened_both(kind, event, doc, old_doc, opening))
        for version, kind, namespace, name, event, doc, old_doc in found
    ]
