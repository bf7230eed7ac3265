"""Whatever people do in the middle of a failover, at once and against each other: nothing breaks, and all is there in
the end."""

from __future__ import annotations

import pytest

from tests.simulation import crowd
from tests.simulation.people import ACTS

EACH = 2  # how often each comes first
AT_ONCE = 8  # seeds in one test


@pytest.mark.parametrize("first", range(0, EACH * len(ACTS), AT_ONCE))
def test_everything_that_was_asked_for_is_there_in_the_end_and_nothing_else(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        crowd.run(seed)
