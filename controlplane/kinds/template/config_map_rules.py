"""Validation of ConfigMaps: valid keys, base64 in binaryData, no key in both data and binaryData."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controlplane.apimachinery.base64 import is_base64
from controlplane.apimachinery.causes import invalid
from controlplane.apimachinery.errors import Cause
from controlplane.kinds.template.data_keys import frozen, misspelt
from controlplane.settings import Settings


def validate(new: Any, old: Any, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a ConfigMap."""
    binary, texts = new.content.get("binaryData") or {}, new.content.get("data") or {}
    return [
        *misspelt("data", texts),
        *misspelt("binaryData", binary),
        *_values(binary),
        *(_twice(key) for key in binary if key in texts),
        *frozen(new, old, ("data", "binaryData")),
    ]


def _values(binary: dict[str, str]) -> Iterator[Cause]:
    for key, value in binary.items():
        if not is_base64(value):
            yield invalid(f"binaryData[{key}]", value, "must be base64; write plain text into data")


def _twice(key: str) -> Cause:
    return invalid(f"binaryData[{key}]", key, "duplicate of key present in data: remove one of the two")
