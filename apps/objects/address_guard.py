"""The check of members' addresses: IP addresses in URLs are checked before a call, names when they are resolved."""

from __future__ import annotations

import socket

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from controlplane.apimachinery import addresses
from controlplane.settings import MemberSettings


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
    """

    def __init__(self, settings: MemberSettings) -> None:
        self._settings = settings
        self._resolver = aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a name that may be called. Raises AddressRefused if there is none."""
        allowed, last = list[ResolveResult](), AddressRefused(f"{host} has no address")
        for result in await self._resolver.resolve(host, port, family=family):
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
        await self._resolver.close()
