"""Eviction tokens from Redis: `controlplane.eviction.rate` as a Lua script, atomic, on Redis' own clock.

Redis away means no tokens; Redis flushed means an empty bucket. Nothing else is kept there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import redis

from controlplane.eviction.rate import TakeTokens, Tokens, capacity

SCRIPT = (Path(__file__).parent / "bucket.lua").read_text()
PREFIX = "lifeboat:eviction-bucket:"
LOOK_AGAIN_SECONDS = 1.0


class RedisBucket:
    """The token buckets of the fleet. `answer` fits `controlplane.run.World`."""

    def __init__(self, client: redis.Redis, *, prefix: str = PREFIX) -> None:
        self._script: Any = client.register_script(SCRIPT)
        self._client = client
        self._prefix = prefix

    def take(self, n: int, rate: float, *, bucket: str = "fleet") -> tuple[int, float]:
        """Take up to `n` tokens from a bucket that fills at `rate` tokens a second.

        Returns the number granted and the seconds until the next token (-1: never at this rate). Raises
        redis.RedisError where Redis cannot be asked.
        """
        granted, next_in, _left = self._script(
            keys=[self._prefix + bucket], args=[n, f"{float(rate):.17g}", capacity(rate)]
        )
        return int(granted), float(next_in)

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
        """Return the tokens a question asks for; none at all, with the problem in words, where Redis is away."""
        granted: dict[str, int] = {}
        waits: list[float] = []
        for bucket, wanted in sorted(question.wanted.items()):
            try:
                granted[bucket], next_in = self.take(wanted, question.rate, bucket=bucket)
            except redis.RedisError as error:
                # What was taken before the failure is spent, not used: the safe side (I2).
                return Tokens({}, LOOK_AGAIN_SECONDS, problem=f"Redis cannot be asked: {error}")
            waits.append(next_in)
        return Tokens(granted, min((wait for wait in waits if wait >= 0), default=-1.0))


def _level(kept: Sequence[Any], *, at: float) -> float:
    """Return the tokens at a moment of what a bucket has kept; one that was lost or never asked is empty."""
    tokens, rate, then = kept
    if tokens is None:
        return 0.0
    return min(float(capacity(float(rate))), float(tokens) + max(0.0, at - float(then)) * float(rate))
