"""The connections to Redis, with a short limit for calls while Redis is away."""

from __future__ import annotations

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

ATTEMPTS_AGAIN = 1  # a pooled connection may have ended since: redis-py's default is three, with seconds between them
TIMEOUT_SECONDS = 1.0


def redis_client() -> redis.Redis:
    """Return a client of the Redis of the settings.

    A call fails after at most about two seconds if Redis is away: one attempt, one more, and no pause between them.
    """
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=TIMEOUT_SECONDS,
        socket_connect_timeout=TIMEOUT_SECONDS,
        retry=Retry(NoBackoff(), ATTEMPTS_AGAIN),
    )
