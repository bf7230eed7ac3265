"""Values in the data of a Secret, which are base64."""

from __future__ import annotations

import base64
from typing import Any

from controlplane.kinds.template import Template


def data_of(secret: Template) -> dict[str, Any]:
    """Return the data of a Secret, as it is stored; {}: it has none."""
    data = secret.content.get("data")
    return data if isinstance(data, dict) else {}


def text(secret: Template, key: str) -> str:
    """Return a value of a Secret as text; "": it has no such value, or a value that is not text."""
    return decoded(data_of(secret).get(key))


def encoded(value: str) -> str:
    """Return a text as it is written into the data of a Secret."""
    return base64.b64encode(value.encode()).decode()


def decoded(value: Any) -> str:
    """Return the text of a value in base64; "": the value is not base64 of a text."""
    try:
        return base64.b64decode(value or "").decode()
    except (ValueError, TypeError):
        return ""
