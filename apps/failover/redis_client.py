"""The connections to Redis, with a short limit for calls while Redis is away."""

from __future__ import annotations

import socket
from threading import Lock, Thread
from time import monotonic
from typing import Any, Final
from urllib.parse import urlsplit

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

ATTEMPTS_AGAIN = 1  # a pooled connection may have ended since: redis-py's default is three, with seconds between them
TIMEOUT_SECONDS = 1.0

REMEMBERED_SECONDS = 30.0  # addresses of a name, unless none of them takes connections any more


class _Lookup:
    """A lookup of a host in a thread of its own, because it cannot be broken off."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._found: list[str] = []
        self._error: OSError | None = None
        self._ended_at = 0.0
        self._thread = Thread(target=self._run, name="resolve", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether nothing is to be expected of it: it has failed, or is too old."""
        return not self._thread.is_alive() and (not self._found or monotonic() > self._ended_at + REMEMBERED_SECONDS)

    def addresses(self) -> list[str]:
        """Return the addresses of the host. Waits at most TIMEOUT_SECONDS. Raises OSError."""
        self._thread.join(TIMEOUT_SECONDS)
        if self._thread.is_alive():
            raise TimeoutError(f"no name server answers for {self._host}")
        if self._error is not None:
            raise self._error
        return self._found

    def _run(self) -> None:
        try:
            found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
            self._found = [str(address[0]) for *_, address in found]
        except OSError as error:
            self._error = error
        self._ended_at = monotonic()


_lookups: Final[dict[str, _Lookup]] = {}  # by host; the last one of each
_lock: Final = Lock()


class _Named(redis.Connection):
    """A connection that waits no longer for the lookup of its host than for the host itself.

    The limits of a socket do not hold for a lookup, which takes half a minute if the name server does not answer. What
    was found too late for one connection is used by the next one.
    """

    def _connect(self) -> Any:
        host = self.host
        lookup, last = _lookup_of(host, self.port), OSError(f"{host} has no address")
        try:
            for address in lookup.addresses():
                self.host = address
                try:
                    return super()._connect()
                except OSError as error:
                    last = error
        finally:
            self.host = host  # certificates have this name
        _forget(host, lookup)
        raise last


class _NamedByTls(redis.SSLConnection, _Named):
    """The same over TLS."""


_CLASSES: Final = {"redis": _Named, "rediss": _NamedByTls}


def redis_client() -> redis.Redis:
    """Return a client of the Redis of the settings.

    A call fails after at most about two seconds if Redis is away: one attempt, one more, and no pause between them.
    """
    scheme = urlsplit(settings.REDIS_URL).scheme
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=TIMEOUT_SECONDS,
        socket_connect_timeout=TIMEOUT_SECONDS,
        retry=Retry(NoBackoff(), ATTEMPTS_AGAIN),
        **({"connection_class": _CLASSES[scheme]} if scheme in _CLASSES else {}),
    )


def _lookup_of(host: str, port: int) -> _Lookup:
    """Return the lookup of a host that is under way or has found addresses, else a new one."""
    with _lock:
        known = _lookups.get(host)
        if known is None or known.is_over:
            known = _lookups[host] = _Lookup(host, port)
        return known


def _forget(host: str, lookup: _Lookup) -> None:
    """Forget addresses that take no connections: the host may have others by now."""
    with _lock:
        if _lookups.get(host) is lookup:
            del _lookups[host]
