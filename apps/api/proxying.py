"""Passes requests on to members, on the event loop: bytes are copied as they arrive, in both directions.

A request ends with its answer, its client, its login, its deadline, or when nothing has been sent for too long. A
member that never answers holds only its own share of the open requests.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.parse import unquote

import aiohttp

from apps.api.clock import ticks
from apps.api.incoming import Receive, Scope
from apps.api.outgoing import Send
from apps.api.proxy import Proxied
from apps.api.tunnels import ABORT, TUNNEL
from apps.api.watch_hub import Tailer, Watcher
from apps.clusters.proxying import ProxyClient, Tunnel, headers_of
from controlplane.apimachinery.errors import BadRequest, ServiceUnavailable, TooManyRequests
from controlplane.clusters import proxy

RETRY_SECONDS = 1


class Proxying:
    """The requests through the proxy that are open in this process. Only the event loop may use it."""

    def __init__(self) -> None:
        self._open: Counter[tuple[str, str]] = Counter()
        self._client: ProxyClient | None = None

    async def close(self) -> None:
        """Close the connections to members."""
        if self._client is not None:
            await self._client.close()

    async def serve(self, proxied: Proxied, tailer: Tailer, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and send the answer.

        Raises a StatusError if the answer has not begun: BadRequest for a path that no member gets, TooManyRequests,
        and ServiceUnavailable with the cause if the member does not answer. Later, the connection is closed.
        """
        path = _member_path(scope, proxied.target.cluster)
        if self._client is None:
            self._client = ProxyClient(proxied.limits)
        with self._counted(proxied):
            watcher = Watcher(proxied)
            await tailer.add(watcher)
            try:
                await _Exchange(self._client, proxied, path, scope, receive, send).run(watcher)
            finally:
                tailer.remove(watcher)

    @contextlib.contextmanager
    def _counted(self, proxied: Proxied) -> Iterator[None]:
        """Count an open request. Raises TooManyRequests at the limit of the process, the user or the member."""
        limits, member = proxied.limits, proxied.target.cluster
        counts = (
            (("process", ""), limits.proxy_requests, "this API process", "requests"),
            (("user", proxied.user), limits.proxy_requests_per_user, f"user {proxied.user}", "requests_per_user"),
            (("member", member), limits.proxy_requests_per_member, f"cluster {member}", "requests_per_member"),
        )
        for key, most, whose, setting in counts:
            if self._open[key] >= most:
                raise TooManyRequests(
                    f"{whose} has {most} requests through the proxy to members open, which is the limit (setting "
                    f"members.proxy_{setting}); close some",
                    retry_after_seconds=RETRY_SECONDS,
                )
        keys = [key for key, *_ in counts]
        self._open.update(keys)
        try:
            yield
        finally:
            self._open.subtract(keys)
            for key in keys:
                if not self._open[key]:
                    del self._open[key]


class _Exchange:
    """One request and its answer."""

    def __init__(
        self, client: ProxyClient, proxied: Proxied, path: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._client, self._proxied, self._path = client, proxied, path
        self._scope, self._receive, self._send = scope, receive, send
        self._headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        self._received = asyncio.Event()  # the whole body of the request
        self._answered = False  # the answer has begun
        self._moved = ticks()  # when bytes were last copied

    async def run(self, watcher: Watcher) -> None:
        """Copy until the first reason to end. Raises a StatusError if the answer has not begun."""
        copying = asyncio.create_task(self._copy())
        waiting = [asyncio.create_task(self._until_ended(watcher)), asyncio.create_task(self._until_disconnect())]
        try:
            await asyncio.wait([copying, *waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended = copying.done()
            for task in (copying, *waiting):
                task.cancel()
            results = await asyncio.gather(copying, *waiting, return_exceptions=True)
        if self._answered:
            if not ended or results[0] is not None:
                self._abort()  # the client must not take a part of the answer for the whole
            return
        for result in (results[0], results[1]):
            if isinstance(result, Exception):
                raise result
        self._abort()

    def _abort(self) -> None:
        if abort := self._scope.get("extensions", {}).get(ABORT):
            abort["now"]()

    async def _copy(self) -> None:
        """Send the request to the member and the answer to the client."""
        opener = self._scope.get("extensions", {}).get(TUNNEL)
        protocol = proxy.upgrade(self._headers) if opener else ""
        headers = [*proxy.forwarded(self._headers), *self._proxied.caller]
        if protocol:
            headers += [("Connection", "Upgrade"), ("Upgrade", protocol)]
        body = self._body() if self._has_body() else None
        if body is None:
            self._received.set()
        elif length := self._header("content-length"):
            headers.append(("Content-Length", length))
        method = self._scope["method"]
        async with self._client.request(self._proxied.target, method, self._path, headers, body) as response:
            if response.status == 101 and protocol:
                await self._switch(response, opener["open"])
            else:
                await self._answer(response)

    def _has_body(self) -> bool:
        return self._header("content-length") not in ("", "0") or bool(self._header("transfer-encoding"))

    def _header(self, wanted: str) -> str:
        return next((value for name, value in self._headers if name == wanted), "")

    async def _body(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ConnectionResetError("the client has disconnected")
            self._moved = ticks()
            more = message.get("more_body", False)
            if part := message.get("body", b""):
                yield part
        self._moved = ticks()
        self._received.set()

    async def _answer(self, response: aiohttp.ClientResponse) -> None:
        """Send an answer as it arrives."""
        if not 200 <= response.status < 600:
            name = self._proxied.target.cluster
            raise ServiceUnavailable(f"cluster {name} answered with the status {response.status}, which is not valid")
        given = proxy.returned(headers_of(response), status=response.status)
        headers = [(name.encode(), value.encode("latin-1")) for name, value in given]
        self._answered, self._moved = True, ticks()
        await self._send({"type": "http.response.start", "status": response.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": b"", "more_body": True})  # sends the headers now
        async for part in response.content.iter_any():
            await self._send({"type": "http.response.body", "body": part, "more_body": True})
            self._moved = ticks()
        await self._send({"type": "http.response.body", "body": b""})

    async def _switch(self, response: aiohttp.ClientResponse, open_tunnel: Callable[[], Any]) -> None:
        """Copy bytes in both directions until one side closes its connection."""
        given = headers_of(response)
        kept = [(name, value) for name, value in proxy.returned(given) if not name.startswith("content-")]
        kept += [("connection", "Upgrade"), ("upgrade", proxy.upgrade(given))]
        head = "".join(f"{name}: {value}\r\n" for name, value in kept)
        theirs, ours = Tunnel(response), open_tunnel()
        self._answered, self._moved = True, ticks()
        try:
            await ours.write(f"HTTP/1.1 101 Switching Protocols\r\n{head}\r\n".encode("latin-1"))
            sending, answering = (asyncio.create_task(self._carry(*pair)) for pair in ((ours, theirs), (theirs, ours)))
            try:
                await asyncio.wait([sending, answering], return_when=asyncio.FIRST_COMPLETED)
                if not answering.done() and not sending.result():
                    # The member has closed its connection. What it sent before still goes to the client.
                    await answering
            finally:
                for task in (sending, answering):
                    task.cancel()
                await asyncio.gather(sending, answering, return_exceptions=True)
        finally:
            ours.close()

    async def _carry(self, source: Any, sink: Any) -> bool:
        """Copy bytes. Returns whether the source has ended; False: the sink is closed."""
        try:
            while data := await source.read():
                self._moved = ticks()
                await sink.write(data)
        except (OSError, aiohttp.ClientError):
            return False
        return True

    async def _until_ended(self, watcher: Watcher) -> None:
        """Return when the login, the deadline or the server ends the request, or when nothing moves for too long.

        Raises ServiceUnavailable if the member has not begun to answer in time.
        """
        limits = self._proxied.limits
        while not watcher.ended:
            most = limits.proxy_idle_seconds if self._answered else limits.proxy_answer_seconds
            left = self._moved + most - ticks()
            if left <= 0:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await watcher.ready.wait()
            watcher.ready.clear()
        if not watcher.ended and not self._answered:
            raise ServiceUnavailable(
                f"cluster {self._proxied.target.cluster} has not answered within {limits.proxy_answer_seconds:g} s; "
                f"kubectl describe cluster {self._proxied.target.cluster} shows its state"
            )

    async def _until_disconnect(self) -> None:
        await self._received.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _member_path(scope: Scope, cluster: str) -> str:
    """Return the path on the member with its query, as the client has encoded them. Raises BadRequest."""
    found = proxy.parsed(scope["raw_path"].decode("latin-1"))
    if found is None or unquote(found[0]) != cluster:
        raise BadRequest("the path of the proxy is encoded in an unusual way: write clusters/<name>/proxy/<path>")
    path, query = found[1], scope["query_string"].decode("latin-1")
    proxy.check_path(path)
    return f"{path}?{query}" if query else path
