"""Base64 as Kubernetes reads it: the standard alphabet, with padding. Line ends are ignored."""

from __future__ import annotations

import base64


def decoded(text: str) -> bytes:
    """Return the bytes that a base64 text encodes. Raises ValueError for a text that is not base64."""
    plain = text.replace("\r", "").replace("\n", "")
    if len(plain) % 4 or plain.endswith("==="):  # some versions of Python accept too much padding
        raise ValueError("has a length that is not a multiple of four")
    return base64.b64decode(plain, validate=True)


def is_base64(text: str) -> bool:
    """Test whether a text is base64."""
    try:
        decoded(text)
    except ValueError:
        return False
    return True
