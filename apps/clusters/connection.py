"""Connections to members: direct ones, through an HTTP proxy, or through a SOCKS5 proxy."""

from __future__ import annotations

import ssl
from functools import partial
from typing import Any

import aiohttp
import msgspec
from aiohttp_socks import ProxyConnector
from python_socks import parse_proxy_url

from apps.clusters.response_reader import Account, Charged
from apps.objects.address_guard import CheckedResolver
from controlplane.clusters.questions import Target


class Direct(aiohttp.TCPConnector):
    """Connects to a member or to its HTTP proxy, at checked addresses. The time of parsing counts for the member."""

    def __init__(self, *, resolver: CheckedResolver, account: Account, **options: Any) -> None:
        super().__init__(resolver=resolver, **options)
        self._factory = partial(Charged, loop=self._loop, account=account)  # type: ignore[assignment]  # a subclass


class Socks(ProxyConnector):
    """Connects through a SOCKS5 proxy. The proxy's address is checked, and the proxy resolves the member's name."""

    def __init__(self, *, resolver: CheckedResolver, account: Account, **options: Any) -> None:
        super().__init__(**options)
        self._checked = resolver
        self._account = account
        self._proxy_name = self._proxy_host

    async def _connect_via_proxy(self, *arguments: Any, **options: Any) -> Any:
        results = await self._checked.resolve(self._proxy_name, self._proxy_port)
        self._proxy_host = results[0]["host"]  # the call below reads it before its first await
        transport, protocol = await super()._connect_via_proxy(*arguments, **options)
        charged = Charged(self._loop, self._account, writer=protocol._writer)  # type: ignore[attr-defined]  # it has one
        transport.set_protocol(charged)
        charged.connection_made(transport)
        return transport, charged


class Connections(msgspec.Struct, eq=False):
    """The session of a member for one purpose. `to`: the member, without a token: each request brings its own.

    `used`: how many requests are under way. `replaced`: another session has taken its place. It is closed after them.
    """

    to: Target
    session: aiohttp.ClientSession
    used: int = 0
    replaced: bool = False


def connector(
    target: Target, *, limit: int, resolver: CheckedResolver, account: Account, force_close: bool = False
) -> aiohttp.TCPConnector:
    """Return the connector of a member. `limit`: the largest number of connections; 0: any number.

    `force_close`: a connection is used for one request only.
    """
    options: dict[str, Any] = {"limit": limit, "ssl": _tls(target), "resolver": resolver, "account": account}
    options["force_close"] = force_close
    if not _by_socks(target):
        return Direct(**options)
    type_, host, port, user, password = parse_proxy_url(target.proxy)
    proxy: dict[str, Any] = {"proxy_type": type_, "host": host, "port": port, "username": user, "password": password}
    return Socks(rdns=True, **proxy, **options)


def credentials(target: Target) -> dict[str, str]:
    """Return the headers with the token of a member. They belong to requests and not to a session: aiohttp would send
    headers of a session to the proxy as well."""
    return {"Authorization": f"Bearer {target.token}"} if target.token else {}


def through(target: Target) -> dict[str, Any]:
    """Return the options of a request for the HTTP proxy. The proxy headers go to the proxy, and not to the member."""
    if not target.proxy or _by_socks(target):
        return {}
    return {"proxy": target.proxy, "proxy_headers": target.proxy_headers or None}


def _by_socks(target: Target) -> bool:
    return target.proxy.startswith("socks5://")


def _tls(target: Target) -> ssl.SSLContext | bool:
    """Return how the certificate of a member is checked. True: against the authorities of this machine; False: not."""
    if target.insecure:
        return False
    if not target.ca and not target.certificate:
        return True
    context = ssl.create_default_context(cadata=target.ca or None)
    if target.certificate:
        context.load_cert_chain(target.certificate)
    return context
