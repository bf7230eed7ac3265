"""Limits on connections before a request has arrived: their number, and the time and size of the headers.

uvicorn has no such limits. When there are too many connections, the connection that has been idle longest is closed.
A client that opens connections and sends nothing can therefore not keep other clients out.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from apps.api.client_certificates import CERTIFICATE, PEER
from apps.api.direct import Direct
from apps.api.outgoing import LOST, WRITE
from apps.api.tunnels import ABORT, TUNNEL, Tunnel
from apps.api.wakeup import Wakeup

log = logging.getLogger(__name__)

HEADER_SECONDS = 10.0  # from the first byte of a request, or from the connection, to the end of its headers
MAX_HEADERS = 64 * 1024  # bytes of the request line and headers
RESERVED_FILES = 128  # file descriptors for the database, logs and libraries
BODY_SECONDS = 0.05  # that the body of a small creation may come behind its headers, before a task waits for it
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Connections:
    """The open connections of one process. `limit` is lowered to the file descriptors that the process may open."""

    def __init__(self, limit: int) -> None:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.limit = max(min(limit, files - RESERVED_FILES), 1)
        self.open: set[GuardedProtocol] = set()
        self.idle: OrderedDict[GuardedProtocol, None] = OrderedDict()  # without a request, longest idle first

    def admit(self, connection: GuardedProtocol) -> bool:
        """Return whether a new connection is accepted. At the limit, the longest idle connection is closed instead."""
        if len(self.open) >= self.limit:
            if not self.idle:
                log.warning("refused a connection: %d are open and none is idle, which is the limit", self.limit)
                return False
            longest, _ = self.idle.popitem(last=False)
            self.open.discard(longest)
            longest.transport.abort()
        self.open.add(connection)
        self.idle[connection] = None
        return True

    def forget(self, connection: GuardedProtocol) -> None:
        """Remove a connection that is closed."""
        self.open.discard(connection)
        self.idle.pop(connection, None)


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol with limits. `guarded` returns the class for one process."""

    # uvicorn's attributes are in a dictionary with keys that all connections share. More than 30 are not shared.
    __slots__ = (
        *("certificate", "_in_headers", "_header_bytes", "_header_timer", "_arriving", "_without_body", "_body_timer"),
        *("_tunnel", "_when_lost", "_is_switched"),
    )

    connections_of_process: ClassVar[Connections]
    direct: ClassVar[Direct | None] = None  # None: all requests go to the application

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.certificate: bytes | None = None  # DER of the client's certificate, which TLS has verified
        self._in_headers = True  # of the next request, from before its first byte
        self._header_bytes = 0  # that arrived since the last chunk with the end of a request
        self._header_timer: asyncio.TimerHandle | None = None
        self._arriving = b""  # the bytes that are being parsed
        self._without_body: Callable[[], None] | None = None  # begins a creation whose body has not arrived
        self._body_timer: asyncio.TimerHandle | None = None
        self._tunnel: Tunnel | None = None  # None: no request has asked for another protocol
        self._when_lost: Callable[[], None] | None = None  # None: nothing but uvicorn has to know of the end
        self._is_switched = False  # True: what arrives is no HTTP any more

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow._is_writable_event = Wakeup(is_set=True)  # type: ignore[assignment]  # takes less memory
        if (tls := transport.get_extra_info("ssl_object")) is not None:
            self.certificate = tls.getpeercert(binary_form=True) or None
        if self.connections_of_process.admit(self):
            self._start_timer()
        else:
            transport.write(_FULL)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections_of_process.forget(self)
        self._stop_timer()
        self._with_body()
        if self._tunnel is not None:
            self._tunnel.end()
        super().connection_lost(exc)
        when_lost, self._when_lost = self._when_lost, None
        if when_lost is not None:
            when_lost()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._tunnel is not None and self._is_switched:
            self._tunnel.feed(data)
            return
        self._header_bytes += len(data)
        self._arriving = data
        super().data_received(data)
        self._arriving = b""
        if not self._in_headers or self.transport.is_closing():
            return
        if self._header_timer is None:
            self._start_timer()
        if self._header_bytes > MAX_HEADERS:
            if not self._owes_answer():
                self.transport.write(_TOO_LARGE)
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, and close the connection. uvicorn calls it."""
        if self._owes_answer():
            self.transport.close()
        else:
            super().send_400_response(msg)

    def _owes_answer(self) -> bool:
        """Test whether a request is not answered yet. Its client takes the next answer for the answer to it."""
        if self.cycle is None or self.cycle.response_complete:
            return False
        is_arriving = self.cycle.more_body and not self.cycle.response_started  # its body may be what is refused
        return bool(self.pipeline) or not is_arriving

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers = True
        extensions: dict[str, Any] = {ABORT: {"now": self.transport.abort}}
        extensions[PEER] = self.client[0] if self.client else ""
        extensions[WRITE] = self._write
        extensions[LOST] = self._call_when_lost
        if self.certificate is not None:
            extensions[CERTIFICATE] = self.certificate
        self.scope["extensions"] = extensions

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._stop_timer()
        self.connections_of_process.idle.pop(self, None)
        if not self.parser.should_upgrade():
            super().on_headers_complete()
            return
        self._tunnel = Tunnel(self.transport, self.flow)
        self.scope["extensions"][TUNNEL] = {"open": self._open_tunnel}
        super().on_headers_complete()
        self.cycle.keep_alive = False  # what follows is no HTTP, whatever the answer is

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Begin to answer a request. uvicorn calls it when its headers are known and it is the first that waits."""
        start = super()._start_asgi_task

        def begin() -> None:
            if not self._goes_directly(cycle, lambda: start(cycle, app)):
                cycle.message_event = Wakeup(is_set=cycle.message_event.is_set())  # type: ignore[assignment]  # smaller
                start(cycle, app)

        if self.direct is not None and cycle.more_body and self.direct.waits_for_body(cycle):
            self._without_body = begin
            self._body_timer = self.loop.call_later(BODY_SECONDS, self._body_arrived)
        else:
            begin()

    def _goes_directly(self, cycle: RequestResponseCycle, go_on: Callable[[], None]) -> bool:
        """Test whether the direct way answers a request. If it fails to decide that, the request goes another way."""
        try:
            return self.direct is not None and self.direct.take(cycle, go_on)
        except Exception:
            log.exception("the direct way failed to decide about a request, which goes another way")
            return False

    def on_message_complete(self) -> None:
        self._header_bytes = 0
        super().on_message_complete()
        self._body_arrived()

    def _body_arrived(self) -> None:
        """Begin to answer a creation, because its body is there or takes too long."""
        if (begin := self._with_body()) is not None:
            begin()

    def _with_body(self) -> Callable[[], None] | None:
        """Return what begins a creation that waits for its body; None: there is none. It does not wait any more."""
        begin, self._without_body = self._without_body, None
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None
        return begin

    def _unsupported_upgrade_warning(self) -> None:
        """Keep what follows a request that asks for another protocol. uvicorn calls it after such a request."""
        error = sys.exception()
        if self._tunnel is not None and isinstance(error, httptools.HttpParserUpgrade):
            self._is_switched = True
            if rest := self._arriving[error.args[0] :]:
                self._tunnel.feed(rest)

    def _write(self, chunk: bytes) -> bool:
        """Send a part of the present answer as it is, at once. False: the client does not read, or is gone."""
        if self.flow.write_paused or self.cycle.disconnected or self.transport.is_closing():
            return False
        self.transport.write(chunk)
        return True

    def _call_when_lost(self, call: Callable[[], None] | None) -> None:
        """Call a function when the client is gone, which may be now. None: call nothing."""
        self._when_lost = call
        if call is not None and self not in self.connections_of_process.open:
            self._when_lost = None
            call()

    def _open_tunnel(self) -> Tunnel:
        """Return the tunnel of this connection, which ends uvicorn's own answer: the caller sends all bytes."""
        assert self._tunnel is not None, "only a request that asks for another protocol has this extension"
        self.cycle.response_started = self.cycle.response_complete = True
        return self._tunnel

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.pipeline and not self.transport.is_closing() and self in self.connections_of_process.open:
            self.connections_of_process.idle[self] = None

    def _start_timer(self) -> None:
        self._header_timer = self.loop.call_later(HEADER_SECONDS, self._headers_late)

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _headers_late(self) -> None:
        self._header_timer = None
        if not self.transport.is_closing():
            self.transport.abort()


def guarded(limit: int, direct: Direct | None = None) -> type[GuardedProtocol]:
    """Return the protocol class for a process that allows `limit` connections. `direct`: answers some requests."""
    members = {"connections_of_process": Connections(limit), "direct": direct, "__slots__": ()}
    return type("GuardedProtocol", (GuardedProtocol,), members)
