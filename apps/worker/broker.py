"""The connection to Redis, which carries the ticks of beat and holds the token buckets."""

from __future__ import annotations

from functools import lru_cache

import redis

from apps.failover.redis_client import redis_client


@lru_cache(maxsize=1)
def client() -> redis.Redis:
    """Return this process's Redis client. A call to it fails after at most about two seconds if Redis is away."""
    return redis_client()
