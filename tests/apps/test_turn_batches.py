"""A worker takes on no more at once than its lease lasts for."""

from __future__ import annotations

import pytest

from apps.worker.turn import next_limit


@pytest.mark.parametrize(
    ("limit", "took", "then"),
    [(500, 0.1, 500), (500, 6.0, 250), (1, 60.0, 1), (250, 0.1, 500), (400, 0.1, 500), (250, 3.0, 250)],
)
def test_a_batch_that_nears_the_lease_is_halved_and_a_quick_one_grows_back(limit: int, took: float, then: int) -> None:
    assert next_limit(limit, took, batch=500, lease=15.0) == then


def test_work_of_any_slowness_comes_to_fit_into_the_lease() -> None:
    """Whatever one object costs below a lease, batches end up small enough to be stored."""
    lease, limit = 5.0, 500
    for _ in range(10):
        limit = next_limit(limit, limit * 0.4, batch=500, lease=lease)

    assert limit * 0.4 < lease
