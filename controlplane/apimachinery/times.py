"""Times that users write. Each needs a time zone and is stored in UTC, as Kubernetes does it.

A time without a time zone cannot be compared with the clock. A time in another zone would be shown wrongly.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import inspect
from msgspec.structs import replace

END_OF_TIME = datetime(9999, 12, 31, tzinfo=UTC)  # not the maximum, so that callers can still add to it

_T = TypeVar("_T")
_EXAMPLE = "write it in UTC, for example 2026-11-22T03:12:00Z"


class _Field(NamedTuple):
    name: str
    wire: str


def later(moment: datetime, seconds: float) -> datetime:
    """Return the time `seconds` after a moment, at most END_OF_TIME. Users write "for ever" as a very large number."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return END_OF_TIME


def in_utc(value: _T, *, place: str = "$") -> _T:
    """Return a typed value with all times in it converted to UTC. Mappings in it are not searched for times.

    `place` is the path of the value, as msgspec writes paths. Raises msgspec.ValidationError with the path for a time
    without a time zone, and for a time outside the years 1 to 9999.
    """
    changed: Any = value
    if isinstance(value, datetime):
        changed = value if value.tzinfo is UTC else _to_utc(value, place)
    elif isinstance(value, msgspec.Struct):
        fields = ((field.name, getattr(value, field.name), field.wire) for field in _fields(type(value)))
        new = {name: (old, in_utc(old, place=f"{place}.{wire}")) for name, old, wire in fields if old is not None}
        moved = {name: after for name, (before, after) in new.items() if after is not before}
        changed = replace(value, **moved) if moved else value
    elif isinstance(value, tuple):
        items = tuple(in_utc(item, place=f"{place}[{index}]") for index, item in enumerate(value))
        changed = value if all(map(_same, items, value)) else items
    return changed  # type: ignore[no-any-return]  # of the type of `value`


def _same(one: object, other: object) -> bool:
    return one is other


def _to_utc(moment: datetime, place: str) -> datetime:
    if moment.tzinfo is None:
        raise msgspec.ValidationError(f"has no time zone; {_EXAMPLE} - at `{place}`")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise msgspec.ValidationError(
            f"is not a time in UTC: years are from 1 to 9999; {_EXAMPLE} - at `{place}`"
        ) from None


@lru_cache(maxsize=256)
def _fields(of: type[msgspec.Struct]) -> tuple[_Field, ...]:
    """Return the fields of a type that may contain times."""
    known = inspect.type_info(of)
    assert isinstance(known, inspect.StructType), f"{of} is a struct"
    return tuple(
        _Field(field.name, field.encode_name) for field in known.fields if _contains_times(field.type, frozenset({of}))
    )


def _contains_times(type_: inspect.Type, within: frozenset[type]) -> bool:
    if isinstance(type_, inspect.DateTimeType):
        return True
    if isinstance(type_, inspect.Metadata):
        return _contains_times(type_.type, within)
    if isinstance(type_, inspect.UnionType):
        return any(_contains_times(schema, within) for schema in type_.types)
    if isinstance(type_, inspect.VarTupleType):
        return _contains_times(type_.item_type, within)
    if isinstance(type_, inspect.StructType) and type_.cls not in within:
        return any(_contains_times(field.type, within | {type_.cls}) for field in type_.fields)
    return False


_SPANS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def in_words(seconds: float) -> str:
    """Return a length of time with its unit, and below ten units with the next smaller unit: 4 min 10 s, 12 min, 2 d.

    A remainder of zero is left out.
    """
    whole = max(0, int(seconds))
    for size, unit, small, small_unit in _SPANS:
        if whole >= size:
            count, rest = whole // size, whole % size // small
            return f"{count} {unit} {rest} {small_unit}" if count < 10 and rest else f"{count} {unit}"
    return f"{whole} s"
