"""The token bucket, as arithmetic on floats (D7, I2, I12). `apps/failover/bucket.lua` is the same, step by step.

Capacity is max(1, ceil(rate × 0.25 s)); a bucket starts empty; changing the rate creates nothing: the time before a
change is counted at the lower of the two rates. A clock that goes back gives nothing, one that leaps fills the bucket.
"""

from __future__ import annotations

import math
from datetime import timedelta

import msgspec

BURST_SECONDS = 0.25
SHORTEST_PAUSE = timedelta(milliseconds=1)  # for a token that is all but there
LONGEST_PAUSE = timedelta(hours=1)  # whoever waits for a slow bucket looks again meanwhile
ALMOST_ONE = 1 - 1e-9  # so much of a token is a token: sums of floats fall short by less than this


class Bucket(msgspec.Struct, frozen=True):
    """`tokens` at the moment `at` (seconds of the bucket's own clock), filling at `rate` tokens a second."""

    tokens: float
    rate: float
    at: float


class Taken(msgspec.Struct, frozen=True):
    """How many tokens were granted, the bucket afterwards, and seconds until the next token (-1: never)."""

    granted: int
    bucket: Bucket
    next_in: float


def capacity(rate: float) -> int:
    """Return how many tokens a bucket holds at a rate of tokens per second."""
    return max(1, math.ceil(rate * BURST_SECONDS))


def take_tokens(bucket: Bucket | None, wanted: int, *, rate: float, at: float) -> Taken:
    """Take up to `wanted` tokens at the moment `at`. None: the bucket is new or was lost, and is empty."""
    known = Bucket(0.0, rate, at) if bucket is None else bucket
    elapsed = max(0.0, at - known.at)
    tokens = min(float(capacity(rate)), known.tokens + elapsed * min(rate, known.rate))
    granted = min(wanted, math.floor(tokens + 1 - ALMOST_ONE)) if rate > 0 else 0
    left = max(0.0, tokens - granted)
    next_in = max(0.0, (1 - left) / rate) if rate > 0 else -1.0
    return Taken(granted, Bucket(left, rate, at), next_in)


def retry_delay(next_in: float) -> timedelta:
    """Return how long to wait until asking again, of the seconds until the next token: an hour at most."""
    return timedelta(seconds=min(next_in, LONGEST_PAUSE.total_seconds()))


class TakeTokens(msgspec.Struct, frozen=True):
    """A question to the world: tokens from buckets by name. Asked with rate 0 too: no bucket fills meanwhile."""

    wanted: dict[str, int]
    rate: float


class Tokens(msgspec.Struct, frozen=True):
    """The answer to TakeTokens.

    `granted`: tokens by bucket. `next_in`: seconds until the next token, -1: there will be none. `problem`: why no
    token could be taken, for example because Redis does not answer; no evictions take place then. `detail`: its cause.
    """

    granted: dict[str, int]
    next_in: float
    problem: str = ""
    detail: str = ""


FLEET_BUCKET = "fleet"


def bucket_of(cluster: str, scope: str) -> str:
    """Return which bucket an eviction from a cluster takes its token from (eviction.bucket_scope)."""
    return FLEET_BUCKET if scope == "Fleet" else f"cluster/{cluster}"
