"""How often each kind of trouble happened in a test run, over all its processes; printed at its end.

Tests hand what they saw to their reports (`record`), which pytest-xdist brings to the process that prints.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

PROPERTY = "chaos"
LEAST = 100  # seeds in which each kind has to happen, of ALL
ALL = 1000
LONG = 0.3  # seconds of processor time: what a seed may take

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
        at = {share: times[min(len(times) - 1, round(share * len(times)))] for share in (0.5, 0.9, 0.99)}
        spent = ", ".join(f"{100 * share:g} % within {seconds:.3f} s" for share, seconds in at.items())
        long = sum(seconds > LONG for seconds in times)
        return [
            f"{len(times)} seeds, {sum(times):.0f} s of processor time",
            f"{spent}, longest {times[-1]:.3f} s, {long} of them over {LONG} s",
            *bars,
            *(f"happened too rarely: {one}" for one in self.rare),
        ]
