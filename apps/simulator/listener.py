"""A port that can refuse connections for a while and keeps its number."""

from __future__ import annotations

import asyncio
import socket
import ssl

from aiohttp import web

HOST = "127.0.0.1"


class Listener:
    """An aiohttp server on a port of the loopback interface. The port is open or closed."""

    def __init__(self, server: web.Server, *, port: int) -> None:
        self._server = server
        self._tls: ssl.SSLContext | None = None
        self._listening: asyncio.Server | None = None
        # Bound but not listening: no other process can take the number while the port is closed.
        self._claim = _bound(port)
        self.port: int = self._claim.getsockname()[1]

    async def open(self, *, tls: ssl.SSLContext | None) -> None:
        """Accept connections. Connections with another TLS context are closed."""
        if tls is not self._tls:
            self.close()
        if self._listening is None:
            self._tls = tls
            loop = asyncio.get_running_loop()
            self._listening = await loop.create_server(self._server, sock=_bound(self.port), ssl=tls, backlog=1024)

    def close(self) -> None:
        """Refuse new connections and close the open ones."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        for connection in self._server.connections:
            if connection.transport is not None:
                connection.transport.abort()

    async def stop(self) -> None:
        """Close the port and release its number."""
        self.close()
        await self._server.shutdown(timeout=0.5)
        self._claim.close()


def _bound(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        made.bind((HOST, port))
    except OSError:
        made.close()
        raise
    return made
