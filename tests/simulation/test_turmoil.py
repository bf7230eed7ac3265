"""Whatever is there already, comes back, goes by other hands or is not what it says in the middle of a failover:
nothing breaks, every stop has a reason that a user sees, and all that was asked for is there in the end."""

from __future__ import annotations

import pytest

from tests.simulation import turmoil
from tests.simulation.mishaps import MISHAPS

AT_ONCE = 6  # seeds in one test: each comes first once
COUNTED = {"put_back", "strayed", "taken", "works_deleted", "refused"}  # those that may come to nothing


@pytest.mark.parametrize("first", range(0, len(MISHAPS), AT_ONCE))
def test_everything_that_was_asked_for_is_there_in_the_end_and_nothing_else(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        fired = turmoil.run(seed).fired
        first_of_all = list(MISHAPS)[seed % len(MISHAPS)]
        assert first_of_all not in COUNTED or fired[first_of_all], f"{first_of_all} came to nothing"
