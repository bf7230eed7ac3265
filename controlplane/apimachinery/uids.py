"""Uids of what controllers make: derived, so that a replay makes the same objects."""

from __future__ import annotations

import hashlib
from functools import lru_cache

_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def child_uid(parent_uid: str, role: str, name: str) -> str:
    """Return the uid of an object a controller makes: uuid5 of parent uid, role and name (DESIGN section 4).

    A parent uid that is no UUID (tests, foreign tools) is hashed into one first. Written out, because thousands are
    made a second and the library's takes four times as long.
    """
    text = hashlib.sha1(_space(parent_uid) + f"{role}/{name}".encode(), usedforsecurity=False).hexdigest()
    return f"{text[:8]}-{text[8:12]}-5{text[13:16]}-{_VARIANT[text[16]]}{text[17:20]}-{text[20:32]}"


@lru_cache(maxsize=4096)
def _space(parent_uid: str) -> bytes:
    try:
        found = bytes.fromhex(parent_uid.replace("-", ""))
    except ValueError:
        found = b""
    return found if len(found) == 16 else hashlib.sha256(parent_uid.encode()).digest()[:16]
