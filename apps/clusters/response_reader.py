"""Reading responses of members within limits: bytes, decompressed bytes, JSON values, nesting, and processor time.

A member may be hostile. Whatever it sends, it must not use more than a fixed amount of memory, and it must not keep the
event loop from serving the other members.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from time import monotonic, thread_time
from typing import Any

import aiohttp
import orjson
from aiohttp.client_proto import ResponseHandler

MEBIBYTE = 1024 * 1024
PROBE_BYTES = 64 * 1024
VALUES = 500_000  # JSON values in one answer: a value of two bytes costs the parser up to 90 bytes of memory
AT_ONCE = 8  # answers of the largest size that may be in memory for one member
SHARE = 0.2  # part of the processor time of the event loop that one member may use on average
SHARE_BURST = 0.5  # seconds of processor time that a member may use at once
PARSE_BYTES = 8_192  # bytes that are parsed in one step
PARSE_SECONDS = 0.01  # seconds of parsing after which other members get their turn
_GZIP = 31  # zlib's wbits for a gzip header and the largest window
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


class TooMuch(Exception):
    """A member exceeded a limit. The message names the limit and its value."""


class Share:
    """The processor time of the event loop that one member may use: a bucket that fills with `share` seconds a second.

    If the bucket is empty, nothing more of the member is read until it has filled again. Parsing, decompressing and
    comparing happen in the only event loop of the process. Without this limit, a member that sends as fast as the
    network allows would use all of its time.
    """

    def __init__(self, *, share: float = SHARE, burst: float = SHARE_BURST) -> None:
        self._share, self._burst = share, burst
        self._left, self._at = burst, monotonic()

    @contextmanager
    def used(self) -> Iterator[None]:
        """Take the processor time of the `with` block from the member's share."""
        began = thread_time()
        try:
            yield
        finally:
            self._left -= thread_time() - began

    def wait_seconds(self) -> float:
        """Return how long nothing more of the member may be read; 0: its time is not used up."""
        now = monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._share)
        self._at = now
        return max(0.0, -self._left / self._share)

    async def turn(self) -> None:
        """Wait until the member may use more time."""
        if seconds := self.wait_seconds():
            await asyncio.sleep(seconds)


class Account:
    """The memory that unfinished answers of one member use, and the member's share of processor time."""

    def __init__(self, *, longest: int) -> None:
        self.longest = longest
        self.share = Share()
        self._held = 0

    def hold(self, size: int) -> None:
        """Count bytes that are kept in memory. Raises TooMuch if the member's unfinished answers take too much."""
        if self._held + size > self.longest * AT_ONCE:
            raise TooMuch(f"unfinished answers are larger than {_size(self.longest * AT_ONCE)} together")
        self._held += size

    def free(self, size: int) -> None:
        """Count bytes that are no longer in memory."""
        self._held -= size


async def whole(response: aiohttp.ClientResponse, account: Account, *, limit: int) -> bytes:
    """Return the body of an answer, decompressed. Raises TooMuch above `limit` bytes, ValueError if it is malformed."""
    parts, size = list[bytes](), 0
    try:
        async for part in _decompressed(response, account, limit=limit):
            size += len(part)
            if size > limit:
                raise TooMuch(f"the answer is larger than {_size(limit)}")
            account.hold(len(part))
            parts.append(part)
        return b"".join(parts)
    finally:
        account.free(sum(map(len, parts)))


async def lines(response: aiohttp.ClientResponse, account: Account) -> AsyncIterator[bytes]:
    """Yield the lines of a stream that are not empty. Raises TooMuch if a line is longer than an answer may be."""
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise ValueError("the watch is compressed, although the request asked for no compression")
    parts, size = list[bytes](), 0
    try:
        async for chunk in _chunks(response, account):
            *ended, rest = chunk.split(b"\n")
            for line in ended:
                whole_line = b"".join((*parts, line))
                account.free(size)
                parts, size = [], 0
                if whole_line:
                    yield whole_line
            if size + len(rest) > account.longest:
                raise TooMuch(f"a line of the watch is longer than {_size(account.longest)}")
            account.hold(len(rest))
            parts.append(rest)
            size += len(rest)
    finally:
        account.free(size)


async def _chunks(response: aiohttp.ClientResponse, account: Account) -> AsyncIterator[bytes]:
    """Yield the parts of a body as they arrive. Joining many small pieces counts against the member's share."""
    content = response.content
    while True:
        await account.share.turn()
        with account.share.used():
            chunk = content.read_nowait()
        if not chunk and not content.at_eof():
            chunk = await content.readany()
        if chunk:
            yield chunk
        elif content.at_eof():
            return


async def _decompressed(response: aiohttp.ClientResponse, account: Account, *, limit: int) -> AsyncIterator[bytes]:
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise ValueError(f"the answer is compressed with {encoding[:40]!r}, although only gzip is accepted")
    inflate = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
    async for chunk in _chunks(response, account):
        if inflate is None:
            yield chunk
            continue
        while chunk:
            if inflate.eof:
                raise ValueError("the answer continues after the end of its gzip data")
            with account.share.used():
                try:
                    part = inflate.decompress(chunk, limit + 1)
                except zlib.error as error:
                    raise ValueError(f"the answer is not valid gzip: {error}") from None
            chunk = inflate.unconsumed_tail
            if part:
                yield part
    if inflate is not None and not inflate.eof:
        raise ValueError("the answer ends before the end of its gzip data")


def decoded(raw: bytes) -> Any:
    """Return JSON as data, with a space for each NUL. PostgreSQL refuses a whole batch because of one NUL.

    Raises TooMuch if there are too many values, and ValueError if it is not JSON or is nested too deeply.
    """
    if _values(raw) > VALUES and _values(_STRINGS.sub(b"", raw)) > VALUES:
        raise TooMuch(f"the answer has more than {VALUES:,} JSON values")
    data = orjson.loads(raw)
    try:
        return without_nul(data) if b"\\u0000" in raw else data
    except RecursionError:
        raise ValueError("the answer is nested too deeply") from None


def encoded(item: Any) -> bytes:
    """Return data as JSON. Raises ValueError if it is nested too deeply to be stored."""
    try:
        return orjson.dumps(item)
    except orjson.JSONEncodeError as error:
        raise ValueError(f"the answer cannot be stored: {error}") from None


def without_nul(data: Any) -> Any:
    """Return data with a space for each NUL."""
    if isinstance(data, str):
        return data.replace("\0", " ")
    if isinstance(data, dict):
        return {without_nul(name): without_nul(value) for name, value in data.items()}
    return [without_nul(value) for value in data] if isinstance(data, list) else data


def _values(raw: bytes) -> int:
    """Return an upper bound of the number of values in JSON. Commas and brackets in strings count as values too."""
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{") + 1


def _size(limit: int) -> str:
    return f"{limit / MEBIBYTE:g} MiB" if limit >= MEBIBYTE else f"{limit / 1024:g} KiB"


class Charged(ResponseHandler):
    """A connection whose parsing counts as time of its member: in small steps, with pauses if the time is used up.

    aiohttp parses headers, chunk sizes and interim responses (1xx) as they arrive, before any other limit applies. A
    full buffer of them takes seconds.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, account: Account, *, writer: object = None) -> None:
        super().__init__(loop)
        self._account = account
        self._writer = writer  # of a connection through SOCKS: kept here, because it closes the connection when freed
        self._rest = b""
        self._waits = False
        self._steps = False  # aiohttp is at work with a step
        self._lost: tuple[BaseException | None] | None = None  # the member has closed the connection, and why

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let TLS read nothing while this is paused: uvloop discards what TLS holds when the member closes."""
        super().connection_made(transport)
        if limit := getattr(transport, "set_read_buffer_limits", None):
            limit(1, 0)

    def data_received(self, data: bytes) -> None:
        if self._steps:
            self._rest = data + self._rest  # what follows a 101: aiohttp gives it back, and it came before the rest
        elif not data:
            super().data_received(data)  # aiohttp continues with the data that it has
        else:
            self._rest += data
            if not self._waits:
                self._parse()

    def _drain_tail(self) -> None:
        """Take back what aiohttp kept until it knew who reads it. It came before the rest."""
        self._steps = True
        super()._drain_tail()
        self._steps = False
        if self._rest and not self._waits:
            self._parse()

    def _resume_transport_reading(self) -> None:
        """Resume reading when aiohttp has emptied its buffers, unless data is left to be parsed."""
        if not self._waits:
            super()._resume_transport_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Note that the member has closed the connection. aiohttp learns it when it has parsed all that has arrived."""
        if self._waits and self._rest:
            self._lost = (exc,)
        else:
            super().connection_lost(exc)

    def _parse(self) -> None:
        """Parse arrived data for at most PARSE_SECONDS, and pause the connection if some is left."""
        self._waits, share = False, self._account.share
        with share.used():
            ends = thread_time() + PARSE_SECONDS
            while self._rest and thread_time() < ends and not self._reading_paused:
                step, self._rest = self._rest[:PARSE_BYTES], self._rest[PARSE_BYTES:]
                self._steps = True
                super().data_received(step)
                self._steps = False
        seconds = share.wait_seconds()
        if self.transport is None or self.exception() is not None:  # closed on this side
            self._rest = b""
        if self._rest or (seconds and self._lost is None):
            self._waits = True
            self._pause_transport_reading()
            self._loop.call_later(max(seconds, PARSE_SECONDS), self._parse)
        elif self._lost is not None:
            super().connection_lost(*self._lost)
        elif not self._reading_paused and not self._buffer_paused:
            self._resume_transport_reading()
