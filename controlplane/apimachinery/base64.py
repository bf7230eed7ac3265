"""Base64 as Kubernetes reads it: of the standard alphabet, with padding; line ends in it are nothing."""

from __future__ import annotations

import base64


def decoded(text: str) -> bytes:
    """Return what a base64 text stands for. Raises ValueError where it is none."""
    plain = text.replace("\r", "").replace("\n", "")
    if len(plain) % 4 or plain.endswith("==="):  # some versions of Python let more padding pass
        raise ValueError("is padded to another length than a multiple of four")
    return base64.b64decode(plain, validate=True)


def is_base64(text: str) -> bool:
    """Test whether a text is base64."""
    try:
        decoded(text)
    except ValueError:
        return False
    return True
