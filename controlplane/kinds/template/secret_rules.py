"""Secret (v1): kept like every template; what is written as text becomes data, as Kubernetes does it."""

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
    """Move stringData into data and name the type, in place. Values that are no text are left to validation."""
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
    """Return a cause for every key of data that is misspelt, every value that is no base64, which is secret and not
    repeated, and every change of what is immutable."""
    data = new.content.get("data") or {}
    rule = "must be base64; write plain text into stringData"
    unreadable = [invalid(f"data[{key}]", "…", rule) for key, value in data.items() if not is_base64(value)]
    return [*misspelt("data", data), *unreadable, *frozen(new, old, ("data",))]
