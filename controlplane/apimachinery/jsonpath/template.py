"""The parser of JSONPath templates: from a text to nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

MAX_TEMPLATE_LENGTH: Final = 1024

_DICT_KEY: Final = re.compile(r"'([^']*)'")
_SLICE: Final = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?")
_COMPARISON: Final = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_INTEGERS: Final = range(-(2**63), 2**63)
_FIELD_END: Final = frozenset(" \t\r\n.,[]$@{}")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
_ESCAPE: Final = re.compile(
    r"\\(?:(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3})|([abfnrtv\\'\"]))",
)


class JSONPathError(ValueError):
    """A template is invalid, or has no result for a document. The message names the template and the position."""


class Field(NamedTuple):
    name: str


class Wildcard(NamedTuple):
    """Every member of a list or an object."""


class Recursive(NamedTuple):
    """The value and everything below it."""


class Slice(NamedTuple):
    """Elements start:end:step of a list. ``single``: a single element, as in [0] or [-1]."""

    start: int | None
    end: int | None
    step: int | None
    single: bool


class Union(NamedTuple):
    members: tuple[tuple[Node, ...], ...]


class Filter(NamedTuple):
    """Elements for which a comparison holds. Without an operator: elements in which ``left`` finds a value."""

    left: tuple[Node, ...]
    operator: str
    right: tuple[Node, ...]


class Literal(NamedTuple):
    value: str | int | float | bool


class Identifier(NamedTuple):
    name: str


Node = Field | Wildcard | Recursive | Slice | Union | Filter | Literal | Identifier
Part = str | tuple[Node, ...]
"""A part of a template: a literal text, or the nodes of an action in braces."""


class Integer(int):
    """A whole number in a template. Numbers in a document are floats, and the two types cannot be compared."""


@lru_cache(maxsize=1024)
def parse(template: str) -> tuple[Part, ...]:
    """Return the parts of a template. Raises JSONPathError for an invalid template."""
    if len(template) > MAX_TEMPLATE_LENGTH:
        raise JSONPathError(f"JSONPath of {len(template)} characters is longer than {MAX_TEMPLATE_LENGTH}: shorten it")
    return _Reader(template).parts()


class _Reader:
    """A parser that reads a template from left to right."""

    def __init__(self, template: str) -> None:
        self.template = template
        self.at = 0

    def parts(self) -> tuple[Part, ...]:
        parts: list[Part] = []
        while self.at < len(self.template):
            brace = self.template.find("{", self.at)
            text = self.template[self.at : brace if brace >= 0 else None]
            if text:
                parts.append(text)
            if brace < 0:
                break
            self.at = brace + 1
            parts.append(tuple(self.action()))
        return tuple(parts)

    def action(self) -> Iterator[Node]:
        """Yield the nodes up to the closing brace."""
        previous: Node | None = None
        while not self.follows("}"):
            for node in self.nodes(previous):
                yield node
                previous = node

    def nodes(self, previous: Node | None) -> list[Node]:
        if self.follows("[?("):
            return [self.filter()]
        if self.follows(".."):
            if isinstance(previous, Recursive):
                raise self.wrong("'..' may not be repeated")
            return [Recursive(), self.field()] if _is_word(self.peek()) else [Recursive()]
        character = self.take()
        if character in ("", "\r", "\n"):
            raise self.wrong("the action is not closed by '}'")
        if character in " @$":
            return []  # "@": the current object itself
        if character == "[":
            return self.array()
        if character in "\"'":
            return [self.quoted(character)]
        if character == ".":
            return [self.field()]
        self.at -= 1
        if character in "+-" or character.isdecimal():
            return [self.number()]
        if _is_word(character):
            return [self.word()]
        raise self.wrong(f"'{character}' has no meaning here")

    def field(self) -> Node:
        start = self.at
        while self.at < len(self.template) and self.template[self.at] not in _FIELD_END:
            self.at += 2 if self.template[self.at] == "\\" else 1
        name = self.template[start : self.at]
        return Wildcard() if name == "*" else Field(name.replace("\\", ""))

    def word(self) -> Node:
        start = self.at
        while self.at < len(self.template) and self.template[self.at] not in _FIELD_END:
            self.at += 1
        name = self.template[start : self.at]
        return Literal(name == "true") if name in ("true", "false") else Identifier(name)

    def number(self) -> Node:
        match = re.compile(r"[+-]?[0-9.]*").match(self.template, self.at)
        text = match[0] if match else ""
        self.at += len(text)
        if re.fullmatch(r"[+-]?[0-9]+", text) and int(text) in _INTEGERS:
            return Literal(Integer(text))
        if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)", text) and abs(float(text)) != float("inf"):
            return Literal(float(text))
        raise self.wrong(f"'{text}' is not a number")

    def quoted(self, quote: str) -> Node:
        start = self.at
        while True:
            character = self.take()
            if character in ("", "\n"):
                raise self.wrong(f"the text is not closed by {quote}")
            if character == quote and self.template[self.at - 2] != "\\":
                return Literal(self.unescaped(self.template[start : self.at - 1], quote))

    def unescaped(self, text: str, quote: str) -> str:
        if "\\" not in text:
            return text
        out, at = b"", 0
        while at < len(text):
            if text[at] == quote:
                raise self.wrong(f"{quote} ends the text before its end")
            if text[at] != "\\":
                out += text[at].encode("utf-8", "replace")
                at += 1
                continue
            match = _ESCAPE.match(text, at)
            if match is None or (match[2] and match[2] in "\"'" and match[2] != quote):
                raise self.wrong(f"'{text[at : at + 2]}' is no escape")
            digits = match[1]
            out += self.character(digits) if digits else _ESCAPES.get(match[2], match[2]).encode()
            at = match.end()
        return out.decode("utf-8", "replace")

    def character(self, digits: str) -> bytes:
        """Return the character of a numeric escape: a byte after x or as octal digits, a code point after u or U."""
        code = int(digits[1:], 16) if digits[0] in "xuU" else int(digits, 8)
        if code >= 0x110000 or 0xD800 <= code < 0xE000 or (digits[0] not in "xuU" and code > 255):
            raise self.wrong(f"'\\{digits}' is not a character")
        return chr(code).encode() if digits[0] in "uU" else bytes([code])

    def array(self) -> list[Node]:
        start, line = self.at, self.template.find("\n", self.at)
        end = self.template.find("]", start)
        if end < 0 or 0 <= line < end:
            raise self.wrong("the brackets are not closed by ']'")
        self.at = end + 1
        text = self.template[start:end]
        if text == "*":
            return [Slice(None, None, None, False)]
        members = text.split(",")
        if len(members) > 1:
            return [Union(tuple(self.inner(f"[{member.strip(' ')}]") for member in members))]
        if key := _DICT_KEY.fullmatch(text):
            return list(self.inner(f".{key[1]}"))
        return [self.slice(text)]

    def slice(self, text: str) -> Node:
        match = _SLICE.fullmatch(text)
        if match is None:
            raise self.wrong(f"[{text}] is no index, slice, 'key' or *")
        bounds: list[int | None] = []
        for bound in match.groups(default=""):
            digits = bound.lstrip(":")
            if digits and (digits == "-" or int(digits) not in _INTEGERS):
                raise self.wrong(f"[{text}]: '{digits}' is not a number")
            bounds.append(int(digits) if digits else None)
        return Slice(bounds[0], bounds[1], bounds[2], match[2] is None)

    def filter(self) -> Node:
        text = self.filter_text()
        comparison = _COMPARISON.fullmatch(text)
        if comparison is None:
            return Filter(self.inner(text), "", ())
        left, operator, right = comparison.groups()
        return Filter(self.inner(left), operator, self.inner(right))

    def filter_text(self) -> str:
        """Return the text between ``[?(`` and ``)]``. Only the first quoted text in it may contain a bracket."""
        start, quote, closed = self.at, "", False
        while True:
            character = self.take()
            if character in ("", "\n"):
                raise self.wrong("the filter is not closed by ')]'")
            if character in "\"'":
                if not quote:
                    quote = character
                elif character == quote and self.template[self.at - 2] != "\\":
                    closed = True
            elif character == ")" and bool(quote) == closed:
                break
        if not self.follows("]"):
            raise self.wrong("the filter is not closed by ')]'")
        return self.template[start : self.at - 2]

    def inner(self, text: str) -> tuple[Node, ...]:
        """Return the nodes of a part of an action."""
        nodes = parse("{" + text + "}")[0]
        assert not isinstance(nodes, str), "a template that begins with a brace has an action first"
        return nodes

    def follows(self, text: str) -> bool:
        """Test whether a text is at the current position. If so, move behind it."""
        if not self.template.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def take(self) -> str:
        character = self.peek()
        self.at += 1
        return character

    def peek(self) -> str:
        return self.template[self.at : self.at + 1]

    def wrong(self, why: str) -> JSONPathError:
        return JSONPathError(
            f"JSONPath {self.template!r}: {why} (position {min(self.at, len(self.template))}): "
            'write for example {.jobStatus.jobId} or {.conditions[?(@.type=="Ready")].status}'
        )


def _is_word(character: str) -> bool:
    return character == "_" or character.isalpha() or character.isdecimal()
