"""How often each kind of trouble happened in a test run, over all its processes; printed at its end.

Tests hand what they saw to their reports (`record`), which pytest-xdist brings to the process that prints.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

PROPERTY = "chaos"
LEAST = 50  # seeds in which each kind has to happen, of ALL; most do in more than 100
ALL = 1000

Seen = dict[str, Any]  # seeds: how many ran; seconds: of processor time for each; fired: in how many seeds, by fault


class Histogram:
    """Adds up what the tests of one run saw."""

    def __init__(self) -> None:
        self.fired: Counter[str] = Counter()
        self.seconds: list[float] = []

    def add(self, properties: list[tuple[str, Any]]) -> None:
        """Add what one test saw, where it ran seeds."""
        for name, seen in properties:
            if name == PROPERTY:
                self.fired.update(seen["fired"])
                self.seconds += seen["seconds"]

    @property
    def rare(self) -> list[str]:
        """Return the faults that happened in too few seeds of a whole run; none where only some seeds ran."""
        if len(self.seconds) < ALL:
            return []
        return [f"{fault}: {count} of {len(self.seconds)}" for fault, count in self.fired.items() if count < LEAST]

    def lines(self) -> list[str]:
        """Return the histogram as lines."""
        if not self.seconds:
            return []
        times, widest = sorted(self.seconds), max(self.fired.values(), default=1) or 1
        bars = [
            f"{fault:<22} {count:>5} {'#' * round(40 * count / widest)}" for fault, count in sorted(self.fired.items())
        ]
        spent = (
            f"{sum(times):.0f} s of processor time, median {times[len(times) // 2]:.3f} s, longest {times[-1]:.3f} s"
        )
        return [f"{len(times)} seeds, {spent}", *bars, *(f"happened too rarely: {one}" for one in self.rare)]
