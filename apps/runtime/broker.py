"""Redis: the broker and the token buckets. Asked at the end of a turn, because without it nobody rings again."""

from __future__ import annotations

from functools import lru_cache

import redis
from django.conf import settings


@lru_cache(maxsize=1)
def client() -> redis.Redis:
    """Return this process's connection; what it asks fails within a second or two."""
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1)


def reachable() -> bool:
    """Test whether Redis answers within a second."""
    try:
        return bool(client().ping())
    except (redis.RedisError, OSError):
        return False
