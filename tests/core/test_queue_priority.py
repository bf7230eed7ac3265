"""The order of due evictions: by priority, which grows with the time waited, then by due time, then by key."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.eviction.queue_priority import aged_priority, sorted_due
from controlplane.kinds.rows import Eviction
from tests.builders.objects import START, eviction

AGEING = 100.0


def row(key: str, *, due: float | None = 0.0, priority: int = 0) -> Eviction:
    due_at = None if due is None else START + timedelta(seconds=due)
    return eviction("web", key=key, due_at=due_at, priority=priority)


@pytest.mark.parametrize(
    ("due", "after", "priority"), [(0, 0, 5), (0, 99.9, 5), (0, 100, 6), (0, 250, 7), (300, 200, 5), (None, 1000, 5)]
)
def test_a_priority_grows_by_one_for_each_whole_time_waited(due: float | None, after: float, priority: int) -> None:
    now = START + timedelta(seconds=after)

    assert aged_priority(row("x", due=due, priority=5), ageing_seconds=AGEING, now=now) == priority


@pytest.mark.parametrize(
    ("rows", "order"),
    [
        ([row("a", due=1000), row("b", due=1000.001), row("c", due=None)], "a"),  # due at this moment is due
        ([row("a", due=950, priority=1), row("b", due=950, priority=2)], "ba"),
        ([row("a", due=990, priority=1), row("b", due=890)], "ba"),  # 1 for the time waited, and due earlier
        ([row("a", due=990, priority=2), row("b", due=890)], "ab"),
        ([row("a", due=960), row("b", due=950)], "ba"),
        ([row("b", due=950), row("a", due=950)], "ab"),
    ],
)
def test_due_rows_are_in_the_order_of_their_eviction(rows: list[Eviction], order: str) -> None:
    now = START + timedelta(seconds=1000)

    assert "".join(one.key for one in sorted_due(rows, ageing_seconds=AGEING, now=now)) == order
