"""Bytes that arrive on a connection whose protocol was switched, until they are read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

MOST_BYTES = 64 * 1024  # that wait to be read; then nothing more is received


class Inbound:
    """The receiving half of a tunnel."""

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        """`pause` and `resume` stop and continue receiving; each may be called again without effect."""
        self._pause = pause
        self._resume = resume
        self._parts = bytearray()
        self._arrived = asyncio.Event()
        self.ended = False

    def feed(self, data: bytes) -> None:
        """Take bytes that have arrived."""
        self._parts += data
        if len(self._parts) > MOST_BYTES:
            self._pause()
        self._arrived.set()

    def end(self) -> None:
        """Note that the connection is closed."""
        self.ended = True
        self._arrived.set()

    async def read(self) -> bytes:
        """Return the bytes that have arrived, and wait for the first; b"": the connection is closed."""
        while not self._parts and not self.ended:
            self._arrived.clear()
            await self._arrived.wait()
        data = bytes(self._parts)
        self._parts.clear()
        if not self.ended:
            self._resume()
        return data
