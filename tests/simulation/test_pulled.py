"""Whatever agents of Pull clusters do in the middle of a failover, or do not do: nothing breaks, and all is there in
the end."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation import pulled
from tests.simulation.absences import ABSENCES

EACH = 3  # how often each comes first
AT_ONCE = 10  # seeds in one test: each comes first once


@pytest.mark.parametrize("first", range(0, EACH * len(ABSENCES), AT_ONCE))
def test_everything_that_was_asked_for_is_there_in_the_end_and_nothing_else(first: int) -> None:
    fired = Counter[str]()
    for seed in range(first, first + AT_ONCE):
        fired.update(pulled.run(seed).fired)

    assert set(ABSENCES) <= set(fired), "each of them happens"
