"""SPDY/3.1 as kube-apiservers use it for kubelets: several streams in one connection that was switched to it.

Window updates and priorities are ignored, as Kubernetes ignores them.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

_VERSION: Final = 3
_CONTROL: Final = 0x8000_0000
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY, _HEADERS = 1, 2, 3, 6, 7, 8
_FIN: Final = 1
_MOST: Final = 0xFFFF  # bytes of data in a frame

# The words with which both sides begin the compression of headers; the protocol fixes them and their order.
_WORDS: Final = (  # noqa: SIM905 - shorter than a list
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
).split()
_MORE_WORDS: Final = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
_REST: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative "
    "Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 "
    "Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec "
    "00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset="
    "iso-8859-1,utf-,*,enq=0."
)
_NUMBER: Final = struct.Struct(">I")
DICTIONARY: Final = (
    b"".join(_NUMBER.pack(len(word)) + word.encode() for word in (*_WORDS, *_MORE_WORDS)) + _REST.encode()
)


class Stream:
    """A stream that the other side has opened. Iterate over it for what it sends."""

    def __init__(self, connection: Connection, number: int, headers: Mapping[str, str]) -> None:
        self.headers = headers
        self.number = number
        self._connection = connection
        self._received: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._ended = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (data := await self._received.get()) is not None:
            yield data

    def feed(self, data: bytes | None) -> None:
        """Take what has arrived. None: nothing more will."""
        if data is None or data:
            self._received.put_nowait(data)

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        for at in range(0, len(data), _MOST):
            await self._connection.send(self.number, 0, data[at : at + _MOST])

    async def end(self) -> None:
        """Say that nothing more is sent."""
        if not self._ended:
            self._ended = True
            await self._connection.send(self.number, _FIN, b"")


class Connection:
    """The side of the server. `accepted`: the streams that the other side has opened, in order; None: it has gone."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted: asyncio.Queue[Stream | None] = asyncio.Queue()
        self._reader, self._writer = reader, writer
        self._streams: dict[int, Stream] = {}
        self._inflating = zlib.decompressobj(zdict=DICTIONARY)
        self._deflating = zlib.compressobj(zdict=DICTIONARY)

    async def read(self) -> None:
        """Pass on frames until the other side has gone."""
        try:
            while True:
                first, second = struct.unpack(">II", await self._reader.readexactly(8))
                body = await self._reader.readexactly(second & 0xFF_FFFF)
                if first & _CONTROL:
                    await self._control(first & 0xFFFF, second >> 24, body)
                elif stream := self._streams.get(first):
                    stream.feed(body)
                    if second >> 24 & _FIN:
                        stream.feed(None)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self.accepted.put_nowait(None)
            for stream in self._streams.values():
                stream.feed(None)

    async def send(self, number: int, flags: int, data: bytes) -> None:
        """Send a frame of data."""
        await self._write(number, flags, data)

    async def go_away(self) -> None:
        """Say that no further stream is accepted."""
        last = max(self._streams, default=0)
        await self._write(_CONTROL | _VERSION << 16 | _GOAWAY, 0, struct.pack(">II", last, 0))

    async def _control(self, kind: int, flags: int, body: bytes) -> None:
        if kind == _SYN_STREAM:
            (number,) = _NUMBER.unpack_from(body)
            stream = self._streams[number] = Stream(self, number, self._headers(body[10:]))
            if flags & _FIN:
                stream.feed(None)
            none = self._deflating.compress(_NUMBER.pack(0)) + self._deflating.flush(zlib.Z_SYNC_FLUSH)
            await self._write(_CONTROL | _VERSION << 16 | _SYN_REPLY, 0, _NUMBER.pack(number) + none)
            self.accepted.put_nowait(stream)
        elif kind == _HEADERS:
            self._headers(body[4:])  # all blocks have to be read, because they share a compression
        elif kind == _RST_STREAM:
            (number,) = _NUMBER.unpack_from(body)
            if number in self._streams:
                self._streams.pop(number).feed(None)
        elif kind == _PING:
            await self._write(_CONTROL | _VERSION << 16 | _PING, 0, body)

    async def _write(self, first: int, flags: int, body: bytes) -> None:
        self._writer.write(struct.pack(">II", first, flags << 24 | len(body)) + body)
        await self._writer.drain()

    def _headers(self, block: bytes) -> dict[str, str]:
        """Return the headers of a block, by name in lower case."""
        plain = self._inflating.decompress(block)
        (count,) = _NUMBER.unpack_from(plain)
        at, texts = _NUMBER.size, []
        for _ in range(2 * count):
            (length,) = _NUMBER.unpack_from(plain, at)
            texts.append(plain[at + _NUMBER.size : at + _NUMBER.size + length].decode())
            at += _NUMBER.size + length
        return dict(zip(texts[::2], texts[1::2], strict=True))
