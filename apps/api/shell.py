"""The ASGI application: Django in threads, watches on the event loop.

A request's body is read here, with its limit and deadline, before a thread is taken; a watch is authorised by its view
in a thread and then lives here, where a thousand of them cost a thousand queues and no thread.
"""

from __future__ import annotations

import asyncio
import io
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import orjson
from django.db import close_old_connections

from apps.api.clock import ticks
from apps.api.listening import Listening
from apps.api.streams import Stream, WatchResponse
from apps.api.tailer import BOOKMARK_SECONDS, CHUNK, CatchUp, Event, Tailer, Watcher, shown
from apps.objects.listing import changes_between
from controlplane.errors import BadRequest, StatusError, TooLarge, TooManyRequests
from controlplane.wire.body import MAX_BYTES
from controlplane.wire.status import status_of
from controlplane.wire.watch import ADDED, error_frame

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Wsgi = Callable[..., Iterable[bytes]]
Headers = list[tuple[bytes, bytes]]

BODY_SECONDS = 60.0  # a client has this long to send its body
MAX_DRAINED = 32 * 1024 * 1024  # bytes of a body that is too large; then the connection is closed
MAX_WAITING = 1000  # requests in line for a thread; more are told to come back
INITIAL_CHUNK = 200  # objects sent at once when a watch begins with the present state


class Reply(NamedTuple):
    """What Django answered, whole; or the stream it allowed."""

    status: int
    headers: Headers
    body: bytes
    stream: Stream | None = None


class Disconnected(Exception):
    """The client is gone."""


class Shell:
    """The application a server runs. `threads` are as many as there are database connections to use."""

    def __init__(self, wsgi: Wsgi, *, threads: int) -> None:
        self.wsgi = wsgi
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="django")
        self.waiting = 0
        self.tailer: Tailer | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            raise RuntimeError(f"{scope['type']} is not served")

    def end_streams(self) -> None:
        """Let every watch end soon, and those that are still to come; may be called by a handler of signals."""
        if self.tailer is not None:
            self.tailer.loop.call_soon_threadsafe(self.tailer.end_streams)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self.tailer = Tailer()
        self.tailer.start()
        listening = Listening()
        listening.start()
        _before_shutdown(self.end_streams)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.tailer.stop()
        await asyncio.to_thread(listening.stop)
        self.pool.shutdown(wait=True)
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if "\0" in scope["path"] or b"%00" in scope["query_string"]:
                raise BadRequest("the URL holds a NUL character, which no name and no value can")
            body = await _body(scope, receive)
            reply = await self._ask_django(environ_of(scope, body))
            if reply.stream is not None:
                await self._stream(reply.stream, receive, send)
                return
        except Disconnected:
            return
        except StatusError as error:
            reply = _failed(error)
        headers = [*reply.headers]
        if not any(name == b"content-length" for name, _ in headers):
            headers.append((b"content-length", str(len(reply.body)).encode()))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})

    async def _ask_django(self, environ: dict[str, Any]) -> Reply:
        if self.waiting >= MAX_WAITING:
            raise TooManyRequests("the server has too much to do; try again", retry_after_seconds=1)
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.pool, self._call, environ)
        finally:
            self.waiting -= 1

    def _call(self, environ: dict[str, Any]) -> Reply:
        started: list[Any] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[..., None]:
            started[:] = [int(status[:3]), [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in headers]]
            return lambda data: None

        response: Any = self.wsgi(environ, start_response)
        try:
            if isinstance(response, WatchResponse):
                return Reply(200, [], b"", response.stream)
            return Reply(started[0], started[1], b"".join(response))
        finally:
            close = getattr(response, "close", None)
            if close is not None:
                close()

    # Streams

    async def _stream(self, stream: Stream, receive: Receive, send: Send) -> None:
        assert self.tailer is not None, "the server has to run the lifespan protocol: uvicorn --lifespan on"
        watcher = Watcher(stream)
        await self.tailer.add(watcher)
        listener = asyncio.create_task(_until_disconnect(receive, watcher))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
            await self._feed(watcher, _sender(watcher, send))
            await send({"type": "http.response.body", "body": b""})
        except asyncio.CancelledError:
            if not watcher.ended:
                raise
        finally:
            self.tailer.remove(watcher)
            listener.cancel()

    async def _feed(self, watcher: Watcher, write: Callable[[bytes], Awaitable[None]]) -> None:
        stream = watcher.stream
        if stream.error is not None:
            await write(error_frame(stream.error))
            return
        await write(b"")  # the headers go out now, not with the first event
        for start in range(0, len(stream.initial), INITIAL_CHUNK):
            part = stream.initial[start : start + INITIAL_CHUNK]
            await write(b"".join([shown(stream, ADDED, text, definitions=watcher.defines()) for text in part]))
        stream.initial = []
        if stream.ends_initial:
            await write(watcher.bookmark(stream.since, initial_events_end=True))
        while True:
            await watcher.ready.wait()
            watcher.ready.clear()
            await self._drain(watcher, write)
            if watcher.error is not None:
                await write(error_frame(watcher.error))
            if watcher.ended:
                return

    async def _drain(self, watcher: Watcher, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Send what is in the queue, and a bookmark where one is due."""
        lines: list[bytes] = []
        while watcher.pending:
            item = watcher.pending.popleft()
            if isinstance(item, CatchUp):
                await self._catch_up(watcher, item.version, lines, write)
            else:
                _take(watcher, item, lines)
            if len(lines) >= INITIAL_CHUNK:
                await write(b"".join(lines))
                lines.clear()
        assert self.tailer is not None
        if watcher.stream.bookmarks and ticks() >= watcher.bookmark_at and not watcher.ended:
            watcher.bookmark_at = ticks() + BOOKMARK_SECONDS
            lines.append(watcher.bookmark(max(watcher.seen, self.tailer.position)))
        if lines:
            await write(b"".join(lines))

    async def _catch_up(
        self, watcher: Watcher, until: int, lines: list[bytes], write: Callable[[bytes], Awaitable[None]]
    ) -> None:
        """Send what the log holds between what the stream has seen and a version."""
        loop = asyncio.get_running_loop()
        while watcher.seen < until:
            found = await loop.run_in_executor(self.pool, _history, watcher.stream.kind, watcher.seen, until)
            for change in found:
                _take(watcher, Event(change), lines)
            if lines:
                await write(b"".join(lines))
                lines.clear()
            if len(found) < CHUNK:
                watcher.seen = max(watcher.seen, until)


def _take(watcher: Watcher, event: Event, lines: list[bytes]) -> None:
    """Add the line of an event the stream has not seen yet."""
    version = event.change.version
    if version <= watcher.seen:
        return
    watcher.seen = version
    told = event.judged(watcher.stream)
    if told:
        lines.append(event.frame(watcher.stream, told, definitions=watcher.defines()))


def _history(kind: str, since: int, until: int) -> list[Any]:
    try:
        return changes_between([kind], since, until, limit=CHUNK)
    finally:
        close_old_connections()


async def _until_disconnect(receive: Receive, watcher: Watcher) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    watcher.end(now=True)


def _sender(watcher: Watcher, send: Send) -> Callable[[bytes], Awaitable[None]]:
    async def write(data: bytes) -> None:
        watcher.sending = True
        await send({"type": "http.response.body", "body": data, "more_body": True})
        watcher.sending = False

    return write


_STREAM_HEADERS: Headers = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-cache, private"),
    (b"x-content-type-options", b"nosniff"),
]


async def _body(scope: Scope, receive: Receive) -> bytes:
    """Return the body. Raises TooLarge, BadRequest where it does not come, Disconnected.

    What is too large is read and thrown away for a while: a client that is still sending does not hear an answer.
    """
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Disconnected
                part = message.get("body", b"")
                size += len(part)
                if size <= MAX_BYTES:
                    parts.append(part)
                else:
                    parts.clear()
                if size > MAX_DRAINED or not message.get("more_body"):
                    break
    except TimeoutError:
        raise BadRequest(f"the body did not arrive within {BODY_SECONDS:g} s") from None
    if size > MAX_BYTES:
        raise TooLarge(f"the body has more than {MAX_BYTES} bytes, which is the limit")
    return b"".join(parts)


def environ_of(scope: Scope, body: bytes) -> dict[str, Any]:
    """Return the WSGI environment of a request. Headers with underscores are dropped: they could pose as others."""
    server = scope.get("server") or ("localhost", 80)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": scope.get("root_path", ""),
        "PATH_INFO": scope["path"].encode().decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1] or 0),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    if scope.get("client"):
        environ["REMOTE_ADDR"] = scope["client"][0]
        environ["REMOTE_PORT"] = str(scope["client"][1])
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1")
        if "_" in name or name == "content-length":
            continue
        key = "CONTENT_TYPE" if name == "content-type" else "HTTP_" + name.upper().replace("-", "_")
        text = value.decode("latin-1")
        if key in environ:
            text = f"{environ[key]}{'; ' if name == 'cookie' else ','}{text}"
        environ[key] = text
    return environ


def _failed(error: StatusError) -> Reply:
    headers: Headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    if error.details.retry_after_seconds:
        headers.append((b"retry-after", str(error.details.retry_after_seconds).encode()))
    return Reply(error.code, headers, orjson.dumps(status_of(error)))


def _before_shutdown(call: Callable[[], None]) -> None:
    """Call something when the process is told to end, before the server waits for open requests."""
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)

        def handle(received: int, stack: Any, before: Any = before) -> None:
            call()
            if callable(before):
                before(received, stack)

        try:
            signal.signal(number, handle)
        except ValueError:  # not the main thread: whoever started us ends the streams
            return
