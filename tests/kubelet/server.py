"""The part of a kubelet's API to which a kube-apiserver sends exec, attach, port-forward and logs.

It asks for a client certificate, because commands run on this machine. The pods have the network of this machine.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from tests.kubelet import commands
from tests.kubelet.channels import (
    ERROR,
    PROTOCOL,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    Channels,
)
from tests.kubelet.spdy import Connection, Stream

HOST: Final = "127.0.0.1"
LINE_SECONDS: Final = 0.5  # between two lines of a log that is followed
_PORTS: Final = "portforward.k8s.io"
_CHANNELS: Final = {"input": STDIN, "output": STDOUT, "error": STDERR}
_LOG_LINES: Final = 3


class Asked(NamedTuple):
    """A request. `headers`: by name in lower case; several values are joined with a comma."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]

    def says(self, name: str) -> bool:
        """Return whether the query has this switch on."""
        return self.query.get(name, [""])[0] in ("1", "true")


@contextmanager
def kubelet(port: int, context: ssl.SSLContext) -> Iterator[list[Asked]]:
    """Serve at this port of the loopback while the block runs. Yields the requests, as they arrive."""
    asked: list[Asked] = []
    ready, loop = threading.Event(), asyncio.new_event_loop()

    async def begin() -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError, asyncio.IncompleteReadError):
                await _serve(reader, writer, asked)
            writer.close()

        return await asyncio.start_server(serve, HOST, port, ssl=context)

    def run() -> None:
        asyncio.set_event_loop(loop)
        server = loop.run_until_complete(begin())
        ready.set()
        loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    if not ready.wait(20):
        raise RuntimeError(f"the kubelet does not listen at port {port}")
    try:
        yield asked
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)


def server_context(certificate: Path, key: Path, clients: Path) -> ssl.SSLContext:
    """Return the TLS context of a kubelet that answers only clients with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(clients)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: list[Asked]) -> None:
    request = _parsed((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
    asked.append(request)
    verb, *place = request.path.strip("/").split("/")
    if verb == "containerLogs" and len(place) == 3:
        await _log(writer, "/".join(place), follow=request.says("follow"))
    elif verb == "portForward" and "SPDY" in request.headers.get("upgrade", ""):
        await _switch(writer, {"Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": _PORTS})
        await _forward(Connection(reader, writer))
    elif verb in ("exec", "attach") and "upgrade" in request.headers:
        channels, reading = await _channels(reader, writer, request)
        reads = request.says("input")
        if verb == "attach":
            await commands.echo(channels, "/".join(place), reads=reads)
        else:
            await commands.run(channels, request.query["command"], reads=reads, terminal=request.says("tty"))
        with suppress(TimeoutError):
            await asyncio.wait_for(reading, 5)  # what is on its way is lost if this side closes first
    else:
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()


def _parsed(head: str) -> Asked:
    first, *lines = head.strip().split("\r\n")
    method, url, _ = first.split()
    headers: dict[str, str] = {}
    for name, _, value in (line.partition(":") for line in lines):
        before = headers.get(name.lower())
        headers[name.lower()] = f"{before}, {value.strip()}" if before else value.strip()
    return Asked(method, urlsplit(url).path, parse_qs(urlsplit(url).query, keep_blank_values=True), headers)


async def _switch(writer: asyncio.StreamWriter, headers: Mapping[str, str]) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n{lines}\r\n".encode())
    await writer.drain()


async def _channels(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Asked
) -> tuple[Channels, asyncio.Task[None]]:
    """Switch the protocol. Returns the channels, and what reads them until the client has gone."""
    await _switch(writer, {"Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": PROTOCOL})
    connection = Connection(reader, writer)
    reading = asyncio.create_task(connection.read())
    wanted = {ERROR, *(channel for name, channel in _CHANNELS.items() if request.says(name))}
    if request.says("tty"):
        wanted = (wanted - {STDERR}) | {RESIZE}
    return await Channels.opened(connection, wanted), reading


async def _log(writer: asyncio.StreamWriter, place: str, *, follow: bool) -> None:
    """Send some lines. `follow`: then a line from time to time, until the client has gone."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
    line = 0
    while line < _LOG_LINES or follow:
        line += 1
        text = f"{place}: line {line}\n".encode()
        writer.write(b"%x\r\n%s\r\n" % (len(text), text))
        await writer.drain()
        if line >= _LOG_LINES and follow:
            await asyncio.sleep(LINE_SECONDS)
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _forward(connection: Connection) -> None:
    """Connect pairs of streams to ports of this machine, until the client has gone."""
    reading = asyncio.create_task(connection.read())
    errors: dict[str, Stream] = {}
    pairs: set[asyncio.Task[None]] = set()
    while (stream := await connection.accepted.get()) is not None:
        pair = stream.headers["requestid"]
        if stream.headers["streamtype"] == "error":
            errors[pair] = stream
        else:
            pairs.add(asyncio.create_task(_to_port(stream, errors.pop(pair))))
    await reading
    for task in pairs:
        task.cancel()


async def _to_port(stream: Stream, error: Stream) -> None:
    try:
        reader, writer = await asyncio.open_connection(HOST, int(stream.headers["port"]))
    except OSError as problem:
        await error.write(str(problem).encode())
    else:

        async def feed() -> None:
            async for data in stream:
                writer.write(data)
                await writer.drain()
            writer.write_eof()

        feeding = asyncio.create_task(feed())
        while data := await reader.read(65_536):
            await stream.write(data)
        feeding.cancel()
        writer.close()
    await stream.end()
    await error.end()
