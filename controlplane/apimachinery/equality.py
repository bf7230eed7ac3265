"""Whether two values are the same in JSON: the rule for all documents whose changes are looked for.

For Python, true equals 1 and false equals 0. In a field of any type, such as a value of a Helm release, such an edit is
a change like any other: compare parts of documents, and types with such fields, with `same`.
"""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

from controlplane.apimachinery.as_written import ABSENT_FLAG, plain


def same(left: Any, right: Any) -> bool:
    """Test whether two JSON values, or two values of a type, are equal. Unlike with Python's ==, true differs from 1.

    A default that is written equals one that is left out. As in Kubernetes, 1 equals 1.0. Most values are the same
    object, differ for ==, or have the same encoding. The others are compared part by part.
    """
    if left is right:
        return True
    if left != right:
        return False
    try:
        return _encoded(left) == _encoded(right) or _is_same(left, right)
    except TypeError:  # a whole number of more than 64 bits
        return _is_same(left, right)


def _encoded(value: Any) -> bytes:
    if isinstance(value, dict | list):
        return orjson.dumps(value)
    return msgspec.json.encode(value, enc_hook=plain)


def _is_same(left: Any, right: Any) -> bool:
    if left is right:
        return True
    if isinstance(left, bool) or isinstance(right, bool):
        return _is_flag(left) and _is_flag(right) and bool(left == right)
    if isinstance(left, msgspec.Struct) and type(left) is type(right):
        return all(_is_same(getattr(left, name), getattr(right, name)) for name in left.__struct_fields__)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_is_same(value, right[key]) for key, value in left.items())
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_is_same, left, right))
    return bool(left == right)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool) or value is ABSENT_FLAG
