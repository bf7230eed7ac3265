"""Eviction tokens in Redis: the bucket of `controlplane.eviction.rate` as an atomic Lua script, on the clock of Redis.

If Redis cannot be reached or refuses to write, no tokens are granted. After a flush of Redis the buckets are empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import redis

from controlplane.eviction.rate import TakeTokens, Tokens, capacity

SCRIPT = (Path(__file__).parent / "bucket.lua").read_text()
PREFIX = "lifeboat:eviction-bucket:"
LOOK_AGAIN_SECONDS = 1.0
# After a failure, Redis is asked so much later if no token is wanted: a Redis that does not answer costs each question
# two seconds, in which the other controllers of the group wait.
UNASKED_SECONDS = 10.0
PROBE_MILLISECONDS = 1000  # lifetime of the key that is written to find out whether Redis accepts writes

# By the class of redis-py for a refusal, or by the first word of the refusal if there is no class. Users do not see the
# text of a refusal, because it may contain keys and logins.
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
    """The token buckets of the fleet. `answer` is an answer function for `controlplane.engine.run.World`.

    `clock`: seconds, for the pause after a failure.
    """

    def __init__(self, client: redis.Redis, *, prefix: str = PREFIX, clock: Callable[[], float] = monotonic) -> None:
        self._script: Any = client.register_script(SCRIPT)
        self._client = client
        self._prefix = prefix
        self._clock = clock
        # When Redis failed last, at which rate it was asked, and the answer; None: it answered.
        self._failure: tuple[float, float, Tokens] | None = None

    def take(self, n: int, rate: float, *, bucket: str = "fleet") -> tuple[int, float]:
        """Take up to `n` tokens from a bucket that fills with `rate` tokens a second.

        Return the number of granted tokens and the seconds until the next token; -1: never at this rate. Raises
        redis.RedisError if Redis cannot be reached or refuses to write.
        """
        return self._take_all({bucket: n}, rate)[bucket]

    def _take_all(self, wanted: Mapping[str, int], rate: float) -> dict[str, tuple[int, float]]:
        """Take tokens from buckets, as `take` does, and return the answers. All are asked together.

        A Redis that is slow or far away would cost a question for each cluster more than the lease lasts.
        """
        names = sorted(wanted)
        pipeline = self._client.pipeline(transaction=False)
        for name in names:
            args = [wanted[name], f"{float(rate):.17g}", capacity(rate)]
            self._script(keys=[self._prefix + name], args=args, client=pipeline)
        answers = pipeline.execute(raise_on_error=False)  # it would put words of its own before those of Redis
        for answer in answers:
            if isinstance(answer, redis.RedisError):
                raise answer
        return {
            name: (int(granted), float(next_in)) for name, (granted, next_in, _left) in zip(names, answers, strict=True)
        }

    def probe(self) -> None:
        """Write a key, as granting a token does. Raises redis.RedisError if Redis cannot be reached or refuses."""
        self._client.set(self._prefix + "probe", "", px=PROBE_MILLISECONDS)

    def levels(self, buckets: Iterable[str]) -> dict[str, float]:
        """Return how many tokens each bucket has now, with one request. Raises redis.RedisError as `take` does."""
        names = sorted(buckets)
        pipeline = self._client.pipeline(transaction=False)
        pipeline.time()
        for name in names:
            pipeline.hmget(self._prefix + name, "tokens", "rate", "at")
        (seconds, micros), *stored = pipeline.execute()
        now = seconds + micros / 1_000_000
        return {name: _level(values, at=now) for name, values in zip(names, stored, strict=True)}

    def answer(self, question: TakeTokens) -> Tokens:
        """Return the tokens for a question; none, with the problem, if Redis cannot be reached or refuses.

        A question that wants no token, at the same rate, is not asked within UNASKED_SECONDS of a failure. The answer
        is the same again.
        """
        failure = self._failure  # read once: another thread may ask too
        if failure is not None and not any(question.wanted.values()):
            failed_at, rate, answer = failure
            if rate == question.rate and self._clock() < failed_at + UNASKED_SECONDS:
                return answer
        try:
            taken = self._take_all(question.wanted, question.rate)
        except redis.RedisError as error:
            # Tokens that were taken before the failure are lost. So the rate is never exceeded [bounded-rate].
            answer = Tokens({}, LOOK_AGAIN_SECONDS, problem="Redis grants no tokens", detail=refusal(error))
            self._failure = self._clock(), question.rate, answer
            return answer
        self._failure = None
        granted = {bucket: tokens for bucket, (tokens, _) in taken.items()}
        return Tokens(granted, min((wait for _, wait in taken.values() if wait >= 0), default=-1.0))


def refusal(error: redis.RedisError) -> str:
    """Return why Redis refused a request, for users: without addresses, keys and logins."""
    for class_ in type(error).__mro__:
        if class_ in _REFUSALS:
            return _REFUSALS[class_]
    return _REFUSALS.get(str(error).partition(" ")[0], f"it answers with an error ({type(error).__name__})")


def _level(stored: Sequence[Any], *, at: float) -> float:
    """Return the tokens of a bucket at a time. `stored`: its values in Redis; all None: the bucket is empty."""
    tokens, rate, then = stored
    if tokens is None:
        return 0.0
    return min(float(capacity(float(rate))), float(tokens) + max(0.0, at - float(then)) * float(rate))
