"""Decoding of request bodies in the protobuf format of Kubernetes, which `kubectl create deployment` sends.

Answers are never protobuf, because every client accepts JSON. The fields of each message come from `builtin.messages`:
one text per field number, "name:letter[mark][:message]".

    letter  s string, b bytes, t boolean, i integer, m message
    mark    * repeated, % map with string keys, ? pointer (an empty value is a value), ! written to JSON even if empty
    name    empty for a message whose fields belong to its parent (the handler of a Probe, the source of a Volume)

Clients in Go send unset fields that are no pointers as zeros. They are left out, as encoding/json does.
"""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

import orjson

from controlplane.apimachinery.errors import BadRequest, UnsupportedMediaType
from controlplane.wire import builtin
from controlplane.wire.body import MAX_DEPTH, check_depth

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"

Document = dict[str, Any]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Field(NamedTuple):
    name: str
    letter: str
    mark: str
    message: str


def decode(body: bytes) -> Document:
    """Return the object in a protobuf body as the document that its JSON would give.

    Raises BadRequest if the body is damaged, and UnsupportedMediaType for kinds without a protobuf form, such as custom
    resources. Clients must send these as JSON or YAML.
    """
    if not body.startswith(MAGIC):
        raise BadRequest(
            f"the request body is not {MEDIA_TYPE}: it begins with {body[:4]!r} instead of {MAGIC!r};"
            " send it with the Content-Type it has"
        )
    api_version, kind, raw, content_type = _envelope(memoryview(body)[len(MAGIC) :])
    if content_type == "application/json":
        document = _json(raw)
        if not isinstance(document, dict):
            raise _damaged("the JSON inside it is no object")
        return _shallow(document)
    group, _, version = api_version.rpartition("/")
    name = f"{_META}DeleteOptions" if kind == "DeleteOptions" else builtin.component_name(group, version, kind)
    if name is None or name not in builtin.messages():
        raise UnsupportedMediaType(
            f'the request body holds kind "{kind}" of apiVersion "{api_version}", which has no protobuf form here;'
            " send it as application/json"
        )
    try:
        message = _message(raw, name)
    except RecursionError:
        raise BadRequest(f"the body is nested deeper than {MAX_DEPTH} levels") from None
    return _shallow({"apiVersion": api_version, "kind": kind, **message})


def _shallow(document: Document) -> Document:
    """Return the document. Raises BadRequest if it is nested deeper than JSON and YAML bodies may be."""
    check_depth(document, MAX_DEPTH)
    return document


def _envelope(data: memoryview) -> tuple[str, str, memoryview, str]:
    """Return apiVersion, kind, content and media type of the content of a runtime.Unknown."""
    api_version = kind = content_type = ""
    raw = memoryview(b"")
    for number, value in _entries(data):
        if number == 1:
            for part, text in _entries(_chunk(value)):
                api_version = _text(text) if part == 1 else api_version
                kind = _text(text) if part == 2 else kind
        elif number == 2:
            raw = _chunk(value)
        elif number == 4:
            content_type = _text(value)
    return api_version, kind, raw, content_type


def _message(data: memoryview, name: str) -> Any:
    """Return a message as a JSON value. None: it is not set, for example a time of zero."""
    special = _SPECIAL.get(name)
    if special is not None:
        return special(dict(_entries(data)))
    fields = _fields(name)
    document: Document = {}
    for number, value in _entries(data):
        field = fields.get(number)
        if field is None:
            continue  # a field of a newer release; unknown fields in JSON are dropped too
        if field.mark == "*":
            document.setdefault(field.name, []).extend(_repeated(value, field))
        elif field.mark == "%":
            key, item = _map_entry(_chunk(value), field)
            document.setdefault(field.name, {})[key] = item
        else:
            _set(document, field, _value(value, field))
    return document.get("items", []) if name.endswith(".ExtraValue") else document


def _set(document: Document, field: _Field, value: Any) -> None:
    if field.name == "":
        document.update(value)
    elif value is not None and (value or field.mark in _MEANING):
        document[field.name] = value


_MEANING = ("?", "!")
"""Marks of fields whose empty value has a meaning: an empty podSelector selects every pod."""


def _repeated(value: int | memoryview, field: _Field) -> list[Any]:
    """Return the items that an entry adds to a list: a single item, or several packed numbers."""
    if field.letter in "it" and isinstance(value, memoryview):
        return [_value(item, field) for item in _packed(value)]
    return [_value(value, field)]


def _packed(data: memoryview) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _map_entry(data: memoryview, field: _Field) -> tuple[str, Any]:
    entry = dict(_entries(data))
    empty: int | memoryview = memoryview(b"") if field.letter in "sbm" else 0
    return _text(entry.get(1, memoryview(b""))), _value(entry.get(2, empty), field)


def _value(value: int | memoryview, field: _Field) -> Any:
    match field.letter:
        case "s":
            return _text(value)
        case "i":
            return _integer(value)
        case "t":
            return bool(_integer(value))
        case "b":
            return base64.b64encode(_chunk(value)).decode()
        case _:
            return _message(_chunk(value), field.message)


@cache
def _fields(name: str) -> dict[int, _Field]:
    found = {}
    for number, row in builtin.messages()[name].items():
        field_name, kind, *message = row.split(":")
        found[int(number)] = _Field(field_name, kind[0], kind[1:], "".join(message))
    return found


def _entries(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield the number and value of each field in a message. A value is an integer, or the bytes of a longer value."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire_type == _BYTES:
            length, at = _varint(data, at)
        elif wire_type in (_FIXED64, _FIXED32):
            length = 8 if wire_type == _FIXED64 else 4
        else:
            raise _damaged(f"field {number} has wire type {wire_type}, which Kubernetes does not use")
        end = at + length
        if end > len(data):
            raise _damaged(f"field {number} says {length} bytes follow, but {len(data) - at} do")
        yield number, data[at:end]
        at = end


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise _damaged("a number has no end")


def _integer(value: int | memoryview) -> int:
    if not isinstance(value, int):
        raise _damaged("text or a message stands where a number belongs")
    number = value & ((1 << 64) - 1)
    return number - (1 << 64) if number >> 63 else number


def _chunk(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise _damaged("a number stands where text or a message belongs")
    return value


def _text(value: int | memoryview) -> str:
    try:
        return str(_chunk(value), "utf-8")
    except UnicodeDecodeError as error:
        raise _damaged(f"a text is not UTF-8: {error.reason}") from error


def _json(data: memoryview) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _damaged(f"the JSON inside it cannot be read: {error}") from error


def _damaged(why: str) -> BadRequest:
    return BadRequest(f"the {MEDIA_TYPE} request body is damaged: {why}")


_Entries = dict[int, int | memoryview]


def _time(entries: _Entries) -> str | None:
    return f"{_moment(entries):%Y-%m-%dT%H:%M:%SZ}" if entries else None


def _micro_time(entries: _Entries) -> str | None:
    return f"{_moment(entries):%Y-%m-%dT%H:%M:%S.%fZ}" if entries else None


def _moment(entries: _Entries) -> datetime:
    seconds, nanoseconds = _integer(entries.get(1, 0)), _integer(entries.get(2, 0))
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
    except OverflowError as error:
        raise _damaged(f"the time {seconds} s after 1970 is in no calendar") from error


def _int_or_string(entries: _Entries) -> int | str:
    is_text = _integer(entries.get(1, 0)) == 1
    return _text(entries.get(3, memoryview(b""))) if is_text else _integer(entries.get(2, 0))


def _quantity(entries: _Entries) -> str:
    return _text(entries.get(1, memoryview(b""))) or "0"


def _raw_json(entries: _Entries) -> Any:
    raw = _chunk(entries.get(1, memoryview(b"")))
    return _json(raw) if raw else None


_SPECIAL = {
    f"{_META}Time": _time,
    f"{_META}MicroTime": _micro_time,
    f"{_META}FieldsV1": _raw_json,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _raw_json,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _quantity,
}
