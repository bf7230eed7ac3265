"""Values that were encrypted with a key that no process has: they can be stored again as they are, and not be read.

An object that holds such a value can be deleted, relabelled and replaced, because that needs none of its values. Where
the object is shown, PLACEHOLDER stands for the value. What needs the value calls `holds_unopened` first.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

PLACEHOLDER: Final = b64encode(b"(cannot be decrypted)").decode()  # as every value of a Secret it is base64


class Unopened:
    """A value as it is stored: encrypted."""

    __slots__ = ("sealed",)

    def __init__(self, sealed: str) -> None:
        self.sealed = sealed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unopened) and self.sealed == other.sealed

    def __hash__(self) -> int:
        return hash(self.sealed)


def holds_unopened(value: Any) -> bool:
    """Test whether a document, or a part of it, holds a value that cannot be read."""
    if isinstance(value, dict):
        return any(map(holds_unopened, value.values()))
    if isinstance(value, list | tuple):
        return any(map(holds_unopened, value))
    return isinstance(value, Unopened)
