"""Base64 as Kubernetes reads it."""

from __future__ import annotations

import base64
import binascii


def is_base64(text: str) -> bool:
    """Test whether a text is base64 of the standard alphabet, with padding; line ends in it are nothing."""
    plain = text.replace("\r", "").replace("\n", "")
    try:
        base64.b64decode(plain, validate=True)
    except (binascii.Error, ValueError):
        return False
    return len(plain) % 4 == 0
