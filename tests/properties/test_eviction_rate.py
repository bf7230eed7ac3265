"""The bucket never gives more than capacity and rate allow, whatever clocks, rates and callers do [bounded-rate]
[tier-makes-no-tokens]."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from controlplane.eviction.rate import Bucket, capacity, take_tokens

RATES = st.sampled_from([0.0, 0.1, 1 / 3, 0.5, 1.0, 7.5, 50.0, 10_000.0])
GAPS = st.floats(0, 100) | st.sampled_from([0.0, 1e-6, 2.0, 3600.0, -3600.0])
STEPS = st.lists(st.tuples(GAPS, st.integers(0, 5000), RATES), max_size=60)


def ran(steps: list[tuple[float, int, float]]) -> list[tuple[float, float, int]]:
    """Return (seconds since the step before, rate, granted) of every step."""
    bucket, at, reported = None, 0.0, []
    for gap, wanted, rate in steps:
        at += gap
        taken = take_tokens(bucket, wanted, rate=rate, at=at)
        bucket = taken.bucket
        reported.append((gap, rate, taken.granted))
    return reported


@given(STEPS)
def test_i2_no_window_holds_more_than_its_capacity_and_what_the_rate_made(
    steps: list[tuple[float, int, float]],
) -> None:
    reported = ran(steps)

    for first in range(len(reported)):
        allowed = float(capacity(reported[first][1]))
        for granted, (gap, rate, _), before in zip(
            accumulate(one[2] for one in reported[first:]), reported[first:], [None, *reported[first:]], strict=False
        ):
            if before is not None:
                allowed += max(0.0, gap) * before[1]
            assert granted <= allowed + 1e-6, (rate, reported[first:])


@given(st.floats(0, 1), RATES, RATES, st.floats(0, 1e9))
def test_i12_a_tier_change_never_creates_tokens(share: float, old: float, new: float, at: float) -> None:
    bucket = Bucket(share * capacity(old), old, at)

    after = take_tokens(bucket, 0, rate=new, at=at).bucket

    assert after.tokens <= bucket.tokens


@given(st.floats(0, 1), RATES, RATES, st.floats(0, 1e4))
def test_i12_time_before_a_tier_change_counts_at_the_lower_rate(
    share: float, old: float, new: float, gap: float
) -> None:
    bucket = Bucket(share * capacity(old), old, 0.0)

    after = take_tokens(bucket, 0, rate=new, at=gap).bucket

    assert after.tokens <= bucket.tokens + gap * min(old, new) + 1e-6


@given(st.floats(0, 1), RATES, st.floats(0, 1e6))
def test_a_clock_that_goes_back_gives_nothing(share: float, rate: float, back: float) -> None:
    bucket = Bucket(share * capacity(rate), rate, 2e6)

    assert take_tokens(bucket, 0, rate=rate, at=2e6 - back).bucket.tokens <= bucket.tokens


@given(RATES, st.integers(0, 5000), st.floats(0, 1e9))
def test_a_new_or_flushed_bucket_is_empty(rate: float, wanted: int, at: float) -> None:
    assert take_tokens(None, wanted, rate=rate, at=at).granted == 0


@given(RATES.filter(bool), st.floats(0, 1))
def test_the_wait_that_is_named_is_long_enough_and_not_longer(rate: float, share: float) -> None:
    bucket = Bucket(share * 0.999, rate, 0.0)
    wait = take_tokens(bucket, 1, rate=rate, at=0.0).next_in

    assert take_tokens(bucket, 1, rate=rate, at=wait).granted == 1
    assert take_tokens(bucket, 1, rate=rate, at=wait * 0.99).granted == (
        1 if wait * 0.99 * rate + bucket.tokens > 1 - 1e-9 else 0
    )
