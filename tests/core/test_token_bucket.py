"""What the token bucket of the eviction rate grants, to the figure [bounded-rate]."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.eviction.rate import Bucket, bucket_of, capacity, retry_delay, take_tokens


@pytest.mark.parametrize(("rate", "tokens"), [(0, 1), (0.5, 1), (4, 1), (5, 2), (8, 2), (9, 3), (100, 25)])
def test_a_bucket_holds_what_a_quarter_of_a_second_brings_and_at_least_one(rate: float, tokens: int) -> None:
    assert capacity(rate) == tokens


@pytest.mark.parametrize(
    ("tokens", "granted", "left", "next_in"),
    [
        (0.25, 0, 0.25, 0.375),
        (0.999, 0, 0.999, 0.0005),
        (1 - 1e-10, 1, 0.0, 0.5),  # sums of floats may be short of a whole token by this
        (1.0, 1, 0.0, 0.5),
    ],
)
def test_only_whole_tokens_are_granted_and_the_next_one_is_predicted(
    tokens: float, granted: int, left: float, next_in: float
) -> None:
    taken = take_tokens(Bucket(tokens, 2.0, at=10.0), 5, rate=2.0, at=10.0)

    assert (taken.granted, taken.bucket.tokens) == (granted, pytest.approx(left))
    assert taken.next_in == pytest.approx(next_in, abs=1e-6)


def test_a_rate_of_zero_grants_nothing_and_foretells_nothing() -> None:
    taken = take_tokens(Bucket(1.0, 0.0, at=10.0), 1, rate=0.0, at=1_000.0)

    assert (taken.granted, taken.next_in) == (0, -1.0)
    assert taken.bucket == Bucket(1.0, 0.0, at=1_000.0)


def test_time_before_a_change_of_the_rate_counts_at_the_lower_rate() -> None:
    for before, after in ((0.1, 0.2), (0.2, 0.1)):
        taken = take_tokens(Bucket(0.0, before, at=0.0), 1, rate=after, at=5.0)

        assert taken.bucket.tokens == pytest.approx(0.5)


def test_a_clock_that_moves_back_takes_and_adds_nothing() -> None:
    taken = take_tokens(Bucket(0.5, 0.2, at=10.0), 1, rate=0.2, at=4.0)

    assert (taken.granted, taken.bucket) == (0, Bucket(0.5, 0.2, at=4.0))


def test_a_bucket_is_asked_again_when_it_has_a_token_and_at_least_every_hour() -> None:
    assert retry_delay(2.5) == timedelta(seconds=2.5)
    assert retry_delay(7_200.0) == timedelta(hours=1)


def test_evictions_share_one_bucket_or_have_one_for_each_cluster() -> None:
    assert [bucket_of(name, "Fleet") for name in ("member1", "member2")] == ["fleet", "fleet"]
    assert bucket_of("member1", "Cluster") == "cluster/member1"
