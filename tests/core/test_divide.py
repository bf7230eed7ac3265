"""The division of replicas over clusters by free capacity, in one step and tier by tier [replica-division]."""

from __future__ import annotations

import numpy as np
import pytest

from controlplane.scheduling.divide import NotEnoughCapacity, Shares, by_free_capacity
from controlplane.scheduling.placement_plan import AGGREGATED

WEIGHTED = "Weighted"


def shares(free: list[int], held: list[int], *, division: str = WEIGHTED, fresh: bool = False) -> Shares:
    return Shares(division, np.array(free), np.array(held), np.arange(len(free)), fresh, False)


@pytest.mark.parametrize("division", [WEIGHTED, AGGREGATED])
@pytest.mark.parametrize(
    ("replicas", "free", "held", "tiers", "found"),
    [
        (4, [4, 4], [0, 0], [0, 1], [4, 0]),  # the first tier has room for all: the second is not used
        (6, [4, 4], [0, 0], [0, 1], [4, 2]),
        (8, [4, 4], [0, 0], [0, 1], [4, 4]),  # all of both
        (3, [0, 4], [0, 0], [0, 1], [0, 3]),  # a tier without room is skipped
        (3, [4, 4], [0, 3], [0, 1], [3, 0]),  # what the second tier holds moves to the first
        (3, [2, 4], [0, 3], [0, 1], [2, 1]),
        (3, [2, 4], [3, 0], [1, 0], [0, 3]),  # tiers count by number and not by place
    ],
)
def test_a_tier_is_filled_before_the_next_is_used(
    division: str, replicas: int, free: list[int], held: list[int], tiers: list[int], found: list[int]
) -> None:
    assert by_free_capacity(replicas, shares(free, held, division=division), np.array(tiers)).tolist() == found


@pytest.mark.parametrize("tiers", [None, [0, 0], [0, 1]])
def test_too_little_capacity_is_reported_with_the_replicas_that_fit(tiers: list[int] | None) -> None:
    with pytest.raises(NotEnoughCapacity, match="room for 7 of 10 replicas") as refused:
        by_free_capacity(10, shares([3, 4], [0, 0]), None if tiers is None else np.array(tiers))

    assert refused.value.part.tolist() == [3, 4]


@pytest.mark.parametrize("division", [WEIGHTED, AGGREGATED])
@pytest.mark.parametrize(
    ("replicas", "held", "found"),
    [
        (5, [4, 1], [4, 1]),  # nothing changes, whatever is free
        (4, [4, 2], {WEIGHTED: [3, 1], AGGREGATED: [4, 0]}),  # fewer: in proportion to what is held
        (7, [4, 1], [4, 3]),  # more: only the difference is divided, by what is free
    ],
)
def test_placed_replicas_stay_and_only_the_difference_is_divided(
    division: str, replicas: int, held: list[int], found: list[int] | dict[str, list[int]]
) -> None:
    expected = found[division] if isinstance(found, dict) else found

    assert by_free_capacity(replicas, shares([0, 9], held, division=division)).tolist() == expected


def test_a_fresh_division_counts_held_replicas_as_free_capacity() -> None:
    assert by_free_capacity(6, shares([0, 2], [4, 0], fresh=True)).tolist() == [4, 2]
    assert by_free_capacity(3, shares([3, 3], [0, 3], fresh=True)).tolist() == [1, 2]
