"""JSON Patch, merge patch and strategic merge patch. Server-side apply is in `managed_fields`.

None of them mutates its arguments. All raise StatusErrors that name the path.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import orjson

from controlplane.apimachinery.equality import same
from controlplane.apimachinery.errors import BadRequest, Invalid, TooLarge, UnsupportedMediaType
from controlplane.wire.body import MAX_BYTES, MAX_DEPTH, check_depth, decode_value
from controlplane.wire.negotiate import media_type_of
from controlplane.wire.schema import Schema
from controlplane.wire.strategic import strategic_merge_patch

Document = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

MAX_OPERATIONS = 10_000


def apply_patch(
    content_type: str,
    doc: Document,
    body: bytes,
    schema: Schema | None,
    *,
    max_bytes: int = MAX_BYTES,
    max_depth: int = MAX_DEPTH,
) -> Document:
    """Return the document after the patch in a request body.

    schema: has the merge keys. None: the kind is not built in and supports no strategic merge patch.
    Raises UnsupportedMediaType (in the words that kubectl looks for), BadRequest if the patch cannot be decoded,
    Invalid if it does not fit the document, and TooLarge.
    """
    media_type = patch_type_of(content_type, schema)
    patch = decode_value(media_type, body, max_bytes=max_bytes, max_depth=max_depth)
    if media_type == JSON_PATCH:
        result = json_patch(doc, patch)
    elif not isinstance(patch, dict):
        raise BadRequest("a merge patch has to be an object")
    elif media_type == MERGE_PATCH:
        result = merge_patch(doc, patch)
    else:
        assert schema is not None
        result = strategic_merge_patch(doc, patch, schema)
    if not isinstance(result, dict):
        raise Invalid("the patch replaces the whole object by something that is not an object")
    check_depth(result, max_depth)
    return result


def patch_type_of(content_type: str, schema: Schema | None) -> str:
    """Return the media type of a patch. Raises UnsupportedMediaType if the kind does not support it."""
    media_type = media_type_of(content_type)
    known = (JSON_PATCH, MERGE_PATCH) if schema is None else (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)
    if media_type not in known:
        accepted = ", ".join((*known, APPLY_PATCH))
        raise UnsupportedMediaType(
            f"the body of the request was in an unknown format - accepted media types include: {accepted}"
        )
    return media_type


def merge_patch(doc: Any, patch: Any) -> Any:
    """Return the document after a JSON merge patch (RFC 7386): null removes, objects merge, other values replace."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(doc) if isinstance(doc, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = merge_patch(merged.get(key), value)
        else:
            merged[key] = value
    return merged


def merge_diff(old: Document, new: Document) -> Document:
    """Return the smallest merge patch that turns `old` into `new`. `new` must not contain nulls."""
    patch: Document = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif isinstance(value, dict) and isinstance(old[key], dict):
            inner = merge_diff(old[key], value)
            if inner:
                patch[key] = inner
        elif type(value) is not type(old[key]) or not same(value, old[key]):
            patch[key] = value
    return patch


def json_patch(doc: Any, patch: Any, *, strict: bool = False) -> Any:
    """Return the document after a JSON Patch (RFC 6902). Either all operations are applied, or an error is raised.

    strict: `replace` needs a field that exists. Otherwise it adds a missing field, as kube-apiserver does.
    Raises BadRequest if the patch is malformed, Invalid if an operation does not fit the document, and TooLarge for
    too many operations or too many copied bytes.
    """
    if not isinstance(patch, list):
        raise BadRequest("a JSON Patch has to be a list of operations")
    if len(patch) > MAX_OPERATIONS:
        raise TooLarge(f"the patch has {len(patch)} operations, the limit is {MAX_OPERATIONS}")
    result: Any = deepcopy(doc)
    copied = 0
    for index, operation in enumerate(patch):
        if not isinstance(operation, dict):
            raise BadRequest(f"operation {index} of the JSON Patch is not an object")
        if operation.get("op") == "copy":
            copied += _size(result, _pointer(operation, "from", index))
            if copied > MAX_BYTES:
                raise TooLarge(f"the patch copies more than {MAX_BYTES} bytes")
        if strict and operation.get("op") == "replace":
            _get(result, _pointer(operation, "path", index))
        result = _operate(result, operation, index)
    return result


def _size(doc: Any, path: list[str]) -> int:
    """Return the bytes of the value at a path. Raises BadRequest for one that is nested deeper than JSON may be."""
    try:
        return len(orjson.dumps(_get(doc, path)))
    except orjson.JSONEncodeError:
        raise BadRequest(f"the JSON Patch copies {_text(path)} into itself until it is nested too deeply") from None


def _operate(doc: Any, operation: Document, index: int) -> Any:
    """Return the document after an operation of a JSON Patch. `index` is its number, for messages."""
    path = _pointer(operation, "path", index)
    op = operation.get("op")
    if op in ("add", "replace", "test") and "value" not in operation:
        raise BadRequest(f"operation {index} ({op}) of the JSON Patch has no value")
    if op == "add":
        return _add(doc, path, deepcopy(operation["value"]))
    if op == "remove":
        return _remove(doc, path)
    if op == "replace":
        return _replace(doc, path, deepcopy(operation["value"]))
    if op == "move":
        source = _pointer(operation, "from", index)
        if path[: len(source)] == source and path != source:
            raise Invalid(f"operation {index} of the JSON Patch moves {_text(source)} into itself")
        value = _get(doc, source)
        return _add(_remove(doc, source), path, value)
    if op == "copy":
        return _add(doc, path, deepcopy(_get(doc, _pointer(operation, "from", index))))
    if op == "test":
        if not same(_get(doc, path), operation["value"]):
            raise Invalid(f"testing value {_text(path)} failed: it is not what operation {index} of the patch expects")
        return doc
    raise BadRequest(f"operation {index} of the JSON Patch: {op!r} is not add, remove, replace, move, copy or test")


def _pointer(operation: Document, member: str, index: int) -> list[str]:
    """Return the reference tokens of a JSON Pointer (RFC 6901)."""
    text = operation.get(member)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise BadRequest(
            f"operation {index} of the JSON Patch: {member} {text!r} is not a JSON pointer like /spec/replicas"
        )
    return [token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:]]


def _text(path: list[str]) -> str:
    return "/" + "/".join(token.replace("~", "~0").replace("/", "~1") for token in path)


def _get(doc: Any, path: list[str]) -> Any:
    for depth, token in enumerate(path):
        if isinstance(doc, dict) and token in doc:
            doc = doc[token]
        elif isinstance(doc, list) and (index := _position(token, len(doc))) is not None:
            doc = doc[index]
        else:
            raise Invalid(f"the JSON Patch names {_text(path)}, but there is no {_text(path[: depth + 1])}")
    return doc


def _position(token: str, size: int) -> int | None:
    """Return the place in a list of `size` items that a token names. None: there is none.

    An index below 0 counts from the end, as in Kubernetes.
    """
    digits = token.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) >= 10 or (digits[0] == "0" and token != "0"):
        return None
    index = int(token) + size if token != digits else int(token)
    return index if 0 <= index < size else None


def _add(doc: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, token = _get(doc, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[token] = value
    elif isinstance(parent, list) and (index := _place_to_add(token, parent)) is not None:
        parent.insert(index, value)
    else:
        raise Invalid(f"the JSON Patch cannot add {_text(path)}: {_text(path[:-1])} has no such place")
    return doc


def _place_to_add(token: str, items: list[Any]) -> int | None:
    return len(items) if token == "-" else _position(token, len(items) + 1)


def _replace(doc: Any, path: list[str], value: Any) -> Any:
    """Replace the value at a path. A missing field is added, as in kube-apiserver.

    Clients replace optional fields such as /spec/suspension without checking whether they exist.
    """
    if not path:
        return value
    parent, token = _get(doc, path[:-1]), path[-1]
    if not isinstance(parent, dict):
        _get(doc, path)
    parent[_key(token, parent)] = value
    return doc


def _remove(doc: Any, path: list[str]) -> Any:
    _get(doc, path)
    if not path:
        return None
    parent, token = _get(doc, path[:-1]), path[-1]
    del parent[_key(token, parent)]
    return doc


def _key(token: str, parent: Any) -> Any:
    """Return the key of what is there in an object or a list."""
    return _position(token, len(parent)) if isinstance(parent, list) else token
