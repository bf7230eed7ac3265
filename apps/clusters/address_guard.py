"""Which addresses of members are connected to: literal ones are checked before a call, names once they are resolved."""

from __future__ import annotations

import socket

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from controlplane.apimachinery import addresses
from controlplane.settings import MemberSettings


class AddressRefused(OSError):
    """A member, or the proxy before it, has an address that must not be called."""


def refuse(host: str, address: addresses.Address, settings: MemberSettings) -> None:
    """Raise AddressRefused where an address must not be called; `host`: what it was resolved from."""
    network = addresses.refused(address, refuse=settings.refused_addresses, allow=settings.allowed_addresses)
    if network:
        raise AddressRefused(
            f"{host} is at {address} in {network}, which must not be called (members.refused_addresses); an exception "
            "is a network in members.allowed_addresses"
        )


def check(url: str, settings: MemberSettings) -> None:
    """Raise AddressRefused where a URL names an address that must not be called, ValueError where it is no URL."""
    host = URL(url).raw_host or ""  # as aiohttp reads it
    try:
        address = addresses.literal(host)
    except ValueError as error:
        raise ValueError(f'host "{host}" {error}') from error
    if address is not None:
        refuse(host, address, settings)


class CheckedResolver(AbstractResolver):
    """Resolves names and leaves out the addresses that must not be called.

    The connection is made to exactly these addresses, so a name that is answered differently the next time changes
    nothing.
    """

    def __init__(self, settings: MemberSettings) -> None:
        self._settings = settings
        self._resolver = aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a name. Raises AddressRefused where none of them may be called."""
        found, last = list[ResolveResult](), AddressRefused(f"{host} has no address")
        for one in await self._resolver.resolve(host, port, family=family):
            try:
                address = addresses.literal(one["host"])
                assert address is not None, "a resolver answers with addresses"
                refuse(host, address, self._settings)
                found.append(one)
            except AddressRefused as error:
                last = error
        if not found:
            raise last
        return found

    async def close(self) -> None:
        await self._resolver.close()
