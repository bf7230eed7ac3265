"""Encryption of all stored Secrets with the first key, after a new key was put in front of the list.

No resourceVersion changes and no watcher is notified, because the documents that are served stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction

from apps.objects import change_log, due, encryption
from apps.objects.apply import binary_cursor
from apps.objects.arrays import BinaryCursor, bigints, texts
from apps.objects.tables import object_table

BATCH = 500  # rows read and written in one transaction


class Rotated(NamedTuple):
    """How many documents were encrypted with the first key, and those that stay: no key of the list decrypts them."""

    changed: int
    lost: tuple[str, ...]


def rotate() -> Rotated:
    """Encrypt every Secret with the first key, in the tables and in the change log.

    Other writers wait for at most one batch of a table, and never for the log. The rotation may be interrupted and
    started again at any time. A document that cannot be decrypted stays as it is, and keeps no other from being
    encrypted. Raises SealError without keys.
    """
    encryption.keys(settings.ENCRYPTION_KEYS)
    lost: list[str] = []
    tables = [Rotation(name, "id", ("doc",)) for name in sorted({object_table(kind).name for kind in encryption.KINDS})]
    changed = sum(chain.from_iterable(_passes(each, lost) for each in (*tables, _LOG)))
    return Rotated(changed, tuple(lost))


class Rotation(NamedTuple):
    """A table with encrypted documents. `is_written`: rows that exist are written by others as well."""

    table: str
    key: str
    columns: tuple[str, ...]
    is_written: bool = True


_LOG = Rotation(change_log.TABLE, "version", ("doc", "old_doc"), is_written=False)


def _passes(one: Rotation, lost: list[str]) -> Iterator[int]:
    """Encrypt a table in batches; yield how many rows each batch changed. Errors of documents are added to `lost`."""
    after = -1
    while numbers := _next(one, after):
        with transaction.atomic(durable=True), binary_cursor() as cursor:
            if one.is_written:
                cursor.run(due.WRITE_LOCK)  # so that no other process writes a row after it was read here
            yield _write(cursor, one, _read(cursor, one, numbers), lost)
        after = numbers[-1]


def _next(one: Rotation, after: int) -> list[int]:
    """Return the next rows by their keys. Between two of them there may be millions of others, and no writer waits."""
    query = f"SELECT {one.key} FROM {one.table} WHERE {one.key} > %s AND kind = ANY(%s) ORDER BY {one.key} LIMIT %s"
    with transaction.atomic(durable=True), binary_cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")
        return [key for (key,) in cursor.run(query, (after, texts(sorted(encryption.KINDS)), BATCH))]


def _read(cursor: BinaryCursor, one: Rotation, numbers: list[int]) -> list[Any]:
    query = f"SELECT {one.key}, {', '.join(one.columns)} FROM {one.table} WHERE {one.key} = ANY(%s)"
    return list(cursor.run(query, (bigints(numbers),)))


def _rotated(text: str, lost: list[str]) -> str:
    try:
        return encryption.rotated(text)
    except encryption.SealError as error:
        lost.append(str(error))
        return text


def _write(cursor: BinaryCursor, one: Rotation, rows: list[Any], lost: list[str]) -> int:
    written: set[int] = set()
    for place, column in enumerate(one.columns, start=1):
        documents = [(row[0], row[place], _rotated(row[place], lost)) for row in rows if row[place] is not None]
        new = [(number, after) for number, before, after in documents if after != before]
        if not new:
            continue
        statement = f"""
            UPDATE {one.table} t SET {column} = w.doc FROM unnest(%s, %s) AS w(number, doc)
            WHERE t.{one.key} = w.number"""
        cursor.run(statement, (bigints([number for number, _ in new]), texts([doc for _, doc in new])))
        written.update(number for number, _ in new)
    return len(written)
