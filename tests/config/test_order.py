"""Tests are divided among processes so that none is left alone with long ones at the end."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.long_first import long_first


class Collected(NamedTuple):
    """What is asked of a test."""

    nodeid: str
    slow: bool = False

    def get_closest_marker(self, name: str) -> bool:
        return self.slow and name == "slow"


FAST = [Collected(f"tests/core/test_{file}.py::test_{number}") for file in range(10) for number in range(9)]
LONG = [
    Collected(f"tests/browser/test_long{file}.py::test_{number}", slow=not number)
    for file in range(8)
    for number in (0, 1)
]
SHARED = [Collected(f"tests/acceptance/test_{file}.py::test_story", slow=True) for file in range(4)]


@pytest.mark.parametrize("processes", [2, 3, 4, 8])
def test_each_process_begins_with_long_tests_and_runs_files_as_a_whole(processes: int) -> None:
    items: list[Any] = [*SHARED, *FAST[:50], *LONG, *FAST[50:]]

    ordered: list[Any] = long_first(items, processes)

    assert sorted(ordered) == sorted(items)
    begins, sent = [], 0
    for number in range(processes):  # as pytest-xdist divides them
        begins.append(ordered[sent])
        sent += (len(items) - sent) // (processes - number)
    assert all("long" in one.nodeid or one in SHARED for one in begins)
    place = ordered.index(SHARED[0])
    assert ordered[place : place + len(SHARED)] == SHARED
    assert [ordered[ordered.index(one) + 1] for one in LONG if one.slow] == [one for one in LONG if not one.slow]
