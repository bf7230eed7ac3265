"""Connections to members: directly, through an HTTP proxy or through a SOCKS5 proxy."""

from __future__ import annotations

import ssl
from functools import partial
from typing import Any

import aiohttp
from aiohttp_socks import ProxyConnector
from python_socks import parse_proxy_url

from apps.clusters.address_guard import CheckedResolver
from apps.clusters.response_reader import Account, Charged
from controlplane.clusters.questions import Target


class Direct(aiohttp.TCPConnector):
    """Connects to a member or to its HTTP proxy, at addresses that were checked; the member is charged for parsing."""

    def __init__(self, *, resolver: CheckedResolver, account: Account, **options: Any) -> None:
        super().__init__(resolver=resolver, **options)
        self._factory = partial(Charged, loop=self._loop, account=account)  # type: ignore[assignment]  # a subclass


class Socks(ProxyConnector):
    """Connects through a SOCKS5 proxy whose own address is checked; the proxy resolves the member's name."""

    def __init__(self, *, resolver: CheckedResolver, account: Account, **options: Any) -> None:
        super().__init__(**options)
        self._checked = resolver
        self._account = account
        self._proxy_name = self._proxy_host

    async def _connect_via_proxy(self, *arguments: Any, **options: Any) -> Any:
        found = await self._checked.resolve(self._proxy_name, self._proxy_port)
        self._proxy_host = found[0]["host"]  # read before the first await of the call below
        transport, made = await super()._connect_via_proxy(*arguments, **options)
        charged = Charged(self._loop, self._account, writer=made._writer)  # type: ignore[attr-defined]  # it has one
        transport.set_protocol(charged)
        charged.connection_made(transport)
        return transport, charged


def connector(target: Target, *, limit: int, resolver: CheckedResolver, account: Account) -> aiohttp.TCPConnector:
    """Return how a member is connected to; at most `limit` connections, 0 for any number."""
    options: dict[str, Any] = {"limit": limit, "ssl": _tls(target), "resolver": resolver, "account": account}
    if not _by_socks(target):
        return Direct(**options)
    type_, host, port, user, password = parse_proxy_url(target.proxy)
    proxy: dict[str, Any] = {"proxy_type": type_, "host": host, "port": port, "username": user, "password": password}
    return Socks(rdns=True, **proxy, **options)


def credentials(target: Target) -> dict[str, str]:
    """Return the headers that let us in. They are for the member alone: with each request, never with the session."""
    return {"Authorization": f"Bearer {target.token}"} if target.token else {}


def through(target: Target) -> dict[str, Any]:
    """Return what a request says about the HTTP proxy; its headers go with CONNECT, and never to the member."""
    if not target.proxy or _by_socks(target):
        return {}
    return {"proxy": target.proxy, "proxy_headers": target.proxy_headers or None}


def _by_socks(target: Target) -> bool:
    return target.proxy.startswith("socks5://")


def _tls(target: Target) -> ssl.SSLContext | bool:
    if target.insecure:
        return False
    if not target.ca:
        return True
    return ssl.create_default_context(cadata=target.ca)
