"""The tokens that a bucket gives, and when the next one is there."""

from __future__ import annotations

import pytest

from controlplane.eviction.rate import Bucket, take_tokens


@pytest.mark.parametrize(
    ("tokens", "passed", "rate", "wanted", "granted", "next_in"),
    [
        (0.0, 0.0, 0.5, 1, 0, 2.0),
        (0.0, 1.0, 0.5, 1, 0, 1.0),
        (0.0, 2.0, 0.5, 1, 1, 2.0),
        (3.0, 0.0, 20.0, 1, 1, 0.0),  # more are there
        (3.0, 0.0, 20.0, 9, 3, 0.05),
        (3.5, 0.0, 20.0, 3, 3, 0.025),
        (3.0, 0.0, 20.0, 0, 0, 0.0),
        (9.0, 0.0, 0.5, 9, 1, 2.0),  # at this rate a bucket holds 1
        (3.0, 9.0, 0.0, 1, 0, -1.0),  # at rate 0 there is never one
        (0.0, 0.0, 4.0, 1, 0, 0.25),
    ],
)
def test_whole_tokens_are_granted_and_the_time_of_the_next_is_named(
    tokens: float, passed: float, rate: float, wanted: int, granted: int, next_in: float
) -> None:
    taken = take_tokens(Bucket(tokens, rate, 100.0), wanted, rate=rate, at=100.0 + passed)

    assert (taken.granted, taken.next_in) == (granted, pytest.approx(next_in))
    assert taken.bucket.at == 100.0 + passed


def test_a_bucket_that_was_lost_is_empty() -> None:
    taken = take_tokens(None, 5, rate=0.5, at=100.0)

    assert (taken.granted, taken.bucket, taken.next_in) == (0, Bucket(0.0, 0.5, 100.0), 2.0)
