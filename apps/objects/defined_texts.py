"""Texts of custom objects that are as their definition shows them: one that is read again is not decoded again."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from itertools import count
from typing import Final
from weakref import WeakKeyDictionary

from controlplane.wire.schema import Schema

MOST_TEXTS: Final = 50_000  # that a process knows; about 100 bytes each


class DefinedTexts:
    """The digests of stored texts that a schema would not change. Each process has its own. Any thread may use it.

    An edited definition has another schema, for which no text is known yet.
    """

    def __init__(self, most: int = MOST_TEXTS) -> None:
        self._most = most
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._numbers: WeakKeyDictionary[Schema, bytes] = WeakKeyDictionary()  # no two schemas have the same
        self._next = count()
        self._lock = threading.Lock()

    def digest(self, schema: Schema, text: bytes) -> bytes:
        """Return the digest of a text that is shown by a schema."""
        number = self._numbers.get(schema)
        if number is None:
            with self._lock:
                number = self._numbers.setdefault(schema, next(self._next).to_bytes(8, "big"))
        return hashlib.blake2b(text, digest_size=16, person=number).digest()

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._known

    def add(self, digest: bytes) -> None:
        """Note that a text is as its schema shows it. The text that was noted first is forgotten first."""
        with self._lock:
            self._known[digest] = None
            if len(self._known) > self._most:
                self._known.popitem(last=False)


DEFINED: Final = DefinedTexts()
