"""The connections to Redis, with a short limit for calls while Redis is away."""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, Final
from urllib.parse import urlsplit

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

ATTEMPTS_AGAIN = 1  # a pooled connection may have ended since: redis-py's default is three, with seconds between them
TIMEOUT_SECONDS = 1.0

_lookups: Final[dict[str, Thread]] = {}  # by host; the last one of each
_lock: Final = Lock()


class _Named(redis.Connection):
    """A connection that waits no longer for the lookup of its host than for the host itself.

    The limits of a socket do not hold for a lookup, which takes half a minute if the name server does not answer.
    """

    def _connect(self) -> Any:
        _await_name(self.host, self.port)
        return super()._connect()


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


def _await_name(host: str, port: int) -> None:
    """Wait until a name server has answered for a host. Raises TimeoutError after TIMEOUT_SECONDS.

    A lookup cannot be broken off: the next call waits for the one that is under way.
    """
    with _lock:
        lookup = _lookups.get(host)
        if lookup is None or not lookup.is_alive():
            lookup = _lookups[host] = Thread(target=_look_up, args=(host, port), name="resolve", daemon=True)
            lookup.start()
    lookup.join(TIMEOUT_SECONDS)
    if lookup.is_alive():
        raise TimeoutError(f"no name server answers for {host}")


def _look_up(host: str, port: int) -> None:
    with suppress(OSError):  # the connection looks the name up as well, and reports why that fails
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
