"""The token bucket that limits the eviction rate, as arithmetic on floats [bounded-rate] [tier-makes-no-tokens].

`apps/failover/bucket.lua` computes the same in Redis. The capacity is max(1, ceil(rate × 0.25 s)) and a new bucket is
empty. A change of the rate adds no tokens: the time before it counts at the lower of the two rates. A clock that moves
back adds no tokens, and a clock that jumps ahead fills the bucket.
"""

from __future__ import annotations

import math
from datetime import timedelta

import msgspec

BURST_SECONDS = 0.25
SHORTEST_PAUSE = timedelta(milliseconds=1)  # between two requests for a token
LONGEST_PAUSE = timedelta(hours=1)  # a slow bucket is asked again at least this often
ALMOST_ONE = 1 - 1e-9  # counts as a whole token: sums of floats may be short by less than this


class Bucket(msgspec.Struct, frozen=True):
    """A bucket with `tokens` at time `at` (seconds of the bucket's own clock), filled at `rate` tokens per second."""

    tokens: float
    rate: float
    at: float


class Taken(msgspec.Struct, frozen=True):
    """How many tokens were granted, the bucket afterwards, and the seconds until the next token (-1: there will be
    none)."""

    granted: int
    bucket: Bucket
    next_in: float


def capacity(rate: float) -> int:
    """Return how many tokens a bucket holds at a rate in tokens per second."""
    return max(1, math.ceil(rate * BURST_SECONDS))


def take_tokens(bucket: Bucket | None, wanted: int, *, rate: float, at: float) -> Taken:
    """Take up to `wanted` tokens at time `at`. `bucket` None: the bucket is new or was lost, so it is empty."""
    before = Bucket(0.0, rate, at) if bucket is None else bucket
    elapsed = max(0.0, at - before.at)
    tokens = min(float(capacity(rate)), before.tokens + elapsed * min(rate, before.rate))
    granted = min(wanted, math.floor(tokens + 1 - ALMOST_ONE)) if rate > 0 else 0
    left = max(0.0, tokens - granted)
    next_in = max(0.0, (1 - left) / rate) if rate > 0 else -1.0
    return Taken(granted, Bucket(left, rate, at), next_in)


def retry_delay(next_in: float) -> timedelta:
    """Return how long to wait before the next request for tokens: `next_in` seconds, at most one hour."""
    return timedelta(seconds=min(next_in, LONGEST_PAUSE.total_seconds()))


class TakeTokens(msgspec.Struct, frozen=True):
    """A request for tokens from buckets by name. It is also made at rate 0, so that no bucket fills in the meantime."""

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
    """Return the name of the bucket for evictions from a cluster. `scope`: setting eviction.bucket_scope."""
    return FLEET_BUCKET if scope == "Fleet" else f"cluster/{cluster}"
