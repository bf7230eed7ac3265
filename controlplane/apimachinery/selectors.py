"""Label selectors and field selectors, as objects and as query strings, and the syntax of names and labels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from controlplane.apimachinery.meta import Struct, UserStruct

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"
GREATER: Final = "Gt"
LESS: Final = "Lt"
OPERATORS: Final = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)
"""Operators of matchExpressions. Gt and Lt exist only in query strings."""

MAX_SELECTOR_LENGTH: Final = 16_384
"""The maximum number of characters of a selector in a URL."""
MAX_LABEL_LENGTH: Final = 63
MAX_PREFIX_LENGTH: Final = 253


class _Syntax(NamedTuple):
    """The characters that names may have, in words, and as a regular expression."""

    characters: str
    expression: str


_LABEL: Final = _Syntax("alphanumeric characters, '-', '_' or '.'", "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_RFC_1123_LABEL: Final = _Syntax("lower case alphanumeric characters or '-'", "[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_RFC_1123_SUBDOMAIN: Final = _Syntax(
    "lower case alphanumeric characters, '-' or '.'",
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
)
_OF_PREFIX: Final = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
_LABEL_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")  # each character is looked at once
_DNS_LABEL: Final = re.compile(_RFC_1123_LABEL.expression)
_DNS_SUBDOMAIN: Final = re.compile(_RFC_1123_SUBDOMAIN.expression)
_EXAMPLE: Final = "app=web,tier in (gold,silver),!legacy"
_FIELD_EXAMPLE: Final = "metadata.name=web,spec.nodeName!=node1"


class SelectorError(ValueError):
    """The text of a selector is invalid. The message names the position and a valid example."""


class LabelSelectorRequirement(UserStruct, frozen=True):
    """A condition on the value of a label key. ``values`` are for In and NotIn."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Test whether labels meet the requirement. NotIn is met if the key is absent.

        Invalid requirements are never met: an unknown operator, NotIn without values, Exists with values.
        """
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return bool(self.values) and (value is None or value not in self.values)
            case "Exists":
                return value is not None and not self.values
            case "DoesNotExist":
                return value is None and not self.values
            case "Gt" | "Lt":
                return value is not None and self._compares(value)
        return False

    def _compares(self, value: str) -> bool:
        if not _is_integer(value):
            return False
        bound = int(self.values[0])
        return int(value) > bound if self.operator == GREATER else int(value) < bound


class LabelSelector(UserStruct, frozen=True):
    """A selector of objects by their labels. All conditions have to hold. An empty selector selects all objects."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()

    def __hash__(self) -> int:
        return hash((tuple(sorted(self.match_labels.items())), self.match_expressions))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Test whether labels meet all conditions."""
        for key, value in self.match_labels.items():
            if labels.get(key) != value:
                return False
        return all(requirement.matches(labels) for requirement in self.match_expressions)

    def is_empty(self) -> bool:
        return not self.match_labels and not self.match_expressions


class FieldSelectorTerm(Struct, frozen=True):
    """A condition on the value of a field, which is a dotted path such as metadata.name. ``equal`` is False for !=."""

    field: str
    value: str
    equal: bool = True


EVERYTHING: Final = LabelSelector()
# The values that fields have for a selector if an object lacks them.
_ABSENT: Final = {"spec.hostNetwork": "false", "spec.unschedulable": "false", "status.replicas": "0"}


def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Test whether a selector selects labels. None selects nothing, the empty selector everything."""
    return selector is not None and selector.matches(labels)


@lru_cache(maxsize=1024)
def parse_label_selector(text: str) -> LabelSelector:
    """Return the selector of a ``labelSelector`` query parameter. An empty text selects everything.

    Raises SelectorError with the position and an example for an invalid text.
    """
    _refuse_long(text, "label")
    requirements = _LabelReader(text).requirements()
    return LabelSelector(match_expressions=tuple(requirements)) if requirements else EVERYTHING


@lru_cache(maxsize=1024)
def parse_field_selector(text: str) -> tuple[FieldSelectorTerm, ...]:
    """Return the terms of a ``fieldSelector`` query parameter. An empty text has no terms and selects everything.

    A backslash escapes ``,``, ``=`` and itself. Raises SelectorError with the position and an example.
    """
    _refuse_long(text, "field")
    terms, position = [], 0
    for part in _split_fields(text):
        if part:
            terms.append(_field_term(part, position))
        position += len(part) + 1
    return tuple(terms)


def matches_fields(terms: tuple[FieldSelectorTerm, ...], document: Mapping[str, Any]) -> bool:
    """Test whether a document meets all terms. An absent text counts as "", an absent boolean as false, an absent
    number as 0."""
    return all((_selected_value(document, term.field) == term.value) is term.equal for term in terms)


def _selected_value(document: Mapping[str, Any], path: str) -> str:
    return field_value(document, path) or _ABSENT.get(path, "")


def field_value(document: Mapping[str, Any], path: str) -> str:
    """Return the value at a dotted path of a document as text: "" without a value, true or false for booleans."""
    found: Any = document
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    match found:
        case str():
            return found
        case bool():
            return "true" if found else "false"
        case int() | float():
            return str(found)
    return ""


def label_key_errors(key: str) -> list[str]:
    """Return the errors of a label or annotation key, in the words of Kubernetes; an empty list if it is valid."""
    prefix, slash, name = key.partition("/")
    if "/" in name:
        return [f"a qualified name {_spelled(_LABEL, 'MyName', 'my.name', '123-abc')}{_OF_PREFIX}"]
    errors = []
    if slash:
        errors += [f"prefix part {error}" for error in dns1123_subdomain_errors(prefix) if prefix]
        errors += [] if prefix else ["prefix part must be non-empty"]
    name = name if slash else prefix
    if not name:
        errors.append("name part must be non-empty")
    elif len(name) > MAX_LABEL_LENGTH:
        errors.append(f"name part must be no more than {MAX_LABEL_LENGTH} bytes")
    if not _LABEL_NAME.fullmatch(name):
        errors.append(f"name part {_spelled(_LABEL, 'MyName', 'my.name', '123-abc')}")
    return errors


def label_value_errors(value: str) -> list[str]:
    """Return the errors of a label value. The empty value is valid."""
    errors = []
    if len(value) > MAX_LABEL_LENGTH:
        errors.append(f"must be no more than {MAX_LABEL_LENGTH} bytes")
    if value and not _LABEL_NAME.fullmatch(value):
        words = "a valid label must be an empty string or "
        rule = _spelled(_LABEL, "MyValue", "my_value", "12345", expression=f"({_LABEL.expression})?")
        errors.append(words + rule.removeprefix("must "))
    return errors


def dns1123_label_errors(name: str) -> list[str]:
    """Return the errors of a DNS-1123 label: lower case letters, digits and '-', at most 63 characters."""
    errors = []
    if len(name) > MAX_LABEL_LENGTH:
        errors.append(f"must be no more than {MAX_LABEL_LENGTH} characters")
    if not _DNS_LABEL.fullmatch(name):
        errors.append(f"a lowercase RFC 1123 label {_spelled(_RFC_1123_LABEL, 'my-name', '123-abc')}")
    return errors


def dns1123_subdomain_errors(name: str) -> list[str]:
    """Return the errors of a DNS-1123 subdomain: labels joined by '.', at most 253 characters in all."""
    errors = []
    if len(name) > MAX_PREFIX_LENGTH:
        errors.append(f"must be no more than {MAX_PREFIX_LENGTH} characters")
    if not _DNS_SUBDOMAIN.fullmatch(name):
        errors.append(f"a lowercase RFC 1123 subdomain {_spelled(_RFC_1123_SUBDOMAIN, 'example.com')}")
    return errors


def selector_errors(selector: LabelSelector) -> list[tuple[str, str]]:
    """Return (field, message) of every error of a selector. The fields are relative to the selector."""
    errors = []
    for key, value in selector.match_labels.items():
        errors += [("matchLabels", f'"{key}": {error}') for error in label_key_errors(key)]
        errors += [("matchLabels", f'"{value}": {error}') for error in label_value_errors(value)]
    for index, requirement in enumerate(selector.match_expressions):
        errors += [(f"matchExpressions[{index}].{field}", error) for field, error in _requirement_errors(requirement)]
    return errors


def _requirement_errors(requirement: LabelSelectorRequirement) -> list[tuple[str, str]]:
    errors = [("key", f'"{requirement.key}": {error}') for error in label_key_errors(requirement.key)]
    match requirement.operator:
        case "In" | "NotIn" if not requirement.values:
            errors.append(("values", f"must name at least one value when operator is {requirement.operator}"))
        case "Exists" | "DoesNotExist" if requirement.values:
            errors.append(("values", f"must be empty when operator is {requirement.operator}"))
        case operator if operator not in OPERATORS:
            errors.append(("operator", f'"{operator}" is not one of {", ".join(OPERATORS)}'))
    for value in requirement.values:
        errors += [("values", f'"{value}": {error}') for error in label_value_errors(value)]
    return errors


def _spelled(syntax: _Syntax, *examples: str, expression: str = "") -> str:
    """Return the rule of a syntax as Kubernetes words it, with examples and its regular expression."""
    listed = ",  or ".join(f"'{example}'" for example in examples)
    of = f"regex used for validation is '{expression or syntax.expression}'"
    both = "must start and end with an alphanumeric character"
    return f"must consist of {syntax.characters}, and {both} (e.g. {listed}, {of})"


def _refuse_long(text: str, what: str) -> None:
    if len(text) > MAX_SELECTOR_LENGTH:
        raise SelectorError(
            f"a {what} selector of {len(text)} characters is longer than {MAX_SELECTOR_LENGTH}: split the request"
        )


def _is_integer(text: str) -> bool:
    return len(text) < 20 and re.fullmatch(r"[+-]?[0-9]+", text) is not None


def _split_fields(text: str) -> list[str]:
    parts, start, position = [], 0, 0
    while position < len(text):
        if text[position] == "\\":
            position += 1
        elif text[position] == ",":
            parts.append(text[start:position])
            start = position + 1
        position += 1
    return [*parts, text[start:]]


def _field_term(part: str, offset: int) -> FieldSelectorTerm:
    position = 0
    while position < len(part):
        if part[position] == "\\":
            position += 2
            continue
        for operator in ("!=", "==", "="):
            if part.startswith(operator, position):
                field, value = part[:position], part[position + len(operator) :]
                return FieldSelectorTerm(field, _unescape(value, offset + position), operator != "!=")
        position += 1
    raise SelectorError(
        f'field selector: "{part}" at position {offset} has no =, == or !=: write for example {_FIELD_EXAMPLE}'
    )


def _unescape(value: str, offset: int) -> str:
    if "\\" not in value and "=" not in value:
        return value
    out, position = [], 0
    while position < len(value):
        character = value[position]
        following = value[position + 1 : position + 2]
        if character == "=" or (character == "\\" and following not in ("\\", ",", "=")):
            raise SelectorError(
                f'field selector: "{value}" near position {offset}: write "=" as "\\=", "," as "\\," and "\\" as "\\\\"'
            )
        out.append(following if character == "\\" else character)
        position += 2 if character == "\\" else 1
    return "".join(out)


_TOKEN: Final = re.compile(r"\s*(==|=|!=|!|,|\(|\)|>|<|[^\s=!,()<>]+)")


class _LabelReader:
    """A parser of label selectors. It reads a text from left to right, and its errors name the position."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, int]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            token = _TOKEN.match(text, position)
            assert token is not None, f"every character belongs to a token: {text!r} at {position}"
            self.tokens.append((token[1], token.start(1)))
            position = token.end()
        self.tokens.append(("", end))
        self.at = 0

    def requirements(self) -> list[LabelSelectorRequirement]:
        found: list[LabelSelectorRequirement] = []
        while self.peek():
            found.append(self.requirement())
            if self.peek() == ",":
                self.take()
                if not self.peek():
                    raise self.wrong("a requirement after ','")
            elif self.peek():
                raise self.wrong("',' or the end")
        return found

    def requirement(self) -> LabelSelectorRequirement:
        absent = self.peek() == "!"
        if absent:
            self.take()
        key = self.key()
        if absent:
            return LabelSelectorRequirement(key, DOES_NOT_EXIST)
        match self.peek():
            case "" | ",":
                return LabelSelectorRequirement(key, EXISTS)
            case "=" | "==" | "!=" as sign:
                self.take()
                return LabelSelectorRequirement(key, NOT_IN if sign == "!=" else IN, (self.value(),))
            case "in" | "notin" as word:
                self.take()
                return LabelSelectorRequirement(key, IN if word == "in" else NOT_IN, self.values())
            case ">" | "<" as sign:
                self.take()
                return LabelSelectorRequirement(key, GREATER if sign == ">" else LESS, (self.integer(),))
        raise self.wrong("one of =, ==, !=, in, notin, > and <")

    def key(self) -> str:
        key = self.peek()
        if not key or key in "=!=,()<>":
            raise self.wrong("a label key")
        if errors := label_key_errors(key):
            raise self.wrong(f"a label key ({errors[0]})")
        return self.take()

    def value(self) -> str:
        """Return the value at the current position. It is empty before ',', before ')' and at the end."""
        if self.peek() in ("", ",", ")"):
            return ""
        return self.written()

    def written(self) -> str:
        value = self.peek()
        if value in ("=", "==", "!=", "!", "(", "<", ">"):
            raise self.wrong("a value")
        if errors := label_value_errors(value):
            raise self.wrong(f"a label value ({errors[0]})")
        return self.take()

    def integer(self) -> str:
        if not _is_integer(self.peek()):
            raise self.wrong("an integer")
        return self.take()

    def values(self) -> tuple[str, ...]:
        if self.peek() != "(":
            raise self.wrong("'('")
        self.take()
        if self.peek() == ")":
            raise self.wrong("at least one value")
        found = [self.value()]
        while self.peek() == ",":
            self.take()
            found.append(self.value())
        if self.peek() != ")":
            raise self.wrong("',' or ')'")
        self.take()
        return tuple(dict.fromkeys(found))

    def peek(self) -> str:
        return self.tokens[self.at][0]

    def take(self) -> str:
        token = self.tokens[self.at][0]
        self.at += 1
        return token

    def wrong(self, expected: str) -> SelectorError:
        token, position = self.tokens[self.at]
        found = f'"{token[:80]}"' if token else "the end"
        return SelectorError(
            f'label selector "{self.text[:200]}": found {found} at position {position}, expected {expected}: '
            f"write for example {_EXAMPLE}"
        )
