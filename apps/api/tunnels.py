"""Tunnels: connections whose protocol was switched (HTTP 101), for example to a websocket or SPDY.

`connections` hands the bytes of such a connection to its tunnel. The ASGI application opens it by the extension TUNNEL.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.flow_control import FlowControl

ABORT = "lifeboat.abort"  # ASGI extension; its function "now" closes the connection at once
TUNNEL = "lifeboat.tunnel"  # ASGI extension of a request that asks for another protocol; its function "open" switches
MOST_BYTES = 64 * 1024  # bytes of a client that wait to be read; then nothing more is received


class Tunnel:
    """The bytes of one connection with a client."""

    def __init__(self, transport: asyncio.Transport, flow: FlowControl) -> None:
        self._transport = transport
        self._flow = flow
        self._parts = bytearray()
        self._arrived = asyncio.Event()
        self._ended = False

    def feed(self, data: bytes) -> None:
        """Take bytes that the client has sent."""
        self._parts += data
        if len(self._parts) > MOST_BYTES:
            self._flow.pause_reading()
        self._arrived.set()

    def end(self) -> None:
        """Note that the connection is closed."""
        self._ended = True
        self._arrived.set()

    async def read(self) -> bytes:
        """Return the bytes that have arrived, and wait for the first; b"": the connection is closed."""
        while not self._parts and not self._ended:
            self._arrived.clear()
            await self._arrived.wait()
        data = bytes(self._parts)
        self._parts.clear()
        if not self._ended:
            self._flow.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes and wait until most of them are sent. Raises OSError if the connection is closed."""
        if self._ended or self._transport.is_closing():
            raise ConnectionResetError("the client has closed the connection")
        self._transport.write(data)
        await self._flow.drain()

    def close(self) -> None:
        """Close the connection when everything is sent."""
        self._transport.close()
