"""Whatever features are used in the middle of a failover: nothing breaks, all that was asked for is there in the end,
and then everything is at rest."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation import chaos, crowd, motley, pulled, throng
from tests.simulation.features import FEATURES

EACH = 2  # how often each comes first
AT_ONCE = 9  # seeds in one test
RESTS = 60.0  # seconds in which nothing may be written


@pytest.mark.parametrize("first", range(0, EACH * len(FEATURES), AT_ONCE))
def test_everything_that_was_asked_for_is_there_in_the_end_and_nothing_else(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        motley.run(seed)


@pytest.mark.parametrize("story", [chaos, crowd, throng, pulled, motley])
def test_nothing_is_written_any_more_when_all_has_healed(story: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos.Chaos, "rest", RESTS)

    story.run(0)
