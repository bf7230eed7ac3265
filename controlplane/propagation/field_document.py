"""Documents that are the text of a field, for example a configuration file in a ConfigMap."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn, Self

import yaml

from controlplane.apimachinery.errors import BadRequest
from controlplane.apimachinery.jsonpath.gotext import json_text
from controlplane.apimachinery.yaml_rules import unquoted
from controlplane.wire.body import MAX_DEPTH, check_depth, decode_value

_DIGITS: Final = re.compile(r"(\d+)")
_TEXT: Final = "tag:yaml.org,2002:str"
_UNLIMITED: Final = 1 << 30  # characters: lines are not folded


class FieldTextError(ValueError):
    """The text of a field cannot be read as JSON or YAML. The message says why."""


class Written:
    """A number as its document writes it, so that it is written in the same way again: 1.50, 1e3, or with 20 digits
    after the point."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __deepcopy__(self, memo: object) -> Self:
        return self


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


def from_json(text: str) -> Any:
    """Return the value of a JSON text that is an object or a list. Raises FieldTextError for any other text."""
    try:
        value = json.loads(text, parse_float=Written, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise FieldTextError(f"the text of the field is not JSON: {error}") from None
    if not isinstance(value, dict | list):
        raise FieldTextError("the text of the field is neither a JSON object nor a list")
    try:
        check_depth(value, MAX_DEPTH)
    except BadRequest:
        raise FieldTextError(f"the text of the field is nested deeper than {MAX_DEPTH} levels") from None
    return value


def to_json(value: Any) -> str:
    """Return a value as JSON without spaces, safe in HTML, as Kubernetes writes it."""
    match value:
        case Written():
            return value.text
        case dict():
            return "{" + ",".join(f"{json_text(key)}:{to_json(member)}" for key, member in value.items()) + "}"
        case list():
            return "[" + ",".join(map(to_json, value)) + "]"
        case str():
            return json_text(value)
    return json.dumps(value)


def from_yaml(text: str) -> Any:
    """Return the value of a YAML text that is an object or a list. Raises FieldTextError for any other text.

    The error does not quote the text: a tag such as !xyz may be a password, and more users may read the error.
    """
    try:
        value = decode_value("application/yaml", text.encode())
    except BadRequest as error:
        said = unquoted(str(error).removeprefix("the body is not YAML: "))
        raise FieldTextError(f"the text of the field is not YAML: {said}") from None
    if not isinstance(value, dict | list):
        raise FieldTextError("the text of the field is neither a YAML object nor a list")
    return value


def to_yaml(value: Any) -> str:
    """Return a value as YAML in block style, with sorted keys, as Kubernetes writes it."""
    text: str = yaml.dump(
        _sorted(value), Dumper=_Dumper, default_flow_style=False, sort_keys=False, allow_unicode=True, width=_UNLIMITED
    )
    return text


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and quotes texts that would be read as another type."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    if "\n" in text:
        return dumper.represent_scalar(_TEXT, text, style="|")
    resolved: str = dumper.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return dumper.represent_scalar(_TEXT, text, style=None if resolved == _TEXT else '"')


_Dumper.add_representer(str, _text)


def _sorted(value: Any) -> Any:
    """Return a value with the keys of all objects sorted; numbers in keys are compared as numbers."""
    if isinstance(value, dict):
        keys = sorted(value, key=_parts)
        return {key: _sorted(value[key]) for key in keys}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _parts(key: str) -> list[tuple[int, int, str]]:
    """Return the parts of a key for comparison. A number counts by its length and digits: it may have very many."""
    return [_number(part) if part.isdecimal() else (1, 0, part) for part in _DIGITS.split(key)]


def _number(part: str) -> tuple[int, int, str]:
    digits = part.lstrip("0")
    return (0, len(digits), digits)
