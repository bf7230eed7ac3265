"""Decoding of request bodies in JSON or YAML into dictionaries, with limits, error positions and duplicate keys."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson
import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, ScalarNode

from controlplane.apimachinery.errors import BadRequest, TooLarge, UnsupportedMediaType
from controlplane.apimachinery.yaml_rules import key_text, resolve_as_kubernetes
from controlplane.wire.negotiate import media_type_of

Document = dict[str, Any]

MAX_BYTES = 3 * 1024 * 1024  # the limit of kube-apiserver
MAX_DEPTH = 100
MAX_VALUES_FROM_ALIASES = 100_000
MAX_MERGED_KEYS = 1_000

_JSON_TYPES = frozenset(("application/json", "text/json"))
_YAML_TYPES = frozenset(("application/yaml", "application/x-yaml", "text/yaml"))


def decode_body(
    content_type: str | None,
    raw: bytes,
    *,
    max_bytes: int = MAX_BYTES,
    max_depth: int = MAX_DEPTH,
    duplicates: list[str] | None = None,
) -> Document:
    """Return the object in a request body.

    duplicates: collects messages such as `duplicate field "spec.replicas"` for fieldValidation; the last value of a
    duplicate key is used. None: a duplicate key is an error.
    Raises UnsupportedMediaType, TooLarge, or BadRequest with line and column.
    """
    value = decode_value(content_type, raw, max_bytes=max_bytes, max_depth=max_depth, duplicates=duplicates)
    if not isinstance(value, dict):
        raise BadRequest(f"the body is {_kind_of(value)}; an object with apiVersion and kind is needed")
    return value


def decode_value(
    content_type: str | None,
    raw: bytes,
    *,
    max_bytes: int = MAX_BYTES,
    max_depth: int = MAX_DEPTH,
    duplicates: list[str] | None = None,
) -> Any:
    """Return the JSON or YAML value in a body, of any type; see `decode_body`."""
    media_type = media_type_of(content_type)
    is_yaml = media_type in _YAML_TYPES or media_type.endswith("+yaml")
    if not is_yaml and media_type not in _JSON_TYPES and not media_type.endswith("+json"):
        raise UnsupportedMediaType(
            f"content type {media_type!r} is not known; send application/json or application/yaml"
        )
    if len(raw) > max_bytes:
        raise TooLarge(f"the body has {len(raw)} bytes, the limit is {max_bytes}")
    found: list[str] = []
    value = _from_yaml(raw, found, max_depth) if is_yaml else _from_json(raw, found, max_depth)
    if found:
        if duplicates is None:
            raise BadRequest(f"strict decoding error: {', '.join(found)}")
        duplicates.extend(found)
    return value


def _from_json(raw: bytes, duplicates: list[str], max_depth: int) -> Any:
    """Return the value of a JSON text. Messages about duplicate keys are added to `duplicates`."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    check_depth(value, max_depth)
    if _has_each_key_once(raw, value):
        return value
    twice: list[tuple[dict[str, Any], list[str]]] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(items)
        if len(mapping) != len(items):
            seen: set[str] = set()
            twice.append((mapping, [key for key, _ in items if key in seen or seen.add(key)]))  # type: ignore[func-returns-value]
        return mapping

    again = json.loads(raw, object_pairs_hook=pairs)
    if twice:
        duplicates.extend(_name_duplicates(again, twice))
    return value


def _has_each_key_once(raw: bytes, value: Any) -> bool:
    """Test whether a JSON text surely has no duplicate keys. False: it may have some.

    Without a backslash, each text in it has two quotation marks and none inside. A duplicate key is missing in the
    decoded value, and its quotation marks with it.
    """
    return b"\\" not in raw and raw.count(b'"') == orjson.dumps(value).count(b'"')


def _name_duplicates(root: Any, twice: list[tuple[dict[str, Any], list[str]]]) -> list[str]:
    """Return a message for each duplicate key, with its path from the root."""
    keys_of = {id(mapping): keys for mapping, keys in twice}
    found = []
    pending: list[tuple[str, Any]] = [("", root)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, dict):
            found += [f'duplicate field "{join(path, key)}"' for key in keys_of.get(id(value), ())]
            pending += [(join(path, key), item) for key, item in reversed(value.items())]
        elif isinstance(value, list):
            pending += reversed([(f"{path}[{index}]", item) for index, item in enumerate(value)])
    return found


def join(path: str, key: str) -> str:
    """Return a field path with one more key, for example "spec.template"."""
    return f"{path}.{key}" if path else key


def check_depth(value: Any, max_depth: int) -> None:
    """Raise BadRequest if a value is nested too deeply. The check does not recurse, so any depth is safe."""
    level = [value]
    depth = 0
    while level:
        depth += 1
        if depth > max_depth:
            raise BadRequest(f"the body is nested deeper than {max_depth} levels")
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                deeper += [inner for inner in item.values() if isinstance(inner, dict | list)]
            elif isinstance(item, list):
                deeper += [inner for inner in item if isinstance(inner, dict | list)]
        level = deeper


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: no dates, no base-60 numbers, all keys are strings, duplicate keys are reported."""

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self.duplicates: list[str] = []

    def flatten_mapping(self, node: MappingNode) -> None:
        written = len(node.value)
        super().flatten_mapping(node)
        if len(node.value) > written + MAX_MERGED_KEYS:
            raise ConstructorError(None, None, f"<< brings in more than {MAX_MERGED_KEYS} keys", node.start_mark)

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        if not isinstance(node, MappingNode):
            raise ConstructorError(None, None, "a mapping was expected here", node.start_mark)
        seen: set[str] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, ScalarNode):
                raise ConstructorError(None, None, "keys must be plain strings", key_node.start_mark)
            if key_node.value in seen:
                line = key_node.start_mark.line + 1
                self.duplicates.append(f'duplicate field "{key_node.value}" (line {line})')
            seen.add(key_node.value)
        self.flatten_mapping(node)
        return {
            key_text(self.construct_object(key_node)): self.construct_object(value_node, deep=deep)
            for key_node, value_node in node.value
        }

    def construct_number(self, node: ScalarNode) -> float | str:
        """Return a number with a fraction or an exponent; the text if it is beyond all numbers."""
        value = self.construct_yaml_float(node)
        if math.isfinite(value):
            return value
        if any(map(str.isdigit, node.value)):  # as in Kubernetes: 12e4567, such as a commit, is beyond all numbers
            return str(node.value)
        # JSON has no such number, and null would be another value.
        raise ConstructorError(None, None, f"{node.value} is no number that an object can have", node.start_mark)


resolve_as_kubernetes(_Loader)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_number)


def _from_yaml(raw: bytes, duplicates: list[str], max_depth: int) -> Any:
    """Return the value of a YAML text. Messages about duplicate keys are added to `duplicates`."""
    if raw.lstrip()[:1] == b"{" and _is_json(raw):  # kubectl apply --server-side sends JSON with the media type of YAML
        return _from_json(raw, duplicates, max_depth)
    try:
        _check_nesting(raw, max_depth)
        loader = _Loader(raw)
        value = loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise BadRequest(f"the body is not YAML: {error.problem or error.context}{where}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not YAML: {error}") from None
    except (AttributeError, KeyError, TypeError):  # raised by PyYAML if a value does not fit its tag
        raise BadRequest("the body is not YAML: a value does not fit the tag in front of it") from None
    if b"*" in raw and b"&" in raw:
        _check_aliases(value)
    check_depth(value, max_depth)
    duplicates.extend(loader.duplicates)
    try:
        return orjson.loads(orjson.dumps(value))  # replaces aliases by copies of their values
    except TypeError as error:
        raise BadRequest(f"the body holds a value JSON does not know: {error}") from None


def _is_json(raw: bytes) -> bool:
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError:
        return False
    return True


def _check_nesting(raw: bytes, max_depth: int) -> None:
    """Raise BadRequest for deep nesting before the C loader runs, because that loader recurses without a limit."""
    depth = 0
    for event in yaml.parse(raw, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > max_depth:
                raise BadRequest(f"the body is nested deeper than {max_depth} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _check_aliases(value: Any) -> None:
    """Raise BadRequest for aliases that contain themselves or expand into too many values."""
    sizes: dict[int, int] = {}
    open_ids: set[int] = set()

    def size(item: Any) -> int:
        if not isinstance(item, dict | list):
            return 1
        if id(item) in sizes:
            return sizes[id(item)]
        if id(item) in open_ids:
            raise BadRequest("the body is not usable YAML: an alias contains itself")
        open_ids.add(id(item))
        total = 1 + sum(map(size, item.values() if isinstance(item, dict) else item))
        open_ids.discard(id(item))
        if total > MAX_VALUES_FROM_ALIASES:
            raise BadRequest(f"the body's aliases unfold into more than {MAX_VALUES_FROM_ALIASES} values")
        sizes[id(item)] = total
        return total

    try:
        size(value)
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None


def _kind_of(value: Any) -> str:
    return {list: "a list", str: "a string", bool: "a boolean", type(None): "empty"}.get(type(value), "a number")
