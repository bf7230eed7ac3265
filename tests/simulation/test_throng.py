"""Whatever is asked for workloads besides a place, and goes wrong in a failover: nothing breaks, and all that was asked
for is there in the end."""

from __future__ import annotations

import pytest

from controlplane.eviction import leftovers, replacements
from tests.simulation import throng
from tests.simulation.wishes import WISHES

EACH = 2  # how often each comes first
AT_ONCE = 8  # seeds in one test
TEMPTED = (32, 81)  # seeds in which a copy leaves Directly for one that an override policy prevents
MOST = 200


@pytest.mark.parametrize("first", range(0, EACH * len(WISHES), AT_ONCE))
def test_everything_that_was_asked_for_is_there_in_the_end_and_nothing_else(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        throng.run(seed)


def test_a_deleted_workload_loses_its_copies_although_others_could_not_start() -> None:
    throng.run(910_104)


def test_replicas_are_divided_again_when_a_quota_that_refused_more_of_them_is_gone() -> None:
    throng.run(930_044)


@pytest.mark.parametrize("seed", TEMPTED)
def test_a_copy_stays_also_where_it_is_tempted_to_leave_for_nothing(seed: int) -> None:
    throng.run(seed)


def test_a_copy_that_leaves_for_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed means another run whenever a controller comes or goes. Then others are asked, and `TEMPTED` is old."""
    monkeypatch.setattr(replacements, "are_prevented", lambda *anything, **more: False)
    monkeypatch.setattr(leftovers, "are_still_prevented", lambda *anything: False)

    assert any("[purge-modes]" in failure(seed) for seed in (*TEMPTED, *range(MOST)))


def failure(seed: int) -> str:
    """Return what does not hold in a seed; "": everything does."""
    try:
        throng.run(seed)
    except AssertionError as failed:
        return str(failed)
    return ""
