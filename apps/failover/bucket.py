"""Eviction tokens from Redis: `controlplane.eviction.rate` as a Lua script, atomic, on Redis' own clock.

A Redis that is away, or that refuses to write, grants no tokens. A flushed Redis is an empty bucket. Nothing else is
kept there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import redis

from controlplane.eviction.rate import TakeTokens, Tokens, capacity

SCRIPT = (Path(__file__).parent / "bucket.lua").read_text()
PREFIX = "lifeboat:eviction-bucket:"
LOOK_AGAIN_SECONDS = 1.0
PROBE_MILLISECONDS = 1000  # a key that shows that Redis takes writes lives so long

# By the class redis-py gives an answer that refuses, or by its first word where it has no class for it. The text of an
# answer is not shown: it may name keys and users.
_REFUSALS: Mapping[type[redis.RedisError] | str, str] = {
    redis.exceptions.OutOfMemoryError: "its memory is used up and it takes no writes (OOM, maxmemory)",
    redis.exceptions.ReadOnlyError: "it is a replica and takes no writes (READONLY)",
    redis.exceptions.BusyLoadingError: "it is loading its data (LOADING)",
    redis.exceptions.NoPermissionError: "the login lacks the right to do this (NOPERM)",
    redis.exceptions.MasterDownError: "it is a replica that lost its primary (MASTERDOWN)",
    redis.exceptions.ClusterDownError: "its cluster is down (CLUSTERDOWN)",
    redis.AuthenticationError: "it refuses the login",
    redis.TimeoutError: "it does not answer in time",
    redis.ConnectionError: "it is not reachable",
    "NOREPLICAS": "it takes no writes while too few replicas are connected (NOREPLICAS, min-replicas-to-write)",
    "MISCONF": "it takes no writes because it could not save its data to disk (MISCONF)",
    "BUSY": "it is busy with a script (BUSY)",
    "NOAUTH": "it refuses the login",
}


class RedisBucket:
    """The token buckets of the fleet. `answer` fits `controlplane.engine.run.World`."""

    def __init__(self, client: redis.Redis, *, prefix: str = PREFIX) -> None:
        self._script: Any = client.register_script(SCRIPT)
        self._client = client
        self._prefix = prefix

    def take(self, n: int, rate: float, *, bucket: str = "fleet") -> tuple[int, float]:
        """Take up to `n` tokens from a bucket that fills at `rate` tokens a second.

        Returns the number granted and the seconds until the next token (-1: never at this rate). Raises
        redis.RedisError where Redis is away or refuses to write.
        """
        granted, next_in, _left = self._script(
            keys=[self._prefix + bucket], args=[n, f"{float(rate):.17g}", capacity(rate)]
        )
        return int(granted), float(next_in)

    def probe(self) -> None:
        """Write a key, as granting a token would. Raises redis.RedisError where Redis is away or refuses to write."""
        self._client.set(self._prefix + "probe", "", px=PROBE_MILLISECONDS)

    def levels(self, buckets: Iterable[str]) -> dict[str, float]:
        """Return how many tokens buckets hold now, asked at once. Raises redis.RedisError as `take` does."""
        names = sorted(buckets)
        asked = self._client.pipeline(transaction=False)
        asked.time()
        for name in names:
            asked.hmget(self._prefix + name, "tokens", "rate", "at")
        (seconds, micros), *found = asked.execute()
        return {name: _level(kept, at=seconds + micros / 1_000_000) for name, kept in zip(names, found, strict=True)}

    def answer(self, question: TakeTokens) -> Tokens:
        """Return the tokens a question asks for; none at all, with the cause, where Redis is away or refuses."""
        granted: dict[str, int] = {}
        waits: list[float] = []
        for bucket, wanted in sorted(question.wanted.items()):
            try:
                granted[bucket], next_in = self.take(wanted, question.rate, bucket=bucket)
            except redis.RedisError as error:
                # What was taken before the failure is spent, not used: the safe side (I2).
                return Tokens({}, LOOK_AGAIN_SECONDS, problem="Redis grants no tokens", detail=refusal(error))
            waits.append(next_in)
        return Tokens(granted, min((wait for wait in waits if wait >= 0), default=-1.0))


def refusal(error: redis.RedisError) -> str:
    """Return why Redis does not do what it was asked, without addresses, keys and logins."""
    for of in type(error).__mro__:
        if of in _REFUSALS:
            return _REFUSALS[of]
    return _REFUSALS.get(str(error).partition(" ")[0], f"it answers with an error ({type(error).__name__})")


def _level(kept: Sequence[Any], *, at: float) -> float:
    """Return the tokens at a moment of what a bucket has kept; one that was lost or never asked is empty."""
    tokens, rate, then = kept
    if tokens is None:
        return 0.0
    return min(float(capacity(float(rate))), float(tokens) + max(0.0, at - float(then)) * float(rate))
