"""Whatever features are used in the middle of a failover: nothing breaks, all that was asked for is there in the end,
and then everything is at rest."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation import chaos, crowd, distant, motley, pulled, throng
from tests.simulation.features import FEATURES

AT_ONCE = 10  # seeds in one test: each comes first once
APART = 5  # seeds with agents
RESTS = 60.0  # seconds in which nothing may be written


def test_everything_that_was_asked_for_is_there_in_the_end_and_nothing_else() -> None:
    assert len(FEATURES) == AT_ONCE

    for seed in range(AT_ONCE):
        motley.run(seed)


def test_so_it_is_with_agents_that_stop_lag_and_lose_their_disk() -> None:
    for seed in range(APART):
        distant.run(seed)


@pytest.mark.parametrize("story", [chaos, crowd, throng, pulled, motley, distant])
def test_nothing_is_written_any_more_when_all_has_healed(story: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos.Chaos, "rest", RESTS)

    story.run(0)
