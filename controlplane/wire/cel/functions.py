"""The functions that Kubernetes adds to CEL: quantities, addresses, URLs, lists, sets and regular expressions.

A quantity, an address, a network or a URL is a map with a single key at run time, because the library has no values of
its own types. The compiler sees the types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import pairwise
from typing import Any, NamedTuple

from controlplane.apimachinery import quantities
from controlplane.apimachinery.quantities import NANO, QuantityError

Value = dict[str, Any]

_QUANTITY, _IP, _CIDR, _URL = "kubernetes.Quantity", "net.IP", "net.CIDR", "kubernetes.URL"
OWN_TYPES = (_QUANTITY, _IP, _CIDR, _URL)
MAX_TEXT = 65536  # characters of a text that these functions read
_MAX_PATTERN = 1024
_URL_PARTS = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?[^#]*)?(?:#.*)?")
_NO_URL = re.compile(r"[\x00-\x20\x7f]|%(?![0-9A-Fa-f]{2})")


class Signature(NamedTuple):
    """The types of the arguments, as the compiler checks them, and of the result."""

    arguments: tuple[str, ...]
    result: str


class Function(NamedTuple):
    """A function. Functions with the same number of arguments share their implementation."""

    name: str
    is_member: bool
    signatures: tuple[Signature, ...]
    call: Callable[..., Any]


def function(name: str, call: Callable[..., Any], *signatures: Sequence[str], member: bool = True) -> Function:
    """Return a function. A signature has the types of the arguments, and last that of the result."""
    return Function(name, member, tuple(Signature(tuple(one[:-1]), one[-1]) for one in signatures), call)


def _quantity(text: str) -> Value:
    quantity = quantities.parse(text)
    return {_QUANTITY: quantity.nano}


def _is_quantity(text: str) -> bool:
    try:
        quantities.parse(text)
    except QuantityError:
        return False
    return True


def _nano(value: Any) -> int:
    """Return the billionths of a quantity or an integer. Raises ValueError for another value."""
    if isinstance(value, dict) and _QUANTITY in value:
        return int(value[_QUANTITY])
    if isinstance(value, int) and not isinstance(value, bool):
        return value * NANO
    raise ValueError("no such overload: a quantity is expected")


def _as_integer(value: Value) -> int:
    whole, rest = divmod(_nano(value), NANO)
    if rest:
        raise ValueError("cannot convert value to integer")
    return whole


def _compared(left: Any, right: Any) -> int:
    return (_nano(left) > _nano(right)) - (_nano(left) < _nano(right))


def _ip(text: Any) -> Value:
    if isinstance(text, dict) and _CIDR in text:
        return {_IP: str(_network(text[_CIDR]).network_address)}
    return {_IP: str(_address(text))}


def _address(value: Any) -> IPv4Address | IPv6Address:
    """Return an address. Raises ValueError for a text that is none, and for IPv4 inside IPv6 or a zone."""
    text = value[_IP] if isinstance(value, dict) else value
    found = ip_address(text)
    if isinstance(found, IPv6Address) and (found.ipv4_mapped is not None or found.scope_id):
        raise ValueError(f"{text} is an IPv4 address inside IPv6, or has a zone")
    return found


def _network(value: Any) -> IPv4Network | IPv6Network:
    text = value[_CIDR] if isinstance(value, dict) else value
    if "/" not in text:
        raise ValueError(f"{text} has no prefix length")
    return ip_network(text, strict=False)


def _cidr(text: str) -> Value:
    _network(text)
    return {_CIDR: text}


def _reads(read: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


def _contains_ip(network: Value, address: Any) -> bool:
    return _address(address) in _network(network)


def _contains_cidr(network: Value, other: Any) -> bool:
    outer, inner = _network(network), _network(other)
    if isinstance(outer, IPv4Network):
        return isinstance(inner, IPv4Network) and inner.subnet_of(outer)
    return isinstance(inner, IPv6Network) and inner.subnet_of(outer)


def _url(text: str) -> Value:
    """Return a URL. Raises ValueError unless it is absolute or begins with a slash."""
    if len(text) > MAX_TEXT or _NO_URL.search(text):
        raise ValueError("URL parse error: a character is not allowed, or the URL is too long")
    scheme, host, _ = _parts({_URL: text})
    if not (scheme or text.startswith("/")):
        raise ValueError("URL parse error: an absolute URL or an absolute path is expected")
    if not re.fullmatch(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]]*)(:[0-9]*)?", host):
        raise ValueError("URL parse error: invalid host or port")
    return {_URL: text}


def _parts(url: Value) -> tuple[str, str, str]:
    """Return scheme, host with its port, and path of a URL; "" for a part that it does not have."""
    found = _URL_PARTS.fullmatch(url[_URL])
    if found is None:
        raise ValueError("URL parse error: invalid URL")
    scheme, authority, path = (part or "" for part in found.groups())
    return scheme.lower(), authority.rpartition("@")[2], path


def _hostname(url: Value) -> str:
    host = _parts(url)[1]
    return host[1 : host.index("]")] if host.startswith("[") else host.partition(":")[0]


def _port(url: Value) -> str:
    port = re.search(r":([0-9]*)$", _parts(url)[1])
    return port[1] if port else ""


def _find(text: str, pattern: str) -> str:
    found = _compiled(text, pattern).search(text)
    return found[0] if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match[0] for match in _compiled(text, pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


def _compiled(text: str, pattern: str) -> re.Pattern[str]:
    """Return a pattern. Raises ValueError if it or the text is too long. The process limits the time of a search."""
    if len(pattern) > _MAX_PATTERN or len(text) > MAX_TEXT:
        raise ValueError(f"a pattern has at most {_MAX_PATTERN} characters, and a text at most {MAX_TEXT}")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern} is no regular expression: {error}") from error


def _is_sorted(values: list[Any]) -> bool:
    return all(before <= after for before, after in pairwise(values))


def _extreme(pick: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def call(values: list[Any]) -> Any:
        if not values:
            raise ValueError("min and max of an empty list")
        return pick(values)

    return call


def _index(values: list[Any], wanted: Any) -> int:
    return values.index(wanted) if wanted in values else -1


def _last_index(values: list[Any], wanted: Any) -> int:
    return len(values) - 1 - values[::-1].index(wanted) if wanted in values else -1


def _contains(left: list[Any], right: list[Any]) -> bool:
    return all(value in left for value in right)


_COMPARED = ((_QUANTITY, _QUANTITY, "bool"),)
_SUM = ((_QUANTITY, _QUANTITY, _QUANTITY), (_QUANTITY, "int", _QUANTITY))
_SORTABLE = ("int", "double", "string", "bool", "timestamp", "duration", "uint")
_ITEMS = tuple(f"list({name})" for name in _SORTABLE)
_TEXT_LIST = "list(string)"

FUNCTIONS: tuple[Function, ...] = (
    function("quantity", _quantity, ("string", _QUANTITY), member=False),
    function("isQuantity", _is_quantity, ("string", "bool"), member=False),
    function("sign", lambda value: (_nano(value) > 0) - (_nano(value) < 0), (_QUANTITY, "int")),
    function("isInteger", lambda value: _nano(value) % NANO == 0, (_QUANTITY, "bool")),
    function("asInteger", _as_integer, (_QUANTITY, "int")),
    function("asApproximateFloat", lambda value: _nano(value) / NANO, (_QUANTITY, "double")),
    function("isLessThan", lambda left, right: _compared(left, right) < 0, *_COMPARED),
    function("isGreaterThan", lambda left, right: _compared(left, right) > 0, *_COMPARED),
    function("compareTo", _compared, (_QUANTITY, _QUANTITY, "int")),
    function("add", lambda left, right: {_QUANTITY: _nano(left) + _nano(right)}, *_SUM),
    function("sub", lambda left, right: {_QUANTITY: _nano(left) - _nano(right)}, *_SUM),
    function("ip", _ip, ("string", _IP), member=False),
    function("ip", _ip, (_CIDR, _IP)),
    function("isIP", _reads(_address), ("string", "bool"), member=False),
    function("ip.isCanonical", lambda text: str(_address(text)) == text, ("string", "bool"), member=False),
    function("family", lambda value: _address(value).version, (_IP, "int")),
    function("isUnspecified", lambda value: _address(value).is_unspecified, (_IP, "bool")),
    function("isLoopback", lambda value: _address(value).is_loopback, (_IP, "bool")),
    function("cidr", _cidr, ("string", _CIDR), member=False),
    function("isCIDR", _reads(_network), ("string", "bool"), member=False),
    function("containsIP", _contains_ip, (_CIDR, "string", "bool"), (_CIDR, _IP, "bool")),
    function("containsCIDR", _contains_cidr, (_CIDR, "string", "bool"), (_CIDR, _CIDR, "bool")),
    function("prefixLength", lambda value: _network(value).prefixlen, (_CIDR, "int")),
    function("masked", lambda value: {_CIDR: str(_network(value))}, (_CIDR, _CIDR)),
    function("url", _url, ("string", _URL), member=False),
    function("isURL", _reads(_url), ("string", "bool"), member=False),
    function("getScheme", lambda url: _parts(url)[0], (_URL, "string")),
    function("getHost", lambda url: _parts(url)[1], (_URL, "string")),
    function("getHostname", _hostname, (_URL, "string")),
    function("getPort", _port, (_URL, "string")),
    function("getEscapedPath", lambda url: _parts(url)[2], (_URL, "string")),
    function("find", _find, ("string", "string", "string")),
    function("findAll", _find_all, ("string", "string", _TEXT_LIST)),
    function("findAll", _find_all, ("string", "string", "int", _TEXT_LIST)),
    function("isSorted", _is_sorted, *((items, "bool") for items in _ITEMS)),
    function("sum", sum, ("list(int)", "int"), ("list(double)", "double")),
    function("min", _extreme(min), *((f"list({name})", name) for name in _SORTABLE)),
    function("max", _extreme(max), *((f"list({name})", name) for name in _SORTABLE)),
    function("indexOf", _index, ("list(dyn)", "dyn", "int")),
    function("lastIndexOf", _last_index, ("list(dyn)", "dyn", "int")),
    function("sets.contains", _contains, ("list(dyn)", "list(dyn)", "bool"), member=False),
    function(
        "sets.equivalent",
        lambda left, right: _contains(left, right) and _contains(right, left),
        ("list(dyn)", "list(dyn)", "bool"),
        member=False,
    ),
    function(
        "sets.intersects",
        lambda left, right: any(value in left for value in right),
        ("list(dyn)", "list(dyn)", "bool"),
        member=False,
    ),
)
