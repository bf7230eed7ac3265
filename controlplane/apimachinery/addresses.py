"""Addresses of members: which of them must not be called (`members.refused_addresses`, `members.allowed_addresses`).

A Cluster's endpoint is written by people and resolved by DNS servers of others. Without this rule it could point the
control plane at itself, at its neighbours on the host, or at a cloud's metadata service, with credentials in hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

REFUSED = (
    *("0.0.0.0/8", "::/128"),  # unspecified: connects to this host
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
    """Return the networks of a setting, e.g. 10.0.0.0/8; a plain address is a network of one.

    Raises ValueError naming the first that is none.
    """
    return tuple(ip_network(text) for text in texts)


def literal(host: str) -> Address | None:
    """Return the address a host is written as, None where it is a name. localhost counts as 127.0.0.1.

    Raises ValueError for a number that is no address as written, such as 2130706433 or 127.1: some resolvers read it
    as one.
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
    """Return the network of `refuse` that an address is in; "" where it may be called.

    An IPv4 address inside an IPv6 address counts as well: mapped, compatible, NAT64, 6to4 and Teredo.
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
    """Yield an address and the IPv4 addresses that are reached through it."""
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
