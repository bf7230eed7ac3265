"""Clusters selected by a constraint on clusters: the preferred ones, exchanged only for capacity that is missing."""

from __future__ import annotations

import numpy as np
import pytest

from controlplane.scheduling.select import _with_capacity


@pytest.mark.parametrize(
    ("capacity", "count", "needed", "chosen"),
    [
        ([2, 2, 5], 2, 4, [0, 1]),  # exactly enough: the preferred clusters stay
        ([9, 2, 5], 2, 4, [0, 1]),  # so they do if it is more than enough
        ([2, 2, 5], 2, 5, [0, 2]),  # the last of them is exchanged first
        ([2, 2, 5, 4], 2, 9, [3, 2]),  # then the last but one
        ([2, 2, 5, 4], 2, 10, None),
        ([1, 9, 3, 3], 2, 12, [2, 1]),  # a cluster with more capacity than those outside stays in its position
        ([2, 3, 3], 2, 6, [2, 1]),  # and with as much
        ([3, 3], 2, 6, [0, 1]),
        ([3, 3], 2, 7, None),
        ([3, 3], 0, 0, None),
    ],
)
def test_preferred_clusters_are_exchanged_from_the_last_on_until_the_capacity_suffices(
    capacity: list[int], count: int, needed: int, chosen: list[int] | None
) -> None:
    found = _with_capacity(np.array(capacity), count, needed)

    assert (None if found is None else found.tolist()) == chosen
