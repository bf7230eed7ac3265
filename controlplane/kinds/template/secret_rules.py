"""Defaults and validation of Secrets. Plain text in stringData becomes data, as in Kubernetes."""

from __future__ import annotations

import base64
from typing import Any

from controlplane.apimachinery.base64 import is_base64
from controlplane.apimachinery.causes import invalid
from controlplane.apimachinery.errors import Cause
from controlplane.kinds.template.data_keys import frozen, misspelt
from controlplane.settings import Settings

OPAQUE = "Opaque"


def normalise(doc: dict[str, Any]) -> list[str]:
    """Move stringData into data, and set the default type, in place. Return no warnings.

    Values of a wrong type stay as they are for validation to refuse.
    """
    texts = doc.get("stringData")
    if isinstance(texts, dict) and all(isinstance(value, str) for value in texts.values()):
        del doc["stringData"]
        data = doc.get("data")
        if texts:
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in texts.items()}
            doc["data"] = {**(data if isinstance(data, dict) else {}), **encoded}
    if not doc.get("type"):
        doc["type"] = OPAQUE
    return []


def validate(new: Any, old: Any, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a Secret. Messages never contain its values."""
    data = new.content.get("data") or {}
    rule = "must be base64; write plain text into stringData"
    unreadable = [invalid(f"data[{key}]", "…", rule) for key, value in data.items() if not is_base64(value)]
    return [*misspelt("data", data), *unreadable, *frozen(new, old, ("data",))]
