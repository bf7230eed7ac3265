"""Sending of answers in slices. A client that reads nothing for too long is disconnected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

SLICE = 256 * 1024  # bytes passed to uvicorn at once; uvicorn waits until the client has read most of them
WRITE = "lifeboat.write"  # extension of a scope: a function that sends a part of the present answer at once
LOST = "lifeboat.lost"  # extension of a scope: a function that takes what is called when the client is gone
STALL_SECONDS = 60.0  # a client that reads nothing for this long is disconnected


class Stalled(Exception):
    """The client has read nothing for STALL_SECONDS."""


def chunk_of(data: bytes) -> bytes:
    """Return a part of an answer without a length as HTTP sends it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


async def send_parts(send: Send, data: bytes, *, more: bool) -> None:
    """Send a part of a body. Raises Stalled."""
    view = memoryview(data)
    for start in range(0, max(len(data), 1), SLICE):
        end = start + SLICE
        try:
            async with asyncio.timeout(STALL_SECONDS):
                await send(
                    {"type": "http.response.body", "body": bytes(view[start:end]), "more_body": more or end < len(data)}
                )
        except TimeoutError:
            raise Stalled from None


async def send_whole(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """Send a complete answer. Raises Stalled."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send_parts(send, body, more=False)
