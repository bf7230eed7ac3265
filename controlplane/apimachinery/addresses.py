"""Network addresses that must not be called as members (`members.refused_addresses`, `members.allowed_addresses`).

Users write the endpoint of a Cluster, and foreign DNS servers resolve it. Without this rule an endpoint could make the
control plane send credentials to itself, to another service on its host, or to the metadata service of a cloud.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

REFUSED = (
    *("0.0.0.0/8", "::/128"),  # unspecified: a connection goes to this host
    *("127.0.0.0/8", "::1/128"),  # loopback
    *("169.254.0.0/16", "fe80::/10"),  # link-local, with the metadata service of most clouds (169.254.169.254)
    *("fd00:ec2::254/128", "fd20:ce::254/128"),  # metadata services of AWS and Google over IPv6
    *("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32"),  # those of Alibaba, Azure and Oracle
    *("224.0.0.0/4", "255.255.255.255/32", "ff00::/8"),  # multicast and broadcast
)

_NAT64 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))
_COMPATIBLE = ip_network("::/96")  # an IPv4 address behind 96 zero bits (deprecated)
_LOWEST_32 = 0xFFFFFFFF
_NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9a-fA-F]*)", re.DOTALL)


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks that texts such as 10.0.0.0/8 name. An address without a prefix is a network of one address.

    Raises ValueError for the first text that is not a network.
    """
    return tuple(ip_network(text) for text in texts)


def literal(host: str) -> Address | None:
    """Return the address that a host is written as; None: the host is a name. localhost is 127.0.0.1.

    Raises ValueError for other spellings of an address, such as 2130706433 or 127.1, which some resolvers accept.
    """
    bare = host.removeprefix("[").removesuffix("]").partition("%")[0].rstrip(".").lower()
    if bare == "localhost" or bare.endswith(".localhost"):
        return IPv4Address("127.0.0.1")
    try:
        return ip_address(bare)
    except ValueError:
        if _NUMERIC.fullmatch(bare):
            raise ValueError("is not an IPv4 address of four decimal numbers") from None
        return None


def refused(address: Address, *, refuse: tuple[str, ...], allow: tuple[str, ...]) -> str:
    """Return the network of `refuse` that contains an address; "" if the address may be called.

    An IPv6 address that contains an IPv4 address (mapped, compatible, NAT64, 6to4, Teredo) is checked as both.
    """
    allowed = _parsed(allow)
    for form in _forms(address):
        if any(form in network for network in allowed):
            continue
        for network in _parsed(refuse):
            if form in network:
                return str(network)
    return ""


@lru_cache(maxsize=64)
def _parsed(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return networks(texts)


def _forms(address: Address) -> Iterator[Address]:
    """Yield an address and the IPv4 addresses that it contains."""
    yield address
    if isinstance(address, IPv4Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if any(address in network for network in _NAT64) or (address in _COMPATIBLE and int(address) > 1):
        yield IPv4Address(int(address) & _LOWEST_32)
