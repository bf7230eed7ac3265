"""Requests of users to members: connections, answers as they arrive, and connections that switch their protocol.

They have connections of their own, so that they never delay the probes, applies and watches of the control plane.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp_socks import ProxyConnectionError, ProxyError, ProxyTimeoutError
from multidict import CIMultiDict
from yarl import URL

from apps.clusters.answers import REDIRECT, by_proxy, first_line, not_reached, untrusted
from apps.clusters.connection import connector, credentials, through
from apps.clusters.inbound import MOST_BYTES, Inbound
from apps.clusters.response_reader import Account
from apps.objects.address_guard import CheckedResolver, check
from controlplane.apimachinery.errors import ServiceUnavailable
from controlplane.clusters.proxy import Header
from controlplane.clusters.questions import Target
from controlplane.settings import MemberSettings

CONNECT_SECONDS = 5.0
_BY_SOCKS = (ProxyConnectionError, ProxyError, ProxyTimeoutError)
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
# aiohttp adds these headers if a request has none. The member gets those of the caller only.
_OWN_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class Tunnel(Inbound):
    """The bytes of a connection to a member after its protocol was switched."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        connection = response.connection
        assert connection is not None, "a connection that was switched is not released"
        assert connection.protocol is not None, "a connection that is not released has its protocol"
        self._protocol = connection.protocol
        self._paused = False
        super().__init__(self._pause, self._resume)
        self._protocol.set_parser(self, None)  # from now on aiohttp passes on what arrives: feed_data, feed_eof

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Take bytes that have arrived. Called by aiohttp. The first value False: there is no error."""
        self.feed(data)
        return False, b""

    def feed_eof(self) -> None:
        """Note that the member has closed the connection. Called by aiohttp."""
        self.end()

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._protocol.pause_reading()

    def _resume(self) -> None:
        if self._paused:  # otherwise aiohttp would parse what has arrived
            self._paused = False
            self._protocol.resume_reading()

    async def write(self, data: bytes) -> None:
        """Send bytes and wait until most of them are sent. Raises OSError if the connection is closed."""
        transport = self._protocol.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the member has closed the connection")
        transport.write(data)
        await self._protocol._drain_helper()  # aiohttp's own writers wait in this way


class ProxyClient:
    """Sends requests of users to members. To be used in one event loop."""

    def __init__(self, settings: MemberSettings) -> None:
        self._settings = settings
        self._resolver = CheckedResolver(settings)
        self._sessions: dict[tuple[str, bool], tuple[Target, aiohttp.ClientSession]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Close all connections."""
        sessions, self._sessions = list(self._sessions.values()), {}
        for _, session in sessions:
            await session.close()

    @asynccontextmanager
    async def request(
        self, target: Target, method: str, path: str, headers: list[Header], body: AsyncIterator[bytes] | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and yield the answer when its headers have arrived. The connection is then free again, or
        closed if the answer was not read to its end.

        `path`: with the query, percent-encoded. Raises ServiceUnavailable if the member is not reached, refuses the
        credentials of the control plane, or answers with a redirect. Waits for the answer as long as it takes.
        """
        # A body is sent once. It is sent on a new connection, because the member may close an idle one at any time.
        reuse = body is None and not any(name.lower() == "upgrade" for name, _ in headers)
        try:
            session = self._session(target, reuse=reuse)
            response = await session.request(
                method,
                URL(target.endpoint.rstrip("/") + path, encoded=True),
                headers=CIMultiDict([*headers, *credentials(target).items()]),
                data=body,
                skip_auto_headers=_OWN_HEADERS,
                allow_redirects=False,
                **through(target),
            )
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError, ssl.SSLError) as error:
            raise _unreachable(target, untrusted(error).problem) from None
        except aiohttp.ClientHttpProxyError as error:
            raise _unreachable(target, by_proxy(error).problem) from None
        except TimeoutError:
            raise _unreachable(target, f"no connection within {CONNECT_SECONDS:g} s") from None
        except (aiohttp.InvalidURL, ValueError) as error:
            raise _unreachable(target, f"it cannot be called: {first_line(error)}") from None
        except (aiohttp.ClientError, OSError, *_BY_SOCKS) as error:
            raise _unreachable(target, not_reached(error).problem) from None
        try:
            _check(target, response)
            yield response
        finally:
            response.close()

    def _session(self, target: Target, *, reuse: bool) -> aiohttp.ClientSession:
        """Return the session of a member. Raises AddressRefused or ValueError if its address must not be called.

        When address or credentials have changed, the connections with the earlier ones are closed.
        """
        key = (target.cluster, reuse)
        known, session = self._sessions.get(key, (None, None))
        if session is not None and known == target:
            return session
        if session is not None:
            self._closing.add(task := asyncio.create_task(session.close()))
            task.add_done_callback(self._closing.discard)
            del self._sessions[key]
        for url in filter(None, (target.endpoint, target.proxy)):
            check(url, self._settings)
        account = Account(longest=self._settings.answer_bytes)
        session = aiohttp.ClientSession(
            connector=connector(target, limit=0, resolver=self._resolver, account=account, force_close=not reuse),
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),  # else the cookies of a member would be shared by all callers
            auto_decompress=False,
            read_bufsize=MOST_BYTES,
        )
        self._sessions[key] = (target, session)
        return session


def _check(target: Target, response: aiohttp.ClientResponse) -> None:
    if response.status in _REDIRECTS:
        raise _unreachable(target, f"HTTP {response.status}: {REDIRECT}")
    if response.status == 401:
        raise _unreachable(
            target,
            "HTTP 401: it refuses the token in the Secret of spec.impersonatorSecretRef; join it again: manage.py join "
            f"{target.cluster} --kubeconfig FILE",
        )


def _unreachable(target: Target, problem: str) -> ServiceUnavailable:
    return ServiceUnavailable(f"cluster {target.cluster} cannot be used through the proxy: {problem}")


def headers_of(response: Any) -> list[Header]:
    """Return the headers of an answer, in the order in which they came. Bytes beyond ASCII are kept as Latin-1."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers]
