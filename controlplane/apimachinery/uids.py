"""Uids of objects that controllers make. They are derived from other values, so that a replay makes the same uids."""

from __future__ import annotations

import hashlib
from functools import lru_cache

_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def child_uid(parent_uid: str, role: str, name: str) -> str:
    """Return the uid of an object that a controller makes: the uuid5 of parent uid, role and name.

    A parent uid that is not a UUID (tests, other tools) is hashed first. The computation is written out because
    `uuid.uuid5` takes four times as long, and thousands of uids are made per second.
    """
    text = hashlib.sha1(_namespace(parent_uid) + f"{role}/{name}".encode(), usedforsecurity=False).hexdigest()
    return f"{text[:8]}-{text[8:12]}-5{text[13:16]}-{_VARIANT[text[16]]}{text[17:20]}-{text[20:32]}"


@lru_cache(maxsize=4096)
def _namespace(parent_uid: str) -> bytes:
    try:
        space = bytes.fromhex(parent_uid.replace("-", ""))
    except ValueError:
        space = b""
    return space if len(space) == 16 else hashlib.sha256(parent_uid.encode()).digest()[:16]
