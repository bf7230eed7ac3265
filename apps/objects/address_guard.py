"""The check of members' addresses: IP addresses in URLs are checked before a call, names when they are resolved."""

from __future__ import annotations

import asyncio
import socket
from threading import Thread
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from controlplane.apimachinery import addresses
from controlplane.settings import MemberSettings

_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV

Name = tuple[str, int, socket.AddressFamily]
Addresses = list[ResolveResult]


class AddressRefused(OSError):
    """The address of a member, or of its proxy, must not be called."""


def refuse(host: str, address: addresses.Address, settings: MemberSettings) -> None:
    """Raise AddressRefused if an address must not be called. `host`: the name that was resolved to the address."""
    network = addresses.refused(address, refuse=settings.refused_addresses, allow=settings.allowed_addresses)
    if network:
        raise AddressRefused(
            f"{host} is at {address} in {network}, which must not be called (setting members.refused_addresses); to "
            "allow it, add its network to members.allowed_addresses"
        )


def check(url: str, settings: MemberSettings) -> None:
    """Raise AddressRefused if a URL names an address that must not be called, and ValueError if it is malformed."""
    host = URL(url).raw_host or ""  # as aiohttp reads it
    try:
        address = addresses.literal(host)
    except ValueError as error:
        raise ValueError(f'host "{host}" {error}') from error
    if address is not None:
        refuse(host, address, settings)


class CheckedResolver(AbstractResolver):
    """Resolves names, without the addresses that must not be called.

    Connections are made to exactly the addresses that were checked. So a name server that gives another answer the next
    time cannot avoid the check.

    A lookup cannot be broken off, and takes half a minute if the name server of one member does not answer. So a name
    is looked up in a thread of its own, once for all that ask for it meanwhile: in a pool of threads, such lookups
    would keep the names of all other members waiting.
    """

    def __init__(self, settings: MemberSettings) -> None:
        self._settings = settings
        self._under_way: dict[Name, asyncio.Future[Addresses]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a name that may be called. Raises AddressRefused if there is none."""
        allowed, last = list[ResolveResult](), AddressRefused(f"{host} has no address")
        for result in await self._looked_up((host, port, family)):
            try:
                address = addresses.literal(result["host"])
                assert address is not None, "a resolver answers with addresses"
                refuse(host, address, self._settings)
                allowed.append(result)
            except AddressRefused as error:
                last = error
        if not allowed:
            raise last
        return allowed

    async def close(self) -> None:
        """Nothing is kept open. Lookups that are under way end by themselves."""

    async def _looked_up(self, name: Name) -> Addresses:
        found = self._under_way.get(name)
        if found is None:
            found = asyncio.get_running_loop().create_future()
            Thread(target=_look_up, args=(found, name), name="resolve", daemon=True).start()
            self._under_way[name] = found
            found.add_done_callback(lambda done: self._ended(name, done))
        return await asyncio.shield(found)

    def _ended(self, name: Name, done: asyncio.Future[Addresses]) -> None:
        del self._under_way[name]
        if not done.cancelled():
            done.exception()  # the requests that asked may have ended


def _look_up(found: asyncio.Future[Addresses], name: Name) -> None:
    """Look up a name, and hand the addresses or the error over to the event loop. Runs in a thread."""
    try:
        result: Addresses | Exception = _addresses(*name)
    except (OSError, ValueError) as error:
        result = error
    try:
        found.get_loop().call_soon_threadsafe(_settle, found, result)
    except RuntimeError:
        pass  # the event loop has ended


def _settle(found: asyncio.Future[Addresses], result: Addresses | Exception) -> None:
    if found.cancelled():
        return
    if isinstance(result, Exception):
        found.set_exception(result)
    else:
        found.set_result(result)


def _addresses(host: str, port: int, family: socket.AddressFamily) -> Addresses:
    """Return the addresses of a name as aiohttp expects them. Blocks. Raises OSError, and ValueError for no name."""
    found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [
        ResolveResult(hostname=host, host=_host_of(address), port=port, family=kind, proto=proto, flags=_NUMERIC)
        for kind, _, proto, _, address in found
    ]


def _host_of(address: Any) -> str:
    """Return the host of an address of a socket, with the interface of a link-local one."""
    if len(address) > 2 and address[3]:
        return socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0]
    return str(address[0])
