"""How fast a host is: what to hold beside what seeds take on it."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

STEPS = 1_000_000


def yardstick() -> float:
    """Return what STEPS additions in Python take: seconds of processor time."""
    return spent(_count)


def spent(work: Callable[[], object]) -> float:
    """Return what some work takes: seconds of processor time."""
    began = process_time()
    work()
    return process_time() - began


def _count() -> int:
    total = 0
    for step in range(STEPS):
        total += step
    return total
