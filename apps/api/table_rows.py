"""Rows of Tables, each encoded once: a list that is read again costs only the rows of objects that have changed."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import orjson

from controlplane.wire.resource import Resource
from controlplane.wire.table import SteadyRow, columns_of, has_steady_rows, steady_row, table

MOST_ROWS: Final = 10_000  # that a process keeps
LARGEST_ROW: Final = 2048  # bytes; larger ones are not kept

_Key = tuple[str, str, bytes]


class TableRows:
    """The rows that one process keeps. The key of a row is the digest of its object's text. Any thread may use it."""

    def __init__(self, most: int = MOST_ROWS) -> None:
        self._most = most
        self._rows: OrderedDict[_Key, SteadyRow] = OrderedDict()
        self._lock = threading.Lock()

    def encoded(
        self, resource: Resource, texts: Sequence[bytes], list_meta: dict[str, Any], *, now: datetime
    ) -> bytes | None:
        """Return the Table of a list, each row with the metadata of its object.

        None: a column of the resource depends on the time, and is not the age.
        """
        columns = columns_of(resource)
        if not has_steady_rows(columns):
            return None
        head = orjson.dumps(table(resource, (), now=now, list_meta=list_meta))
        rows = []
        for text in texts:
            key = (resource.api_version, resource.kind, hashlib.blake2b(text, digest_size=16).digest())
            row = self._rows.get(key)
            if row is None:
                row = steady_row(columns, orjson.loads(text))
                self._keep(key, row)
            rows.append(row.encoded(now))
        return b"".join((head[: -len(b"]}")], b",".join(rows), b"]}"))

    def _keep(self, key: _Key, row: SteadyRow) -> None:
        """Keep a row. The row that was made first is forgotten first."""
        if len(row.before) + len(row.behind) > LARGEST_ROW:
            return
        with self._lock:
            self._rows[key] = row
            if len(self._rows) > self._most:
                self._rows.popitem(last=False)


ROWS: Final = TableRows()
