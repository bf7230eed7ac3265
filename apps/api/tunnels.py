"""Tunnels: connections whose protocol was switched (HTTP 101), for example to a websocket or SPDY.

`connections` hands the bytes of such a connection to its tunnel. The ASGI application opens it by the extension TUNNEL.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.flow_control import FlowControl

from apps.clusters.inbound import Inbound

ABORT = "lifeboat.abort"  # ASGI extension; its function "now" closes the connection at once
TUNNEL = "lifeboat.tunnel"  # ASGI extension of a request that asks for another protocol; its function "open" switches


class Tunnel(Inbound):
    """The bytes of one connection with a client."""

    def __init__(self, transport: asyncio.Transport, flow: FlowControl) -> None:
        super().__init__(flow.pause_reading, flow.resume_reading)
        self._transport = transport
        self._flow = flow

    async def write(self, data: bytes) -> None:
        """Send bytes and wait until most of them are sent. Raises OSError if the connection is closed."""
        if self.ended or self._transport.is_closing():
            raise ConnectionResetError("the client has closed the connection")
        self._transport.write(data)
        await self._flow.drain()

    def close(self) -> None:
        """Close the connection when everything is sent."""
        self._transport.close()
