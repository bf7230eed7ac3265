"""Two small proxies on the loopback, HTTP and SOCKS5, which say what they were asked for."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from controlplane.settings import MemberSettings

HOST = "127.0.0.1"
ANYWHERE = MemberSettings(allowed_addresses=("127.0.0.0/8",))
"""For clients whose members listen on the loopback."""


@dataclass
class Seen:
    """Where a proxy listens, and what it was asked: (host:port, headers by lower-case name)."""

    port: int = 0
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)


@asynccontextmanager
async def http_proxy(*, answer: str = "200 Connection established") -> AsyncIterator[Seen]:
    """An HTTP proxy that answers CONNECT like this, and tunnels where that is a 200."""
    seen = Seen()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().rstrip().split("\r\n")
        method, place, _ = first.split()
        assert method == "CONNECT", first
        seen.asked.append((place, {name.lower(): value for name, _, value in (one.partition(": ") for one in lines)}))
        writer.write(f"HTTP/1.1 {answer}\r\n{'' if answer.startswith('200') else 'Content-Length: 0'}\r\n\r\n".encode())
        if answer.startswith("200"):
            await _tunnel(reader, writer, *place.rsplit(":", 1))

    async with _listening(serve, seen):
        yield seen


@asynccontextmanager
async def socks_proxy() -> AsyncIterator[Seen]:
    """A SOCKS5 proxy that wants no password (RFC 1928)."""
    seen = Seen()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, methods = await reader.readexactly(2)
        await reader.readexactly(methods)
        writer.write(b"\x05\x00")
        _, _, _, kind = await reader.readexactly(4)
        if kind == 1:
            host = ".".join(str(one) for one in await reader.readexactly(4))
        else:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        (port,) = struct.unpack("!H", await reader.readexactly(2))
        seen.asked.append((f"{host}:{port}", {}))
        writer.write(b"\x05\x00\x00\x01" + bytes(6))
        await _tunnel(reader, writer, host, str(port))

    async with _listening(serve, seen):
        yield seen


@asynccontextmanager
async def _listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], seen: Seen
) -> AsyncIterator[None]:
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went, or the test is over
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(handle, HOST, 0)
    seen.port = server.sockets[0].getsockname()[1]
    try:
        yield
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: str) -> None:
    there, back = await asyncio.open_connection(host, int(port))
    try:
        await asyncio.gather(_carry(reader, back), _carry(there, writer))
    finally:
        back.close()


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65_536):
        sink.write(data)
        await sink.drain()
    sink.close()
