"""The chart of lanes lies within its frame, has a bar for each lane and names every time in text."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from controlplane.insight.lane_chart import GUTTER, WIDTH, chart
from controlplane.insight.lanes import lanes
from tests.core.test_lanes import NOW, TAKEN, at, record


def test_without_lanes_nothing_is_drawn() -> None:
    assert chart((), now=NOW) is None


def test_each_lane_has_a_bar_in_the_order_of_time() -> None:
    drawn = chart(lanes([record("web.7")], now=NOW), now=NOW)

    assert drawn is not None
    assert [bar.phase for bar in drawn.bars] == ["Detecting", "Waiting", "Scheduling", "Starting", "Releasing"]
    assert [heading.cluster for heading in drawn.headings] == ["member1"]
    assert drawn.bars[0].x == GUTTER
    ends = [bar.x + bar.width for bar in drawn.bars]
    assert [bar.x for bar in drawn.bars[1:]] == pytest.approx(ends[:-1], abs=0.2)
    assert drawn.bars[0].text == "Detecting 30.0s: from 2026-01-01T00:00:30Z, until 2026-01-01T00:01:00Z"
    assert not any(bar.area or bar.is_open for bar in drawn.bars)


def test_a_phase_that_runs_is_drawn_up_to_now_and_says_so() -> None:
    drawn = chart(lanes([record("web.7", TAKEN[:4])], now=at(100)), now=at(100))

    assert drawn is not None
    last = drawn.bars[-1]
    assert last.is_open
    assert last.x + last.width == pytest.approx(WIDTH - 10, abs=0.2)
    assert "runs" in last.text


def test_many_failovers_in_a_phase_are_an_area_within_their_bar() -> None:
    later = tuple((what, one + 3) for what, one in TAKEN)
    drawn = chart(lanes([record("web.7"), record("api.8", later)], now=NOW), now=NOW)

    assert drawn is not None
    for bar in drawn.bars:
        xs, ys = zip(*(map(float, corner.split(",")) for corner in bar.area.split()), strict=True)
        assert min(xs) >= bar.x - 0.1
        assert max(xs) <= max(bar.x + bar.width, min(xs)) + 0.1
        assert (min(ys), max(ys)) == (bar.y, bar.y + 14)
        assert "2 failovers" in bar.text


@pytest.mark.parametrize("seconds", [0.5, 5, 90, 3600, 86400, 90 * 86400])
def test_the_axis_has_few_times_within_the_frame(seconds: float) -> None:
    steps = (("Seen", 0), ("Tainted", seconds), ("Decided", seconds))
    drawn = chart(lanes([record("web.7", steps)], now=at(seconds)), now=at(seconds) + timedelta(seconds=1))

    assert drawn is not None
    assert 1 <= len(drawn.ticks) <= 16
    assert all(GUTTER <= tick.x <= WIDTH for tick in drawn.ticks)
    assert all(re.fullmatch(r"[\d: -]+", tick.text) for tick in drawn.ticks)
