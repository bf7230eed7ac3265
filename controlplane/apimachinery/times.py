"""Moments people write: each says its time zone and is kept in UTC, as Kubernetes keeps them; and moments later on.

One without a zone cannot be compared with the clock, and a window in another zone than ours would be told wrongly.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import inspect
from msgspec.structs import replace

END_OF_TIME = datetime(9999, 12, 31, tzinfo=UTC)  # a day of room for whoever counts on from there

_T = TypeVar("_T")
_EXAMPLE = "write it in UTC, for example 2026-11-22T03:12:00Z"


class _Field(NamedTuple):
    name: str
    wire: str


def later(moment: datetime, seconds: float) -> datetime:
    """Return the moment so many seconds later; the end of time where that is beyond it: people write "for ever" as a
    number, and as large a one as there is."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return END_OF_TIME


def in_utc(value: _T, *, place: str = "$") -> _T:
    """Return a typed value with every moment in it in UTC. What a mapping holds is nobody's moment.

    Raises msgspec.ValidationError, with the place as msgspec tells it, for a moment without a time zone or outside the
    years there are.
    """
    changed: Any = value
    if isinstance(value, datetime):
        changed = value if value.tzinfo is UTC else _moved(value, place)
    elif isinstance(value, msgspec.Struct):
        found = ((one.name, getattr(value, one.name), one.wire) for one in _fields(type(value)))
        new = {name: (old, in_utc(old, place=f"{place}.{wire}")) for name, old, wire in found if old is not None}
        moved = {name: after for name, (before, after) in new.items() if after is not before}
        changed = replace(value, **moved) if moved else value
    elif isinstance(value, tuple):
        items = tuple(in_utc(one, place=f"{place}[{index}]") for index, one in enumerate(value))
        changed = value if all(map(_same, items, value)) else items
    return changed  # type: ignore[no-any-return]  # of the same type as what came in


def _same(one: object, other: object) -> bool:
    return one is other


def _moved(moment: datetime, place: str) -> datetime:
    if moment.tzinfo is None:
        raise msgspec.ValidationError(f"has no time zone; {_EXAMPLE} - at `{place}`")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise msgspec.ValidationError(
            f"is no moment in UTC: years are from 1 to 9999; {_EXAMPLE} - at `{place}`"
        ) from None


@lru_cache(maxsize=256)
def _fields(of: type[msgspec.Struct]) -> tuple[_Field, ...]:
    """Return the fields of a struct under which there may be moments."""
    known = inspect.type_info(of)
    assert isinstance(known, inspect.StructType), f"{of} is a struct"
    return tuple(_Field(one.name, one.encode_name) for one in known.fields if _holds(one.type, frozenset({of})))


def _holds(type_: inspect.Type, within: frozenset[type]) -> bool:
    if isinstance(type_, inspect.DateTimeType):
        return True
    if isinstance(type_, inspect.Metadata):
        return _holds(type_.type, within)
    if isinstance(type_, inspect.UnionType):
        return any(_holds(one, within) for one in type_.types)
    if isinstance(type_, inspect.VarTupleType):
        return _holds(type_.item_type, within)
    if isinstance(type_, inspect.StructType) and type_.cls not in within:
        return any(_holds(one.type, within | {type_.cls}) for one in type_.fields)
    return False
