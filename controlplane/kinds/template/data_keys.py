"""Rules that ConfigMaps and Secrets share: the syntax of keys, and immutable data."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, Final

from controlplane.apimachinery.causes import forbidden, invalid
from controlplane.apimachinery.errors import Cause

LONGEST: Final = 253  # characters
_SPELLING: Final = re.compile(r"[-._a-zA-Z0-9]+")
_MISSPELT: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    f"(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '{_SPELLING.pattern}')"
)
_FROZEN: Final = "field is immutable when `immutable` is set"


def misspelt(field: str, keys: Collection[str]) -> Iterator[Cause]:
    """Yield the causes to refuse the keys of a field. A key becomes the name of a file in a pod."""
    for key in keys:
        for rule in _broken(key):
            yield invalid(f"{field}[{key}]", key, rule)


def _broken(key: str) -> Iterator[str]:
    if len(key) > LONGEST:
        yield f"must be no more than {LONGEST} characters"
    if not _SPELLING.fullmatch(key):
        yield _MISSPELT
    if key in (".", ".."):
        yield f"must not be '{key}'"
    elif key.startswith(".."):
        yield "must not start with '..'"


def frozen(new: Any, old: Any, fields: Collection[str]) -> Iterator[Cause]:
    """Yield a cause for every changed field of an object that is immutable, and for making it mutable.

    `old` is the stored object; None: the object is being created.
    """
    if old is None or old.content.get("immutable") is not True:
        return
    if new.content.get("immutable") is not True:
        yield forbidden("immutable", _FROZEN)
    for field in fields:
        if (new.content.get(field) or {}) != (old.content.get(field) or {}):
            yield forbidden(field, _FROZEN)
