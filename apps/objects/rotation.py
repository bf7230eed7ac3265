"""Encryption of all stored Secrets with the first key, after a new key was put in front of the list.

No resourceVersion changes and no watcher is notified, because the documents that are served stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator
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

    Other writers wait for at most one batch. The rotation may be interrupted and started again at any time. A document
    that cannot be decrypted stays as it is, and keeps no other from being encrypted. Raises SealError without keys.
    """
    encryption.keys(settings.ENCRYPTION_KEYS)
    lost: list[str] = []
    changed = 0
    for table, key in ((name, "id") for name in sorted({object_table(kind).name for kind in encryption.KINDS})):
        changed += sum(_passes(table, key, ("doc",), lost))
    changed += sum(_passes(change_log.TABLE, "version", ("doc", "old_doc"), lost))
    return Rotated(changed, tuple(lost))


def _passes(table: str, key: str, columns: tuple[str, ...], lost: list[str]) -> Iterator[int]:
    """Encrypt a table in batches; yield how many rows each batch changed. Errors of documents are added to `lost`."""
    after = -1
    while True:
        with transaction.atomic(durable=True), binary_cursor() as cursor:
            cursor.run(due.WRITE_LOCK)  # so that no other process writes a row after it was read here
            rows = _read(cursor, table, key, columns, after)
            yield _write(cursor, table, key, columns, rows, lost)
        if len(rows) < BATCH:
            return
        after = rows[-1][0]


def _read(cursor: BinaryCursor, table: str, key: str, columns: tuple[str, ...], after: int) -> list[Any]:
    query = f"""
        SELECT {key}, {", ".join(columns)} FROM {table}
        WHERE {key} > %s AND kind = ANY(%s) ORDER BY {key} LIMIT %s"""
    return list(cursor.run(query, (after, texts(sorted(encryption.KINDS)), BATCH)))


def _rotated(text: str, lost: list[str]) -> str:
    try:
        return encryption.rotated(text)
    except encryption.SealError as error:
        lost.append(str(error))
        return text


def _write(
    cursor: BinaryCursor, table: str, key: str, columns: tuple[str, ...], rows: list[Any], lost: list[str]
) -> int:
    written: set[int] = set()
    for place, column in enumerate(columns, start=1):
        documents = [(row[0], row[place], _rotated(row[place], lost)) for row in rows if row[place] is not None]
        new = [(number, after) for number, before, after in documents if after != before]
        if not new:
            continue
        statement = f"""
            UPDATE {table} t SET {column} = w.doc FROM unnest(%s, %s) AS w(number, doc) WHERE t.{key} = w.number"""
        cursor.run(statement, (bigints([number for number, _ in new]), texts([doc for _, doc in new])))
        written.update(number for number, _ in new)
    return len(written)
