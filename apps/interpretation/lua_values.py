"""Values between JSON and Lua, as Karmada converts them: null is left out, numbers are floating, empty tables are
lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from lupa import lua51

MAX_VALUES = 200_000  # in one result
MAX_DEPTH = 100
INTEGERS = 2.0**63  # numbers below it are written as integers, larger ones as 1e20
Table = Callable[[], Any]


class Unconvertible(ValueError):
    """A value of a script that no JSON value stands for."""


def to_lua(value: Any, table: Table) -> Any:
    """Return a JSON value as a Lua value. Null is left out of lists and objects."""
    if isinstance(value, dict):
        out = table()
        for key, entry in value.items():
            if entry is not None:
                out[key] = to_lua(entry, table)
        return out
    if isinstance(value, list | tuple):
        out = table()
        for index, entry in enumerate((entry for entry in value if entry is not None), start=1):
            out[index] = to_lua(entry, table)
        return out
    return value


class Reader:
    """Reads one result of a script. Raises Unconvertible if it is too large, too deep or no JSON value."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def read(self, value: Any, depth: int = 0) -> Any:
        """Return a Lua value as a JSON value. An empty table is an empty list.

        Raises Unconvertible for a value that JSON does not have, and if there are too many values or levels.
        """
        self._left -= 1
        if self._left < 0:
            raise Unconvertible(f"the result has more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            raise Unconvertible(f"the result is nested deeper than {MAX_DEPTH} levels; does a table contain itself?")
        if isinstance(value, float):
            if not math.isfinite(value):
                raise Unconvertible(f"the result contains the number {value}, which JSON does not have")
            return int(value) if value.is_integer() and abs(value) < INTEGERS else value
        if value is None or isinstance(value, bool | int | str):
            return value
        if lua51.lua_type(value) != "table":
            raise Unconvertible(f"the result contains a {lua51.lua_type(value) or 'value'}, which JSON does not have")
        return self._table(list(value.items()), depth)

    def _table(self, items: list[tuple[Any, Any]], depth: int) -> Any:
        if not items:
            return []
        if all(isinstance(key, str) for key, _ in items):
            return {key: self.read(entry, depth + 1) for key, entry in items}
        if not all(isinstance(key, int | float) and not isinstance(key, bool) for key, _ in items):
            raise Unconvertible("a table has keys of several types: use texts for an object, 1, 2, 3 for a list")
        entries = dict(items)
        if sorted(entries) != list(range(1, len(entries) + 1)):
            raise Unconvertible("a list has gaps: its keys must be 1, 2, 3 and so on")
        return [self.read(entries[index], depth + 1) for index in range(1, len(entries) + 1)]


def with_shapes(value: Any, references: Iterable[Any]) -> Any:
    """Return a result in which each empty table has become {} or [], or was left out.

    Lua does not distinguish the two. A field becomes {} if a reference has {} there, [] if a reference has [] there,
    and is left out if no reference has the field empty.
    """
    objects: set[tuple[str, ...]] = set()
    lists: set[tuple[str, ...]] = set()
    for reference in references:
        _find_empty(reference, (), objects=objects, lists=lists)
    return _shaped(value, (), objects=objects, lists=lists)


def _find_empty(
    value: Any, path: tuple[str, ...], *, objects: set[tuple[str, ...]], lists: set[tuple[str, ...]]
) -> None:
    if isinstance(value, dict):
        for key, entry in value.items():
            _note(entry, (*path, key), objects=objects, lists=lists)
    elif isinstance(value, list):
        for entry in value:
            _note(entry, path, objects=objects, lists=lists)


def _note(value: Any, path: tuple[str, ...], *, objects: set[tuple[str, ...]], lists: set[tuple[str, ...]]) -> None:
    if value == {}:
        objects.add(path)
    elif value == []:
        lists.add(path)
    else:
        _find_empty(value, path, objects=objects, lists=lists)


def _shaped(value: Any, path: tuple[str, ...], *, objects: set[tuple[str, ...]], lists: set[tuple[str, ...]]) -> Any:
    if isinstance(value, dict):
        return {
            key: {}
            if entry == [] and (*path, key) in objects
            else _shaped(entry, (*path, key), objects=objects, lists=lists)
            for key, entry in value.items()
            if entry != [] or (*path, key) in objects or (*path, key) in lists
        }
    if isinstance(value, list):
        return [
            {} if entry == [] and path in objects else _shaped(entry, path, objects=objects, lists=lists)
            for entry in value
            if entry != [] or path in objects or path in lists
        ]
    return value
