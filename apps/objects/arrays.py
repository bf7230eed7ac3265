"""Columns of many rows as binary arrays of PostgreSQL, which statements turn into rows with `unnest`.

psycopg packs lists item by item in Python. For hundreds of rows of a dozen columns, that would be most of the work of a
transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from struct import Struct, pack
from typing import Any, ClassVar

from django.db import DEFAULT_DB_ALIAS
from django_prometheus.db import execute_total
from psycopg import Connection, Cursor
from psycopg.adapt import Dumper
from psycopg.pq import Format

# django-prometheus' count of statements. It counts those of Django's own cursors by itself.
EXECUTED = execute_total.labels(DEFAULT_DB_ALIAS, "postgresql")
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NULL = b"\xff\xff\xff\xff"
_four = Struct("!i").pack
_eight = Struct("!iq").pack
_double = Struct("!id").pack
_one = (pack("!ib", 1, 0), pack("!ib", 1, 1))


_SHORT = 4096  # packed lengths below this are kept


class _Lengths(dict[int, bytes]):
    """The packed form of each length of an item. Those of short items are kept: to look one up is faster."""

    def __missing__(self, length: int) -> bytes:
        packed = _four(length)
        if length < _SHORT:
            self[length] = packed
        return packed


_LENGTHS = _Lengths()


class Array:
    """A packed array. Its class is the type of its elements."""

    element: ClassVar[int] = 0
    oid: ClassVar[int] = 0

    def __init__(self, items: Iterable[bytes], *, count: int, nulls: bool = False) -> None:
        """Join items, each packed with its length in front. They are copied only once: a column may have megabytes."""
        head = pack("!iiIii", 1, int(nulls), self.element, count, 1) if count else pack("!iiI", 0, 0, self.element)
        self.packed = b"".join(chain((head,), items))


class TextArray(Array):
    element, oid = 25, 1009


class BigintArray(Array):
    element, oid = 20, 1016


class BooleanArray(Array):
    element, oid = 16, 1000


class DoubleArray(Array):
    element, oid = 701, 1022


class MomentArray(Array):
    element, oid = 1184, 1185


def texts(values: Iterable[str | bytes | None]) -> TextArray:
    """Return text[]. Values of type bytes must be UTF-8 without NUL, as documents are.

    Texts of users and members may contain a NUL, which PostgreSQL refuses. It is stored as ␀, and parameters of queries
    are changed in the same way, so that a search for such a text finds it.
    """
    items: list[Any] = list(values)
    try:
        text = "".join(items)
    except TypeError:
        items = [shown(item).encode() if isinstance(item, str) else item for item in items]
        if None in items:
            parts = (_NULL if item is None else _four(len(item)) + item for item in items)
            return TextArray(parts, count=len(items), nulls=True)
    else:
        items = list(map(str.encode, map(shown, items) if "\0" in text else items))  # most columns: no loop in Python
    packed = [b""] * (2 * len(items))
    packed[0::2] = map(_LENGTHS.__getitem__, map(len, items))
    packed[1::2] = items
    return TextArray(packed, count=len(items))


def shown(text: str) -> str:
    """Return a text as PostgreSQL keeps it: with ␀ for each NUL."""
    return text.replace("\0", "␀") if "\0" in text else text


def bigints(values: Iterable[int | None]) -> BigintArray:
    """Return bigint[]."""
    parts = [_NULL if value is None else _eight(8, value) for value in values]
    return BigintArray(parts, count=len(parts), nulls=_NULL in parts)


def booleans(values: Iterable[bool | None]) -> BooleanArray:
    """Return boolean[]."""
    parts = [_NULL if value is None else _one[bool(value)] for value in values]
    return BooleanArray(parts, count=len(parts), nulls=_NULL in parts)


def doubles(values: Iterable[float | None]) -> DoubleArray:
    """Return double precision[]."""
    parts = [_NULL if value is None else _double(8, value) for value in values]
    return DoubleArray(parts, count=len(parts), nulls=_NULL in parts)


@lru_cache(maxsize=1024)  # most times of a batch are that of the batch
def _moment(value: datetime) -> bytes:
    return _eight(8, (value - _EPOCH) // _MICROSECOND)


def moments(values: Iterable[datetime | None]) -> MomentArray:
    """Return timestamptz[]."""
    parts = [_NULL if value is None else _moment(value) for value in values]
    return MomentArray(parts, count=len(parts), nulls=_NULL in parts)


PACKERS: dict[str, Callable[[Iterable[Any]], Array]] = {
    "text": texts,
    "bigint": bigints,
    "boolean": booleans,
    "double precision": doubles,
    "timestamptz": moments,
}


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Array) -> bytes:
        return obj.packed


def _dumper(type_: type[Array]) -> type[Dumper]:
    return type(f"{type_.__name__}Dumper", (_ArrayDumper,), {"oid": type_.oid})


_DUMPERS = {type_: _dumper(type_) for type_ in (TextArray, BigintArray, BooleanArray, DoubleArray, MomentArray)}


def register_arrays(connection: Connection[Any]) -> None:
    """Make a connection accept packed arrays as parameters."""
    for type_, dumper in _DUMPERS.items():
        connection.adapters.register_dumper(type_, dumper)


class BinaryCursor(Cursor[Any]):
    """A cursor that takes packed arrays, prepares its statements and reads results in binary format.

    Its connection must know packed arrays (`register_arrays`). Parameters are bound by the server.
    """

    def run(self, query: Any, params: Sequence[Any] = ()) -> BinaryCursor:
        """Execute a prepared statement and return this cursor. NUL in texts is replaced, see `texts`."""
        params = [shown(value) if isinstance(value, str) else value for value in params]
        EXECUTED.inc()
        self.execute(query, params, prepare=True, binary=True)
        return self
