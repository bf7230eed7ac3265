"""Structural schemas of CustomResourceDefinitions: validation of documents, defaults, and checks of the schemas.

The rules are those of apiextensions.k8s.io/v1. Patterns are matched in linear time, so that no document and no pattern
can delay a request. Rules in CEL (`x-kubernetes-validations`) are in `controlplane/wire/cel`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import date
from functools import cached_property, lru_cache
from ipaddress import ip_network
from typing import Any, NamedTuple

import jsonschema_rs
import msgspec
import orjson

from controlplane.apimachinery.base64 import is_base64
from controlplane.apimachinery.regex import LINEAR
from controlplane.wire.patterns import translated
from controlplane.wire.schema import Schema

Node = Mapping[str, Any]
Path = tuple[str | int, ...]

VALIDATIONS = "x-kubernetes-validations"
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_INT_OR_STRING = "x-kubernetes-int-or-string"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_LIST_TYPE = "x-kubernetes-list-type"
# Keys that a structural schema must not have.
_FORBIDDEN = frozenset(
    (
        *("$ref", "additionalItems", "definitions", "dependencies", "deprecated", "discriminator", "id"),
        *("patternProperties", "readOnly", "writeOnly", "xml"),
    )
)
# Nodes inside allOf, anyOf, oneOf and not may restrict values, but not describe fields.
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_PLAIN = frozenset(
    (
        *("type", "required", "enum", "minimum", "maximum", "multipleOf", "minLength", "maxLength", "pattern"),
        *("minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
    )
)
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:|/)[^\s\x00-\x1f]*")
# As Go reads a duration, and, with units in words, as Scala does.
_GO_DURATION = re.compile(
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|[µμ]s|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|[µμ]s|ms|s|m|h))*|[+-]?0"
)
_WORDED_DURATION = re.compile(r"\s*([0-9]+\s*[A-Za-zµ]+\s*)+")
_WORDED_UNIT = re.compile(
    r"[0-9]\s*(ns|nano[A-Za-zµ]*|us|µs|micro[A-Za-zµ]*|ms|milli[A-Za-zµ]*|s|sec[A-Za-zµ]*|m|min[A-Za-zµ]*|"
    r"h|hr|hour[A-Za-zµ]*|d|day[A-Za-zµ]*|w|wk|week[A-Za-zµ]*)(?![A-Za-zµ])",
    re.IGNORECASE,
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_HEX = "[0-9A-Fa-f]"
_MAC = re.compile(
    rf"{_HEX}{{2}}([:-])({_HEX}{{2}}\1){{4}}(({_HEX}{{2}}\1){{2}}|({_HEX}{{2}}\1){{14}})?{_HEX}{{2}}"
    rf"|({_HEX}{{4}}\.){{2}}(({_HEX}{{4}}\.)|({_HEX}{{4}}\.){{7}})?{_HEX}{{4}}"
)
_UUID = re.compile(rf"{_HEX}{{8}}-?({_HEX}{{4}}-?){{3}}{_HEX}{{12}}")


class Duplicate(NamedTuple):
    """A value that occurs twice in a list of type set or map."""

    path: Path
    value: Any


class Flaw(NamedTuple):
    """An error in a schema: its path, the value there, and the broken rule.

    `missing`: a required key is missing. `choices`: the value has to be one of them.
    """

    path: Path
    value: Any
    rule: str
    missing: bool = False
    choices: tuple[str, ...] = ()


class StructuralSchema(Schema):
    """The schema of a kind that a CustomResourceDefinition defines."""

    @cached_property
    def validator(self) -> Any:
        """Return the compiled validator. Raises ValueError if a pattern cannot be compiled."""
        return jsonschema_rs.Draft202012Validator(
            json_schema(self.node),
            validate_formats=True,
            formats=_FORMATS,
            pattern_options=LINEAR,
        )

    @cached_property
    def _has_unique_lists(self) -> bool:
        return any(_LIST_TYPE in node for _, node in nodes(self.node))

    @cached_property
    def rules_digest(self) -> str:
        """Return a digest of the schema if it has rules in CEL; "": it has none."""
        if not any(node.get(VALIDATIONS) for _, node in nodes(self.node)):
            return ""
        return hashlib.sha256(msgspec.json.encode(self.node)).hexdigest()

    def duplicates(self, document: Any) -> list[Duplicate]:
        """Return the duplicates in lists of type set and map."""
        return list(_duplicates_in(document, self, ())) if self._has_unique_lists else []


def json_schema(node: Node) -> dict[str, Any]:
    """Return a node as JSON Schema 2020-12, which has neither `nullable` nor the extensions of Kubernetes."""
    made: dict[str, Any] = {key: node[key] for key in _PLAIN if key in node}
    if "pattern" in made:
        made["pattern"] = translated(str(made["pattern"]))
    if node.get("format") in _CHECKED:
        made["format"] = node["format"]
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if node.get(exclusive) is True and bound in made:
            made[exclusive] = made.pop(bound)
    if node.get(_INT_OR_STRING) is True:
        made["type"] = ["integer", "string"]
    if "integer" in made.get("type", ()):
        made |= _bounds_of(made, bits=32 if node.get("format") == "int32" else 64)
    if isinstance(node.get("properties"), Mapping):
        made["properties"] = {name: json_schema(inner) for name, inner in node["properties"].items()}
    for key in ("items", "additionalProperties", "not"):
        if isinstance(node.get(key), Mapping):
            made[key] = json_schema(node[key])
    for key in _JUNCTORS:
        if isinstance(node.get(key), list):
            made[key] = [json_schema(inner) for inner in node[key]]
    if node.get(_EMBEDDED) is True:
        made["required"] = sorted({*made.get("required", ()), "apiVersion", "kind", "metadata"})
        own = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
        made["properties"] = {**own, **made.get("properties", {})}
    return _with_null(made) if node.get("nullable") is True else made


def _bounds_of(made: dict[str, Any], *, bits: int) -> dict[str, int]:
    """Return the bounds of an integer with its bits, within those that it has already.

    As in Kubernetes, because a client in Go that cannot read the number of one object cannot read the whole list.
    """
    lowest, highest = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return {"minimum": max(made.get("minimum", lowest), lowest), "maximum": min(made.get("maximum", highest), highest)}


def _with_null(made: dict[str, Any]) -> dict[str, Any]:
    stated = made.get("type")
    if stated is not None:
        made["type"] = [*([stated] if isinstance(stated, str) else stated), "null"]
    if "enum" in made:
        made["enum"] = [*made["enum"], None]
    return made


def filled(document: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Return a document with the defaults of its schema for missing fields. Metadata gets no defaults."""
    made = {key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata")}
    own = {key: value for key, value in document.items() if key not in made}
    return {**own, **{key: value for key, value in _filled(made, schema).items() if key not in own}}


def _filled(value: Any, schema: Schema | None) -> Any:
    if schema is None or schema is Schema.OPEN:
        return value
    if isinstance(value, dict):
        missing = {
            name: deepcopy(inner.default)
            for name, inner in schema.properties.items()
            if name not in value and inner.default is not None
        }
        found = {**value, **missing}
        return {key: _filled(item, schema.property(key)) for key, item in found.items()}
    if isinstance(value, list):
        return [_filled(item, schema.items) for item in value]
    return value


def with_required(value: Any, schema: Schema | None) -> Any:
    """Return a value in which missing required fields of plain types have their zero value, at any depth."""
    if schema is None or schema is Schema.OPEN:
        return value
    if isinstance(value, dict):
        missing = ((name, schema.properties.get(name)) for name in schema.required if name not in value)
        zeros = {name: _ZEROS[inner.type] for name, inner in missing if inner is not None and _has_zero(inner)}
        return {key: with_required(item, schema.property(key)) for key, item in {**value, **zeros}.items()}
    if isinstance(value, list):
        return [with_required(item, schema.items) for item in value]
    return value


def _has_zero(schema: Schema) -> bool:
    """Test whether the zero value is valid for a schema. An empty text is neither a time nor a quantity."""
    return schema.type in _ZEROS and not (schema.type == "string" and schema.format)


_ZEROS: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False}


def _duplicates_in(value: Any, schema: Schema | None, path: Path) -> Iterator[Duplicate]:
    if schema is None or schema is Schema.OPEN:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _duplicates_in(item, schema.property(key), (*path, key))
    elif isinstance(value, list):
        if schema.list_type != "atomic":
            yield from _duplicate_items(value, schema, path)
        for index, item in enumerate(value):
            yield from _duplicates_in(item, schema.items, (*path, index))


def _duplicate_items(items: Sequence[Any], schema: Schema, path: Path) -> Iterator[Duplicate]:
    seen: set[bytes] = set()
    for index, item in enumerate(items):
        key = item
        if schema.list_type == "map":
            if not isinstance(item, dict):
                continue
            key = {name: item.get(name) for name in schema.list_map_keys}
        text = orjson.dumps(key, option=orjson.OPT_SORT_KEYS)
        if text in seen:
            yield Duplicate((*path, index), key)
        seen.add(text)


# Errors in a schema itself


def nodes(node: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Yield a node and all nodes inside it, each with its path."""
    yield path, node
    inner = node.get("properties")
    if isinstance(inner, Mapping):
        for name, child in inner.items():
            yield from nodes(child, (*path, "properties", name))
    for key in ("items", "additionalProperties"):
        child = node.get(key)
        if isinstance(child, Mapping):
            yield from nodes(child, (*path, key))


def flaws(root: Node) -> Iterator[Flaw]:
    """Yield every reason why a schema is not structural or cannot be enforced."""
    if root.get("type") != "object":
        yield Flaw(("type",), root.get("type"), 'must be "object" at the root')
        return
    found = [flaw for path, node in nodes(root) for flaw in (*_shape(path, node), *_pattern(path, node))]
    yield from found or _whole(root)


def _shape(path: Path, node: Node) -> Iterator[Flaw]:
    """Yield the flaws of a node: forbidden keys, a missing type, or contradictory keys."""
    for key in sorted(_FORBIDDEN & node.keys()):
        yield Flaw((*path, key), node[key], "is not allowed in a structural schema")
    stated = node.get("type")
    free = node.get(_INT_OR_STRING) is True or node.get(_PRESERVE) is True
    if stated is None and path and not free:
        yield Flaw((*path, "type"), None, "must not be empty for specified object fields", missing=True)
    elif stated is not None and stated not in _TYPES:
        yield Flaw((*path, "type"), stated, f"must be one of {', '.join(_TYPES)}")
    if stated is not None and node.get(_INT_OR_STRING) is True:
        yield Flaw((*path, "type"), stated, f"must be empty where {_INT_OR_STRING} is true")
    if stated == "array" and not isinstance(node.get("items"), Mapping):
        yield Flaw((*path, "items"), None, "must be specified for a list", missing=True)
    if node.get("properties") and node.get("additionalProperties"):
        yield Flaw((*path, "additionalProperties"), True, "and properties are mutually exclusive")
    if node.get("additionalProperties") is False:
        yield Flaw((*path, "additionalProperties"), False, "cannot be set to false")
    if node.get("uniqueItems") is True:
        yield Flaw((*path, "uniqueItems"), True, f"cannot be set to true: use {_LIST_TYPE}: set")


def _pattern(path: Path, node: Node) -> Iterator[Flaw]:
    """Yield the error in the pattern of a node."""
    if "pattern" in node and (why := _pattern_fault(str(node["pattern"]))):
        yield Flaw((*path, "pattern"), node["pattern"], f"cannot be enforced: {why}")


@lru_cache(maxsize=4096)  # definitions repeat their patterns
def _pattern_fault(pattern: str) -> str:
    """Return why a pattern cannot be compiled; "": it can."""
    try:
        jsonschema_rs.Draft202012Validator({"pattern": translated(pattern)}, pattern_options=LINEAR)
    except ValueError as error:
        return _message(error)
    return ""


def _whole(root: Node) -> Iterator[Flaw]:
    """Yield the errors that concern several nodes: rules inside allOf, anyOf and oneOf, and invalid defaults."""
    try:
        StructuralSchema(root).validator  # noqa: B018  # compiles
    except (ValueError, TypeError, AttributeError) as error:
        yield Flaw((), None, f"cannot be enforced: {_message(error)}")
        return
    for path, node in nodes(root):
        if node.get("default") is not None:
            for wrong in StructuralSchema(node).validator.iter_errors(node["default"]):
                yield Flaw((*path, "default"), node["default"], _message(wrong))


def _message(error: Exception) -> str:
    """Return the message of a compiler or validator in one line.

    Patterns are those of RE2: they have neither lookaround nor backreferences.
    """
    text = " ".join(str(getattr(error, "message", error)).split())[:300]
    return f"{text} of RE2 (no lookaround, no references back)" if text.endswith('is not a "regex"') else text


def _reads(read: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


def _is_network(text: str) -> bool:
    """Test whether a text is an address with the length of a prefix. A mask and a zone are none for Go."""
    address, _, length = text.partition("/")
    is_plain = length.isascii() and length.isdigit() and "%" not in address
    return is_plain and _reads(lambda text: ip_network(text, strict=False))(text)


def _is_duration(text: str) -> bool:
    """Test whether a text is a duration such as 1h30m, 2w or "3 days 4 hours". A word that is no unit is left out."""
    if _GO_DURATION.fullmatch(text):
        return True
    return _WORDED_DURATION.fullmatch(text) is not None and _WORDED_UNIT.search(text) is not None


# Formats that Kubernetes checks in another way than JSON Schema.
_FORMATS: dict[str, Callable[[str], bool]] = {
    "byte": is_base64,
    "cidr": _is_network,
    "date": lambda text: _DATE.fullmatch(text) is not None and _reads(date.fromisoformat)(text),
    "duration": _is_duration,
    "email": lambda text: "@" in text.strip("@"),
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uri": lambda text: _URI.fullmatch(text) is not None,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
}
# All formats that are checked. Other formats are documentation only.
_CHECKED = frozenset((*_FORMATS, "date-time", "hostname", "ipv4", "ipv6"))
