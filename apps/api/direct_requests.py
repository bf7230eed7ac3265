"""Requests of the direct way: which headers it understands, what the URLs of a resource have in common, and answers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, NamedTuple

from django.conf import settings
from uvicorn import Config
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from apps.api import lean, renderers
from apps.api.outgoing import Headers
from apps.api.target import Target
from apps.api.views import ObjectView
from apps.objects import encryption
from apps.objects.tables import object_table
from controlplane.kind import KINDS, Kind
from controlplane.kinds import FAILOVER_CONFIGURATION

log: Final = logging.getLogger(__name__)

_OWN_WAY: Final = (b"cookie", b"kubectl-command", b"transfer-encoding", b"expect", b"upgrade", b"content-encoding")
_IMPERSONATION: Final = b"impersonate-"
_FORWARDED: Final = b"x-forwarded-proto"
_FORWARDED_FOR: Final = b"x-forwarded-for"
_COUNTING: Final = frozenset(
    (b"authorization", b"host", b"accept", b"content-type", b"user-agent", b"content-length", _FORWARDED_FOR)
)


class Place(NamedTuple):
    """What the URLs of one resource have in common: the kind, its table, and the header Allow."""

    kind: Kind
    table: str
    allow: bytes
    begin: bytes  # of a document in the served version


def headers_of(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes] | None:
    """Return the headers that the direct way uses; None: a header needs another way, or is there twice."""
    given: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _COUNTING:
            if name in given:
                return None
            given[name] = value
        elif (
            name in _OWN_WAY or name.startswith(_IMPERSONATION) or (name == _FORWARDED and settings.SECURE_HSTS_SECONDS)
        ):
            return None
    return given


def address_of(scope: Any, given: Mapping[bytes, bytes]) -> str:
    """Return the address of a client, which a trusted proxy names. uvicorn notes it on the other ways only."""
    peer: str = scope["client"][0] if scope.get("client") else ""
    forwarded = given.get(_FORWARDED_FOR)
    if forwarded is None or peer not in _proxies().trusted_hosts:
        return peer
    named, _ = _proxies().trusted_hosts.get_trusted_client_address(forwarded.decode("latin-1"))
    return named or peer


@lru_cache(maxsize=1)
def _proxies() -> ProxyHeadersMiddleware:
    """Return uvicorn's rule about proxies, with the addresses that the server trusts (FORWARDED_ALLOW_IPS)."""

    async def nothing(*_: Any) -> None:
        """Serve nothing: only the rule counts."""

    return ProxyHeadersMiddleware(nothing, trusted_hosts=Config(nothing, log_config=None).forwarded_allow_ips)


@lru_cache(maxsize=lean.MOST_KEPT)
def is_json(accept: bytes) -> bool:
    """Test whether a client that sends this header Accept gets JSON."""
    return type(lean.renderer_of(accept.decode("latin-1"))) is renderers.JSONRenderer


_PLACES: Final[dict[tuple[str, ...], Place | None]] = {}


def place_of(group: str, version: str, plural: str, subresource: str = "", *, name: str = "name") -> Place | None:
    """Return the place of a resource; None: its objects are read and written another way.

    `name` "": the place of its collection.
    """
    parts = (group, version, plural, subresource, name and "name")
    if parts in _PLACES:
        return _PLACES[parts]
    kind = KINDS.served(group, version, plural)
    if kind is None or KINDS.is_custom(kind):
        return None  # custom kinds come and go
    place = None
    if _is_plain(kind) and (not subresource or subresource in kind.resource.subresources):
        view = ObjectView()
        view.target = Target(kind, "namespace", name, subresource)
        allow = ", ".join(view.allowed_methods).encode()
        begin = b'{"apiVersion":"%b"' % kind.resource.api_version.encode() if kind.converts else b"{"
        place = Place(kind, object_table(kind.key).name, allow, begin)
    _PLACES[parts] = place
    return place


def _is_plain(kind: Kind) -> bool:
    """Test whether stored documents of a kind are served as they are, by the view for stored objects."""
    if kind.key in encryption.KINDS or kind.key == FAILOVER_CONFIGURATION:
        return False
    resource = kind.resource
    space = "/namespaces/a" if resource.namespaced else ""
    group = f"apis/{resource.group}" if resource.group else "api"
    return lean.is_served(f"/{group}/{resource.version}{space}/{resource.plural}/a")


def is_gone(cycle: RequestResponseCycle) -> bool:
    """Test whether the connection of a request is closed. Of pipelined requests, uvicorn marks only the newest."""
    return cycle.disconnected or cycle.transport.is_closing()


@contextmanager
def apart(cycle: RequestResponseCycle) -> Iterator[None]:
    """Answer one request of a group: an error ends its connection, and the other requests are answered."""
    try:
        yield
    except Exception:
        log.exception("a request of the direct way could not be answered, and its connection is closed")
        cycle.transport.abort()


def send(cycle: RequestResponseCycle, status: int, headers: bytes, body: bytes) -> None:
    """Send an answer as uvicorn would. `headers`: those of the application, each with its line end."""
    head = [STATUS_LINE[status]]
    for name, value in cycle.default_headers:
        head += (name, b": ", value, b"\r\n")
    head += (headers, b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n", body)
    cycle.transport.write(b"".join(head))
    cycle.response_started = cycle.response_complete = True
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()


def lines_of(headers: Headers) -> bytes:
    """Return headers as they are sent."""
    return b"".join(b"%b: %b\r\n" % header for header in headers)


@lru_cache(maxsize=lean.MOST_KEPT)
def headers_of_json(allow: bytes, scheme: str) -> bytes:
    """Return the headers of all answers in JSON, up to the length of the body."""
    headers = [(b"content-type", b"application/json"), (b"allow", allow), *lean.headers_of_every_answer(scheme)]
    return lines_of(headers) + b"content-length: "
