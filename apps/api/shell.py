"""The ASGI application: Django runs in threads, watches run on the event loop.

The body of a request is read here, within its limits, before a thread is used. A watch is authorised by its view in a
thread and then served here, so that a thousand watches need a thousand queues and no thread.

Health checks are answered here as well: /livez without a thread or the database, /readyz in a separate thread and
within a time limit. Writes use only a part of the threads, so that reads go on while the database accepts no writes.
"""

from __future__ import annotations

import asyncio
import logging
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple, TypeVar

import orjson
from django.conf import settings

from apps.api import authorization, callers, lean
from apps.api.auditing import record_late, record_refused
from apps.api.budget import Budget
from apps.api.direct import Direct
from apps.api.fairness import Clients, Rates, Turns
from apps.api.feeding import Feeding
from apps.api.health import HEALTH, unanswered
from apps.api.heartbeat_intake import Listening
from apps.api.incoming import Disconnected, Incoming, Receive, Scope, body_of, environ_of
from apps.api.last_use import LAST_USES
from apps.api.oidc import PROVIDER
from apps.api.outgoing import LOST, SLICE, WRITE, Headers, Send, Stalled, send_parts, send_whole
from apps.api.permissions import check_probe
from apps.api.proxy import PATTERN, Proxied, ProxyResponse
from apps.api.proxying import Proxying
from apps.api.pushes import Push, PushResponse
from apps.api.remembered import READS, REMEMBERED, may_end_credentials
from apps.api.streams import Stream, WatchResponse
from apps.api.tunnels import ABORT
from apps.api.unpacking import ENCODING, unpacked
from apps.api.watch_hub import Tailer, Watcher
from apps.objects.audit import Trail
from apps.objects.audit_queue import QUEUE
from apps.objects.decision_log import log_refusal
from controlplane.apimachinery.errors import BadRequest, ServiceUnavailable, StatusError, TooManyRequests
from controlplane.wire.negotiate import go_bool
from controlplane.wire.status import status_of

log = logging.getLogger(__name__)

Wsgi = Callable[..., Iterable[bytes]]

BUSY_SECONDS = 5  # Retry-After while the database accepts no writes
ENDED_SECONDS = 1  # Retry-After of a request that a process has not answered at its end
READY_SECONDS = 5.0  # /readyz answers within this time
READERS = 2  # threads that writes do not use
ALIVE = frozenset({"/livez", "/livez/", "/healthz", "/healthz/"})
READY = frozenset({"/readyz", "/readyz/"})
_PROXY = re.compile(PATTERN)

T = TypeVar("T")


class FullReply(NamedTuple):
    """Django's complete answer, or the stream, push or request to a member that the view authorised."""

    status: int
    headers: Headers
    body: bytes
    stream: Stream | None = None
    push: Push | None = None
    proxied: Proxied | None = None
    user: str = ""  # whose budget the answer counts against while it is sent; "": callers without a login
    trail: Trail | None = None  # for a late refusal of what the view authorised


class Shell:
    """The ASGI application.

    `threads`: the number of threads, at most the number of database connections. `buffer`: bytes of requests and
    answers that may be in progress together. A user may use half of them, all callers without a login an eighth.
    `waiting`: requests of one client that may wait for a thread; clients take turns. `per_second`: requests of one
    client in a second (0: as many as come).
    """

    def __init__(self, wsgi: Wsgi, *, threads: int, buffer: int, waiting: int = 250, per_second: int = 0) -> None:
        self.wsgi = wsgi
        self.budget = Budget(limit=buffer, share=buffer // 2, anonymous=buffer // 8)
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="django")
        self.health = ThreadPoolExecutor(1, thread_name_prefix="health")
        self.clients = Clients()
        self.running = Turns(threads, per_client=waiting)
        self.writing = Turns(max(1, threads - READERS), per_client=waiting)
        self.rates = Rates(per_second)
        self.direct = Direct(self.pool, per_client=waiting, rates=self.rates)
        self.number = 0  # which of the processes of one `manage.py serve` this is
        self.tailer: Tailer | None = None
        self.feeding: Feeding | None = None
        self.proxying = Proxying()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            raise RuntimeError(f"{scope['type']} is not served")

    def end_streams(self) -> None:
        """End all watches, also those that begin later. Signal handlers may call this."""
        if self.tailer is not None:
            self.tailer.loop.call_soon_threadsafe(self.tailer.end_streams)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self.tailer = Tailer()
        self.tailer.start()
        self.feeding = Feeding(self.tailer, self.pool)
        listening = Listening(self.number)
        await asyncio.to_thread(listening.start)
        LAST_USES.start()
        PROVIDER.start()
        _before_shutdown(self.end_streams)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.tailer.stop()
        await self.proxying.close()
        await asyncio.to_thread(listening.stop)
        await asyncio.to_thread(LAST_USES.stop)
        PROVIDER.stop()
        await asyncio.to_thread(QUEUE.stop)
        self.direct.close()
        self.pool.shutdown(wait=True)
        self.health.shutdown(wait=False, cancel_futures=True)
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if _PROXY.match(scope["path"].removeprefix("/")):
                await self._proxy(scope, receive, send)
                return
            try:
                reply = await self._reply(scope, receive)
            except asyncio.CancelledError:  # by the server, after the time that it gives open requests at its end
                reply = _failed(_ends())
            try:
                if reply.stream is not None:
                    await self._stream(reply.stream, scope, send)
                elif reply.push is not None:
                    await self._push(reply.push, scope, send)
                else:
                    await self._send(reply, send)
            except TooManyRequests as error:  # the user has too many watches, and the answer to this one has not begun
                record_late(reply.trail, error)
                await self._send(_failed(error), send)
        except Disconnected:
            return
        except Stalled:
            log.info("disconnected a client that did not read its answer: %s %s", scope["method"], scope["path"])
            if abort := scope.get("extensions", {}).get(ABORT):
                abort["now"]()

    async def _reply(self, scope: Scope, receive: Receive) -> FullReply:
        """Return the answer to a request. Raises Disconnected."""
        try:
            if "\0" in scope["path"] or b"%00" in scope["query_string"]:
                raise BadRequest("the URL contains a NUL character, which names and values cannot contain")
            if scope["path"] in ALIVE | READY:
                check_probe(scope["method"], scope["path"])
                return _plain(scope, 200, "ok") if scope["path"] in ALIVE else await self._ready(scope)
            self.rates.check(self.clients.of(scope))
            body = await body_of(receive, budget=self.budget, identify=lambda: self._identify(scope))
            request, body = await unpacked(scope, body, identify=lambda: self._identify(scope))
            try:
                async with self._write_slot(scope):
                    reply = await self._in_thread(self._call, request, body.data)
                if reply.user:
                    self.clients.remember(scope, reply.user)
                return reply
            finally:
                body.hold.release()
        except StatusError as error:
            if scope["method"] not in ("GET", "HEAD", "OPTIONS"):
                log_refusal(error, actor="", way=f"{scope['method']} {scope['path']}")
            record_refused(scope, error)
            return _failed(error)

    async def _proxy(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authorise a request to a member in a thread, without its body, and pass it on."""
        assert self.tailer is not None, "the server has to run the lifespan protocol: uvicorn --lifespan on"
        incoming = Incoming(receive)
        reply = await self._authorised(scope)
        if reply.proxied is not None:
            try:
                await self.proxying.serve(reply.proxied, self.tailer, scope, incoming, send)
                return
            except StatusError as error:
                record_late(reply.trail, error)
                reply = _failed(error)
        await incoming.discard()
        await self._send(reply, send)

    async def _authorised(self, scope: Scope) -> FullReply:
        """Return the authorised request to a member, or the answer that refuses it."""
        try:
            self.rates.check(self.clients.of(scope))
            headers = [(name, value) for name, value in scope["headers"] if name != ENCODING]  # is for the member
            reply = await self._in_thread(self._call, {**scope, "headers": headers}, b"")
        except StatusError as error:
            record_refused(scope, error)
            return _failed(error)
        if reply.user:
            self.clients.remember(scope, reply.user)
        return reply

    async def _send(self, reply: FullReply, send: Send) -> None:
        """Send a complete answer. A large answer counts against the user's budget until it is sent. Raises Stalled."""
        hold = self.budget.hold(reply.user)
        try:
            if len(reply.body) > SLICE:
                hold.grow(len(reply.body))
        except TooManyRequests as error:
            reply = _failed(error)
        headers = [*reply.headers]
        if not any(name == b"content-length" for name, _ in headers):
            headers.append((b"content-length", str(len(reply.body)).encode()))
        try:
            await send_whole(send, reply.status, headers, reply.body)
        finally:
            hold.release()

    async def _ready(self, scope: Scope) -> FullReply:
        """Return the answer of /readyz. Checks that take too long are reported as a problem."""
        if (query := lean.query_of(scope["query_string"].decode("latin-1"))) is None:
            raise BadRequest("the URL has too many parameters")
        verbose = go_bool("verbose", query.get("verbose"))
        checks = asyncio.get_running_loop().run_in_executor(self.health, HEALTH.report)
        try:
            async with asyncio.timeout(READY_SECONDS):
                report = await asyncio.shield(checks)
        except TimeoutError:
            report = unanswered(READY_SECONDS)
        return _plain(scope, *report.response(verbose=verbose))

    async def _identify(self, scope: Scope) -> str:
        return await self._in_thread(callers.name_of, scope, b"")

    async def _in_thread(self, function: Callable[[dict[str, Any]], T], scope: Scope, body: bytes) -> T:
        """Run a function with the WSGI environment of a request, when the client has its turn."""
        async with self.running.turn(self.clients.of(scope)):
            environ = environ_of(scope, body)
            return await asyncio.get_running_loop().run_in_executor(self.pool, function, environ)

    @asynccontextmanager
    async def _write_slot(self, scope: Scope) -> AsyncIterator[None]:
        """Wait until a write may use a thread. Raises ServiceUnavailable after DATABASE_LOCK_SECONDS."""
        if scope["method"] in READS:
            yield
            return
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(settings.DATABASE_LOCK_SECONDS):
                    await held.enter_async_context(self.writing.turn(self.clients.of(scope)))
            except TimeoutError:
                raise _writes_wait() from None
            yield

    def _call(self, environ: dict[str, Any]) -> FullReply:
        """Answer one request, in a thread: the lean way, or else with Django's."""
        reply = None
        try:
            if (reply := lean.answer(environ)) is None:
                return self._full(environ)
            return FullReply(reply.status, reply.headers, reply.body, user=reply.user)
        finally:
            if may_end_credentials(environ, is_object=reply is not None):
                REMEMBERED.forget()  # before the answer, so that a revocation holds when its author reads of it

    def _full(self, environ: dict[str, Any]) -> FullReply:
        """Answer one request with Django. A stream is authorised here again, whichever view returned it."""
        started: list[Any] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[..., None]:
            started[:] = [int(status[:3]), [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in headers]]
            return lambda data: None

        response: Any = self.wsgi(environ, start_response)
        try:
            if isinstance(response, WatchResponse):
                authorization.check(response.stream.allowed)
                return FullReply(200, [], b"", response.stream, trail=response.trail)
            if isinstance(response, PushResponse):
                authorization.check(response.push.allowed)
                return FullReply(200, [], b"", push=response.push, trail=response.trail)
            user = environ.get(callers.CALLER, "")
            if isinstance(response, ProxyResponse):
                authorization.check(response.proxied.allowed)
                return FullReply(200, [], b"", proxied=response.proxied, user=user, trail=response.trail)
            return FullReply(started[0], started[1], b"".join(response), user=user)
        finally:
            close = getattr(response, "close", None)
            if close is not None:
                close()

    # Streams

    async def _stream(self, stream: Stream, scope: Scope, send: Send) -> None:
        assert self.feeding is not None, "the server has to run the lifespan protocol: uvicorn --lifespan on"
        watcher = Watcher(stream)
        watcher.write = scope["extensions"].get(WRITE)
        await self.feeding.add(watcher)
        when_lost = scope["extensions"][LOST]
        when_lost(lambda: watcher.end(now=True))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
            await self.feeding.feed(watcher, _sender(watcher, send))
            await send({"type": "http.response.body", "body": b""})
        except asyncio.CancelledError:
            if not watcher.ended:
                raise
        finally:
            stream.initial = None  # also if the stream ended early: its bytes count until then
            self.feeding.remove(watcher)
            when_lost(None)

    async def _push(self, push: Push, scope: Scope, send: Send) -> None:
        """Send the events of a push until its client, its login, its deadline or the server ends it."""
        assert self.tailer is not None, "the server has to run the lifespan protocol: uvicorn --lifespan on"
        watcher = Watcher(push)
        await self.tailer.add(watcher)
        when_lost = scope["extensions"][LOST]
        when_lost(lambda: watcher.end(now=True))
        loop, write = asyncio.get_running_loop(), _sender(watcher, send)

        def wake() -> None:
            loop.call_soon_threadsafe(watcher.ready.set)

        push.source.open(wake)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _PUSH_HEADERS})
            while not watcher.ended:
                await write(push.source.take())  # first b"", which sends the headers
                await watcher.ready.wait()
                watcher.ready.clear()
            await send({"type": "http.response.body", "body": b""})
        except asyncio.CancelledError:
            if not watcher.ended:
                raise
        finally:
            push.source.close()
            self.tailer.remove(watcher)
            when_lost(None)


def _writes_wait() -> ServiceUnavailable:
    seconds = settings.DATABASE_LOCK_SECONDS
    return ServiceUnavailable(
        f"this write waited {seconds} s for earlier writes that do not finish; try again, and see /readyz?verbose for "
        "the state of the database",
        retry_after_seconds=BUSY_SECONDS,
    )


def _ends() -> ServiceUnavailable:
    return ServiceUnavailable(
        "this API process ends, and waits no longer for this request; a write may have been stored: read the object "
        "before you send it again",
        retry_after_seconds=ENDED_SECONDS,
    )


def _sender(watcher: Watcher, send: Send) -> Callable[[bytes], Awaitable[None]]:
    async def write(data: bytes) -> None:
        watcher.sending = True
        await send_parts(send, data, more=True)
        watcher.sending = False

    return write


_STREAM_HEADERS: Headers = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-cache, private"),
    (b"x-content-type-options", b"nosniff"),
]
_PUSH_HEADERS: Headers = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, private"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-accel-buffering", b"no"),
]


def _plain(scope: Scope, status: int, text: str) -> FullReply:
    body = b"" if scope["method"] == "HEAD" else text.encode()
    return FullReply(status, [(b"content-type", b"text/plain; charset=utf-8")], body)


def _failed(error: StatusError) -> FullReply:
    headers: Headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    if error.details.retry_after_seconds:
        headers.append((b"retry-after", str(error.details.retry_after_seconds).encode()))
    return FullReply(error.code, headers, orjson.dumps(status_of(error)))


def _before_shutdown(call: Callable[[], None]) -> None:
    """Call a function on SIGTERM and SIGINT, before the server waits for open requests."""
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)

        def handle(received: int, stack: Any, before: Any = before) -> None:
            call()
            if callable(before):
                before(received, stack)

        try:
            signal.signal(number, handle)
        except ValueError:  # not the main thread, which then ends the streams itself
            return
