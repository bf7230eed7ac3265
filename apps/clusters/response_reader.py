"""Reading what a member sends, within limits: bytes, decompressed bytes, JSON values, depth, and time of the process.

A member is another party. Whatever it sends must cost a bounded amount of memory, and must not keep the event loop from
the other members.
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
VALUES = 500_000  # JSON values in one answer: each costs the parser up to 90 bytes, also where it is sent as two
AT_ONCE = 8  # so many answers of the longest kind may be under way for one member
SHARE = 0.2  # part of the process's time that one member may use in the long run
SHARE_BURST = 0.5  # seconds of it that a member may use at once
PARSE_BYTES = 8_192
PARSE_SECONDS = 0.01
_GZIP = 31  # of zlib: a gzip header with the largest window
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


class TooMuch(Exception):
    """A member exceeded a limit; the message names the limit and its value."""


class Share:
    """The processor time of the event loop that one member may use. What is used beyond it, the member waits for.

    Parsing, decompressing and comparing happen in the one event loop of the process. A member that sends as fast as
    the network carries would otherwise use all of it.
    """

    def __init__(self, *, share: float = SHARE, burst: float = SHARE_BURST) -> None:
        self._share, self._burst = share, burst
        self._left, self._at = burst, monotonic()

    @contextmanager
    def used(self) -> Iterator[None]:
        """Charge the member with the time that the block takes."""
        began = thread_time()
        try:
            yield
        finally:
            self._left -= thread_time() - began

    def wait_seconds(self) -> float:
        """Return how long nothing more of the member may be looked at; 0 while its time is not used up."""
        now = monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._share)
        self._at = now
        return max(0.0, -self._left / self._share)

    async def turn(self) -> None:
        """Wait until the member may use more time."""
        if seconds := self.wait_seconds():
            await asyncio.sleep(seconds)


class Account:
    """What answers under way of one member hold in memory, and the time it uses."""

    def __init__(self, *, longest: int) -> None:
        self.longest = longest
        self.share = Share()
        self._held = 0

    def hold(self, size: int) -> None:
        """Count bytes that are in memory. Raises TooMuch where all answers under way are too many."""
        if self._held + size > self.longest * AT_ONCE:
            raise TooMuch(f"answers under way are larger than {_size(self.longest * AT_ONCE)} together")
        self._held += size

    def free(self, size: int) -> None:
        """Count bytes that were given back."""
        self._held -= size


async def whole(response: aiohttp.ClientResponse, account: Account, *, limit: int) -> bytes:
    """Return the body of an answer, decompressed. Raises TooMuch beyond `limit`, ValueError where it is broken."""
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
    """Yield the lines of a stream that are not empty. Raises TooMuch where one is longer than an answer may be."""
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise ValueError("a compressed watch was not asked for")
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
    """Yield what has arrived of a body. A buffer of many small pieces takes time to be put together."""
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
        raise ValueError(f"the answer is compressed with {encoding[:40]!r}, and only gzip was offered")
    inflate = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
    async for chunk in _chunks(response, account):
        if inflate is None:
            yield chunk
            continue
        while chunk:
            if inflate.eof:
                raise ValueError("the answer goes on after the end of its gzip")
            with account.share.used():
                try:
                    part = inflate.decompress(chunk, limit + 1)
                except zlib.error as error:
                    raise ValueError(f"the answer is no gzip: {error}") from None
            chunk = inflate.unconsumed_tail
            if part:
                yield part
    if inflate is not None and not inflate.eof:
        raise ValueError("the answer is cut off")


def decoded(raw: bytes) -> Any:
    """Return JSON as data, without NUL: PostgreSQL stores no such character, and refuses the whole batch.

    Raises TooMuch where there are too many values, ValueError where it is no JSON or is nested too deeply.
    """
    if _values(raw) > VALUES and _values(_STRINGS.sub(b"", raw)) > VALUES:
        raise TooMuch(f"the answer has more than {VALUES:,} JSON values")
    said = orjson.loads(raw)
    try:
        return without_nul(said) if b"\\u0000" in raw else said
    except RecursionError:
        raise ValueError("the answer is nested too deeply") from None


def encoded(item: Any) -> bytes:
    """Return data as JSON. Raises ValueError where it is nested too deeply to be stored."""
    try:
        return orjson.dumps(item)
    except orjson.JSONEncodeError as error:
        raise ValueError(f"cannot be kept: {error}") from None


def without_nul(said: Any) -> Any:
    """Return data with a space for each NUL."""
    if isinstance(said, str):
        return said.replace("\0", " ")
    if isinstance(said, dict):
        return {without_nul(name): without_nul(one) for name, one in said.items()}
    return [without_nul(one) for one in said] if isinstance(said, list) else said


def _values(raw: bytes) -> int:
    """Return at most how many values JSON has; fewer where its strings hold commas or brackets."""
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{") + 1


def _size(limit: int) -> str:
    return f"{limit / MEBIBYTE:g} MiB" if limit >= MEBIBYTE else f"{limit / 1024:g} KiB"


class Charged(ResponseHandler):
    """A connection whose parsing is charged to its member, in small steps with pauses where it has used too much time.

    Headers, chunk sizes and interim answers (1xx) are parsed as they arrive, before other code of ours sees them. One
    buffer full of them takes seconds.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, account: Account, *, writer: object = None) -> None:
        super().__init__(loop)
        self._account = account
        self._writer = writer  # of a connection through SOCKS: closes it when it is collected
        self._rest = b""
        self._waits = False

    def data_received(self, data: bytes) -> None:
        self._rest += data
        if not data:
            super().data_received(data)  # aiohttp goes on with what it has
        elif not self._waits:
            self._parse()

    def _resume_transport_reading(self) -> None:
        """Resume reading, which aiohttp wants once its buffers are read, unless something is left to be parsed."""
        if not self._waits:
            super()._resume_transport_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._rest = b""
        super().connection_lost(exc)

    def _parse(self) -> None:
        """Parse what has arrived, for at most PARSE_SECONDS; pause the connection while some is left."""
        self._waits, share = False, self._account.share
        with share.used():
            ends = thread_time() + PARSE_SECONDS
            while self._rest and thread_time() < ends and not self._reading_paused:
                step, self._rest = self._rest[:PARSE_BYTES], self._rest[PARSE_BYTES:]
                super().data_received(step)
        seconds = share.wait_seconds()
        if self.transport is None or self.transport.is_closing():
            self._rest = b""
        elif self._rest or seconds:
            self._waits = True
            self.transport.pause_reading()
            self._loop.call_later(max(seconds, PARSE_SECONDS), self._parse)
        elif not self._reading_paused and not self._buffer_paused:
            self._resume_transport_reading()
