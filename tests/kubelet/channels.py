"""The channels of a command that runs in a container, over a websocket or over streams of SPDY."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import struct
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any, Final, Protocol

import orjson

from tests.kubelet.spdy import Connection, Stream

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
NAMES: Final = {STDIN: "stdin", STDOUT: "stdout", STDERR: "stderr", ERROR: "error", RESIZE: "resize"}
PROTOCOL: Final = "v4.channel.k8s.io"
_BINARY, _CLOSE, _PING, _PONG = 2, 8, 9, 10
_FINAL: Final = 0x80
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # the constant of the websocket protocol


class Channels(Protocol):
    """What a command reads and writes."""

    def received(self, channel: int) -> AsyncIterator[bytes]:
        """Yield what the client sends in a channel, until it closes the channel or goes."""

    async def write(self, channel: int, data: bytes) -> None:
        """Send bytes in a channel."""

    async def finish(self, status: Mapping[str, Any]) -> None:
        """Send how the command ended, and close."""


class OverSpdy:
    """Channels that are streams of SPDY with a header that names them."""

    def __init__(self, connection: Connection, streams: Mapping[int, Stream]) -> None:
        self._connection, self._streams = connection, streams

    @classmethod
    async def opened(cls, connection: Connection, wanted: Collection[int]) -> OverSpdy:
        """Return the channels as soon as the client has opened all that are wanted."""
        numbers = {name: channel for channel, name in NAMES.items()}
        streams: dict[int, Stream] = {}
        while not set(wanted) <= set(streams):
            stream = await connection.accepted.get()
            if stream is None:
                raise ConnectionError(f"the client has opened the channels {sorted(streams)} of {sorted(wanted)}")
            streams[numbers[stream.headers["streamtype"]]] = stream
        return cls(connection, streams)

    async def received(self, channel: int) -> AsyncIterator[bytes]:
        async for data in self._streams[channel]:
            yield data

    async def write(self, channel: int, data: bytes) -> None:
        await self._streams[channel].write(data)

    async def finish(self, status: Mapping[str, Any]) -> None:
        await self.write(ERROR, orjson.dumps(status))
        for stream in self._streams.values():
            await stream.end()
        await self._connection.go_away()


class OverWebsocket:
    """Channels whose number is the first byte of each message."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._received: dict[int, asyncio.Queue[bytes | None]] = {
            channel: asyncio.Queue() for channel in (STDIN, RESIZE)
        }

    async def read(self) -> None:
        """Pass on messages until the other side has gone."""
        try:
            while (message := await self._message()) is not None:
                if message[:1] and message[0] in self._received and message[1:]:
                    self._received[message[0]].put_nowait(message[1:])
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            for queue in self._received.values():
                queue.put_nowait(None)

    async def received(self, channel: int) -> AsyncIterator[bytes]:
        while (data := await self._received[channel].get()) is not None:
            yield data

    async def write(self, channel: int, data: bytes) -> None:
        await self._send(_BINARY, bytes((channel,)) + data)

    async def finish(self, status: Mapping[str, Any]) -> None:
        await self.write(ERROR, orjson.dumps(status))
        await self._send(_CLOSE, struct.pack(">H", 1000))

    async def _message(self) -> bytes | None:
        """Return the next message; None: the client closes. Parts of a message are messages for its reader."""
        while True:
            head, length = await self._reader.readexactly(2)
            if (length & 0x7F) == 126:
                (size,) = struct.unpack(">H", await self._reader.readexactly(2))
            elif (length & 0x7F) == 127:
                (size,) = struct.unpack(">Q", await self._reader.readexactly(8))
            else:
                size = length & 0x7F
            mask = await self._reader.readexactly(4)
            masked = await self._reader.readexactly(size)
            data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(masked))
            if head & 0x0F == _CLOSE:
                return None
            if head & 0x0F == _PING:
                await self._send(_PONG, data)
            elif head & 0x0F != _PONG:
                return data

    async def _send(self, kind: int, data: bytes) -> None:
        size = len(data)
        long = struct.pack(">BH", 126, size) if size < 1 << 16 else struct.pack(">BQ", 127, size)
        self._writer.write(bytes((_FINAL | kind,)) + (bytes((size,)) if size < 126 else long) + data)
        await self._writer.drain()


def accept_key(key: str) -> str:
    """Return the header with which a server accepts a websocket."""
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode()
