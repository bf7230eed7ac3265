"""The evaluation of JSONPath templates: the values that their nodes find in a document."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from controlplane.apimachinery.jsonpath.gotext import json_number, json_text, number_text
from controlplane.apimachinery.jsonpath.template import (
    Field,
    Filter,
    Identifier,
    Integer,
    JSONPathError,
    Literal,
    Node,
    Part,
    Recursive,
    Slice,
    Union,
    Wildcard,
    parse,
)

MAX_STEPS: Final = 100_000
"""The maximum number of values that a template may read in a document."""
MAX_RESULT_LENGTH: Final = 256 * 1024
MAX_DEPTH: Final = 200
"""The maximum nesting of a value that is printed."""


class _Byte(int):
    """One byte of a text. ``*`` and ``..`` split texts into bytes, as in Kubernetes."""


_NOTHING: Final = object()
"""Stands for a document that is null."""


def evaluate(template: str, document: Any) -> str:
    """Return the text that a template produces for a document (parsed JSON). Raises JSONPathError for an invalid
    template, and if the template finds nothing."""
    walk = _Walk(template)
    try:
        return walk.text(parse(template), document)
    except OverflowError as error:
        raise walk.wrong("a number of the document is too large to be printed") from error


def first(template: str, document: Any) -> Any:
    """Return the first value that a template of one action finds in a document; None: it finds nothing.

    As in printer columns of Kubernetes, a missing key is no error, and an integer of the document is one. Raises
    JSONPathError for an invalid template, and for a document that it does not fit.
    """
    walk = _Walk(template, is_column=True)
    found = walk.run(parse(template), 0, document)
    return found[0][0] if found and found[0] else None


class _Failed(JSONPathError):
    """A path found nothing. `found`: the values that were found before, for filters that only test existence."""

    def __init__(self, message: str, found: list[Any]) -> None:
        super().__init__(message)
        self.found = found


class _Walk:
    """One evaluation of a template: its position in loops, and how many values it has read.

    `is_column`: a missing key is no error, and integers of the document are not floats.
    """

    def __init__(self, template: str, *, is_column: bool = False) -> None:
        self.template = template
        self.is_column = is_column
        self.steps = 0
        self.loops = 0
        self.starting = 0
        self.ending = 0
        self.ended_at = -1

    def text(self, parts: tuple[Part, ...], document: Any) -> str:
        written: list[str] = []
        length = 0
        for results in self.run(parts, 0, _NOTHING if document is None else document):
            for number, value in enumerate(results):
                text = f" {self.printed(value)}" if number else self.printed(value)
                written.append(text)
                length += len(text)
                if length > MAX_RESULT_LENGTH:
                    raise self.wrong(f"the result is longer than {MAX_RESULT_LENGTH} characters: ask for less")
        return "".join(written)

    def run(self, parts: tuple[Part, ...], start: int, document: Any) -> list[list[Any]]:
        """Return the values that each part finds, from ``start`` to the end of the loop that contains them."""
        found: list[list[Any]] = []
        at = start
        while at < len(parts):
            part = parts[at]
            results = [part] if isinstance(part, str) else self.nodes(part, [document])
            self.spend(1)
            if 0 < self.ending <= self.loops:
                self.ending, self.ended_at = self.ending - 1, at
                break
            if self.starting:
                self.starting -= 1
                at = self.loop(parts, at + 1, results, found)
                continue
            found.append(results)
            at += 1
        return found

    def loop(self, parts: tuple[Part, ...], start: int, items: list[Any], found: list[list[Any]]) -> int:
        """Evaluate the body of a loop for every item. Return the position after the loop. The body is evaluated once
        without items too, so that its errors are found."""
        self.loops += 1
        for item in items:
            found += self.run(parts, start, _NOTHING if item is None else item)
        if not items:
            self.run(parts, start, _NOTHING)
        self.loops -= 1
        return self.ended_at + 1 if self.ended_at >= start else start

    def nodes(self, nodes: tuple[Node, ...], values: list[Any]) -> list[Any]:
        for node in nodes:
            values = self.node(node, values)
            self.spend(len(values) + 1)
        return values

    def node(self, node: Node, values: list[Any]) -> list[Any]:
        match node:
            case Field(name):
                return self.field(name, values)
            case Slice():
                return self.sliced(node, values)
            case Filter():
                return self.filtered(node, values)
            case Wildcard():
                return self.members(values)
            case Recursive():
                return self.descended(values)
            case Union(members):
                return self.united(members, values)
            case Literal(value):
                return [value] if isinstance(value, str) else [value] * len(values)
            case Identifier("range"):
                self.starting += 1
                return values
            case Identifier("end") if self.loops:
                self.ending += 1
                return []
            case Identifier("end"):
                raise _Failed(self.message("{end} without {range}"), [])
            case Identifier(name):
                raise _Failed(
                    self.message(f"'{name}' is neither range nor end: quote text, begin a field with '.'"), values
                )
        raise AssertionError(f"unknown node {node}")

    def field(self, name: str, values: list[Any]) -> list[Any]:
        found = [value[name] for value in values if isinstance(value, Mapping) and name in value]
        if values and not found and not self.is_column:
            raise _Failed(self.message(f"{name} is not found"), [])
        return found

    def members(self, values: list[Any]) -> list[Any]:
        found: list[Any] = []
        for value in values:
            members = _members(value)
            self.spend(len(members))
            found += members
        return found

    def sliced(self, node: Slice, values: list[Any]) -> list[Any]:
        found: list[Any] = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list | tuple):
                raise _Failed(
                    self.message(f"{_kind(value)} is not a list: [{node.start}] has nothing to choose from"), values
                )
            length = len(value)
            start = node.start or 0
            end = start + 1 if node.single else length if node.end is None else node.end
            start += length if start < 0 else 0
            end += length if end < 0 or (end == 0 and node.single) else 0
            if start == end:
                return found
            for bound, last in ((start, length - 1), (end, length)):
                if not 0 <= bound <= last:
                    raise _Failed(
                        self.message(f"index {bound} is out of bounds: the list has {length} elements"), values
                    )
            if start > end:
                raise _Failed(self.message(f"the start {start} lies after the end {end}"), values)
            if node.step is not None and node.step <= 0:
                raise _Failed(self.message(f"the step {node.step} must be more than 0"), values)
            chosen = value[start : end : node.step or 1]
            self.spend(len(chosen))
            found += chosen
        return found

    def united(self, members: tuple[tuple[Node, ...], ...], values: list[Any]) -> list[Any]:
        try:
            return [value for member in members for value in self.nodes(member, values)]
        except _Failed as failed:
            raise _Failed(str(failed), values) from failed

    def filtered(self, node: Filter, values: list[Any]) -> list[Any]:
        found = []
        for value in values:
            if not isinstance(value, list | tuple):
                raise _Failed(self.message(f"{_kind(value)} is not a list and cannot be filtered"), values)
            self.spend(len(value))
            found += [item for item in value if self.passes(node, item, values)]
        return found

    def passes(self, node: Filter, item: Any, values: list[Any]) -> bool:
        if not node.operator:
            try:
                return bool(self.nodes(node.left, [item]))
            except _Failed as failed:
                return bool(failed.found)
        try:
            left = self.nodes(node.left, [item])
            right = self.nodes(node.right, [item]) if len(left) == 1 else []
        except _Failed as failed:
            raise _Failed(str(failed), values) from failed
        if len(left) > 1 or len(right) > 1:
            raise _Failed(self.message("can only compare one element at a time"), values)
        if not left or not right:
            return False
        compare = _OPERATORS.get(node.operator)
        if compare is None:
            raise _Failed(self.message(f"'{node.operator}' is no comparison: one of {' '.join(_OPERATORS)}"), values)
        kinds = {self.kind(left[0]), self.kind(right[0])}
        ordered = node.operator not in ("==", "!=")
        if len(kinds) > 1 or kinds & _INCOMPARABLE or (ordered and "boolean" in kinds):
            raise _Failed(self.message(f"cannot compare {_kind(left[0])} with {_kind(right[0])}"), values)
        return compare(left[0], right[0])

    def kind(self, value: Any) -> str:
        return "an integer" if self.is_column and type(value) is int else _kind(value)

    def descended(self, values: list[Any]) -> list[Any]:
        found: list[Any] = []
        waiting = list(reversed(values))
        while waiting:
            value = waiting.pop()
            # The bytes of a text have no members. Only whether a text has bytes matters.
            members = [] if isinstance(value, str) else _members(value)
            if members or (isinstance(value, str) and value):
                found.append(value)
            waiting += reversed(members)
            self.spend(1 + len(members))
        return found

    def spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise self.wrong(f"more than {MAX_STEPS} values were touched: name the field instead of searching for it")

    def printed(self, value: Any) -> str:
        if value is _NOTHING:
            return "<no value>"
        if isinstance(value, Mapping | list | tuple):
            return self.json(value, 0)
        if isinstance(value, str):
            return value
        if value is None:
            return "null"
        return str(int(value)) if isinstance(value, _Byte | Integer) else number_text(value)

    def json(self, value: Any, depth: int) -> str:
        self.spend(1)
        if depth > MAX_DEPTH:
            raise self.wrong(f"the value is nested deeper than {MAX_DEPTH}: name a field further down")
        if isinstance(value, Mapping):
            members = (f"{json_text(key)}:{self.json(value[key], depth + 1)}" for key in sorted(value))
            return "{" + ",".join(members) + "}"
        if isinstance(value, list | tuple):
            return "[" + ",".join(self.json(member, depth + 1) for member in value) + "]"
        if isinstance(value, str):
            return json_text(value)
        return "null" if value is None else json_number(value)

    def message(self, why: str) -> str:
        return f"JSONPath {self.template!r}: {why}"

    def wrong(self, why: str) -> JSONPathError:
        return JSONPathError(self.message(why))


_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_INCOMPARABLE: Final = frozenset({"nothing", "an object", "a list"})


def _kind(value: Any) -> str:
    """Return the name of the type as which a value is compared."""
    match value:
        case bool():
            return "boolean"
        case str():
            return "text"
        case _Byte():
            return "a byte"
        case Mapping():
            return "an object"
        case list() | tuple():
            return "a list"
        case Integer():
            return "an integer"
        case int() | float():
            return "a number"
    return "nothing"


def _members(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, str):
        return [_Byte(byte) for byte in value.encode("utf-8", "replace")]
    return []
