"""The fields that the command reads of documents of users, and the error for a document that has them otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from apps.command.errors import usage

_NAMES: Final = {str: "a text", dict: "an object", list: "a list", int: "a whole number", bool: "true or false"}


class Field(NamedTuple):
    """A field, such as spec.clusters[].name. `needed`: it has to be there if its parent is."""

    path: str
    type: type
    needed: bool = False


def check(document: Any, fields: Iterable[Field], *, place: str) -> None:
    """Raise CommandError for the first field that is missing or of another type. Values are not shown.

    `fields`: parents before their fields. `place`: the document, as the message names it. A field that is null is not
    there.
    """
    if not isinstance(document, dict):
        raise usage(f"{place} is {_said(document)}, and has to be an object")
    for field in fields:
        for shown, value in _values("", document, field.path.split(".")):
            if value is None and field.needed:
                raise usage(f"{place}: {shown} is missing; it has to be {_NAMES[field.type]}")
            if value is not None and not _is(value, field.type):
                raise usage(f"{place}: {shown} is {_said(value)}, and has to be {_NAMES[field.type]}")


def _values(shown: str, parent: Any, path: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield the field of each parent that is there, with its path."""
    if parent is None:
        return
    if not path:
        yield shown, parent
        return
    key, brackets, _ = path[0].partition("[]")
    inner, named = parent.get(key), f"{shown}.{key}".lstrip(".")
    if brackets:
        for index, one in enumerate(inner or ()):
            yield from _values(f"{named}[{index}]", one, path[1:])
    elif len(path) == 1:
        yield named, inner
    else:
        yield from _values(named, inner, path[1:])


def _is(value: Any, wanted: type) -> bool:
    return isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))


def _said(value: Any) -> str:
    return next((name for type_, name in _NAMES.items() if _is(value, type_)), "null" if value is None else "a number")
