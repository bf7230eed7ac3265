"""The order of tests for pytest-xdist: each process begins with its share of the long ones.

With `--dist worksteal`, each process gets an equal part of the list at first, and later takes tests from the end of the
longest list that is left. Long tests must not be left to the end, when the other processes have nothing to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

TOGETHER = "acceptance"  # a folder whose files share one running product


def unit_of(item: pytest.Item) -> str:
    """Return what a process runs as a whole at first: a file, or the folder whose files share a product."""
    return TOGETHER if TOGETHER in Path(item.nodeid.partition("::")[0]).parts else item.nodeid.partition("::")[0]


def long_first(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """Return all tests in an order whose equal parts each begin with files that have tests marked as slow."""
    units: dict[str, list[pytest.Item]] = {}
    for item in items:
        units.setdefault(unit_of(item), []).append(item)
    shares: list[list[pytest.Item]] = [[] for _ in range(processes)]
    others: list[pytest.Item] = []
    for unit in units.values():
        is_long = any(item.get_closest_marker("slow") for item in unit)
        (min(shares, key=len) if is_long else others).extend(unit)
    ordered: list[pytest.Item] = []
    for number, share in enumerate(shares):
        size = (len(items) - len(ordered)) // (processes - number)
        more = max(0, size - len(share))
        ordered += [*share, *others[:more]]
        del others[:more]
    return ordered + others
