"""Not a bench: how fast PostgreSQL takes the rows that workers wrote, if they come by bare COPY into the same tables.

COPY is the fastest way into a table: no decision, no question before the write, one statement for each table. Indexes,
triggers and the log of the database are the same.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from django.db import connection

_TABLES = """
    SELECT c.oid::regclass::text FROM pg_class c
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
        AND (relname LIKE 'objects\\_%' OR relname LIKE 'clusters\\_%' OR relname LIKE 'policies\\_%'
             OR relname LIKE 'resources\\_%' OR relname LIKE 'scheduling\\_%' OR relname LIKE 'failover\\_%')
        AND relname NOT IN ('objects_counter', 'objects_lease', 'objects_origin', 'objects_topic', 'objects_tally')
    ORDER BY 1"""
_COLUMNS = """
    SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped
        AND attgenerated = '' ORDER BY attnum"""


class BareCopy:
    """The rows of the tables of objects. `remember` is called before the work, `seconds` after it."""

    def __init__(self) -> None:
        self._before: dict[str, set[bytes]] = {}

    def remember(self) -> None:
        """Keep which rows are stored now: they are not counted to the work."""
        self._before = {table: set(_lines(table)) for table in _tables()}

    def seconds(self) -> float:
        """Empty the tables and write the rows of the work again by COPY; return how long that took.

        Rows from before the work are put back first, outside of the measured time. The tables end as they were.
        """
        rows = {table: _lines(table) for table in _tables()}
        kept = {table: [line for line in lines if line in self._before.get(table, ())] for table, lines in rows.items()}
        work = {
            table: [line for line in lines if line not in self._before.get(table, ())] for table, lines in rows.items()
        }
        with connection.cursor() as cursor:
            cursor.execute(f"TRUNCATE {', '.join(rows)}")
        _copy(kept)
        with connection.cursor() as cursor:
            cursor.execute("CHECKPOINT")
        began = perf_counter()
        _copy(work)
        return perf_counter() - began


def _tables() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(_TABLES)
        return [name for (name,) in cursor.fetchall()]


def _columns(table: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(_COLUMNS, [table])
        return ", ".join(f'"{name}"' for (name,) in cursor.fetchall())


def _raw() -> Any:
    connection.ensure_connection()
    return connection.connection


def _lines(table: str) -> list[bytes]:
    """Return the rows of a table as lines of COPY."""
    with _raw().cursor() as cursor, cursor.copy(f"COPY (SELECT {_columns(table)} FROM {table}) TO STDOUT") as copy:
        return b"".join(copy).splitlines(keepends=True)


def _copy(rows: dict[str, list[bytes]]) -> None:
    for table, lines in rows.items():
        if lines:
            with _raw().cursor() as cursor, cursor.copy(f"COPY {table} ({_columns(table)}) FROM STDIN") as copy:
                copy.write(b"".join(lines))
