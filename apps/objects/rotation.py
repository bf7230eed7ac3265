"""Sealing anew what is stored, after the first of the encryption keys changed. No version changes: what is served does
not, and so nobody who watches hears of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import transaction

from apps.objects import change_log, due, encryption
from apps.objects.apply import binary_cursor
from apps.objects.arrays import BinaryCursor, bigints, texts
from apps.objects.tables import object_table

BATCH = 500  # rows read and written in one transaction


def rotate() -> int:
    """Seal every Secret with the first key, in the objects and in the log; return how many documents were changed.

    Writers wait for one batch at most. It may be broken off and begun again at any time. Raises SealError where
    something was sealed with a key that is no longer named.
    """
    changed = 0
    for table, key in ((name, "id") for name in sorted({object_table(kind).name for kind in encryption.KINDS})):
        changed += sum(_passes(table, key, ("doc",)))
    return changed + sum(_passes(change_log.TABLE, "version", ("doc", "old_doc")))


def _passes(table: str, key: str, columns: tuple[str, ...]) -> Iterator[int]:
    """Yield how many rows each batch changed."""
    after = -1
    while True:
        with transaction.atomic(durable=True), binary_cursor() as cursor:
            cursor.run(due.WRITE_LOCK)  # nobody writes a row between its reading and its writing
            rows = _read(cursor, table, key, columns, after)
            yield _write(cursor, table, key, columns, rows)
        if len(rows) < BATCH:
            return
        after = rows[-1][0]


def _read(cursor: BinaryCursor, table: str, key: str, columns: tuple[str, ...], after: int) -> list[Any]:
    query = f"""
        SELECT {key}, {", ".join(columns)} FROM {table}
        WHERE {key} > %s AND kind = ANY(%s) ORDER BY {key} LIMIT %s"""
    return list(cursor.run(query, (after, texts(sorted(encryption.KINDS)), BATCH)))


def _write(cursor: BinaryCursor, table: str, key: str, columns: tuple[str, ...], rows: list[Any]) -> int:
    written: set[int] = set()
    for place, column in enumerate(columns, start=1):
        found = [(row[0], row[place], encryption.rotated(row[place])) for row in rows if row[place] is not None]
        new = [(number, after) for number, before, after in found if after != before]
        if not new:
            continue
        statement = f"""
            UPDATE {table} t SET {column} = w.doc FROM unnest(%s, %s) AS w(number, doc) WHERE t.{key} = w.number"""
        cursor.run(statement, (bigints([number for number, _ in new]), texts([doc for _, doc in new])))
        written.update(number for number, _ in new)
    return len(written)
