"""How often each kind of trouble happened in a test run, over all its processes, and what seeds took.

It is printed at the end. Tests hand what they saw to their reports (`record_property`), which pytest-xdist brings to
the process that prints.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.simulation.yardstick import STEPS

PROPERTY = "chaos"
LEAST = 100  # seeds in which each kind has to happen, of ALL
ALL = 1000
LONG = 0.3  # seconds of processor time: what a seed may take

# seconds: of processor time, by seed; yardstick: the same, of a `yardstick` right before; fired: in how many seeds, by
# fault
Seen = dict[str, Any]


class Histogram:
    """Adds up what the tests of one run saw."""

    def __init__(self) -> None:
        self.fired: Counter[str] = Counter()
        self.seconds: dict[int, float] = {}
        self.yardsticks: list[float] = []

    def add(self, properties: list[tuple[str, Any]]) -> None:
        """Add what one test saw, where it ran seeds."""
        for name, seen in properties:
            if name == PROPERTY:
                self.fired.update(seen["fired"])
                self.seconds.update(seen["seconds"])
                self.yardsticks.append(seen["yardstick"])

    @property
    def rare(self) -> list[str]:
        """Return the faults that happened in too few seeds of a whole run; none where only some seeds ran."""
        if len(self.seconds) < ALL:
            return []
        return [f"{fault}: {count} of {len(self.seconds)}" for fault, count in self.fired.items() if count < LEAST]

    def lines(self) -> list[str]:
        """Return the histogram as lines, and what seeds took below it."""
        if not self.seconds:
            return []
        widest = max(self.fired.values(), default=1) or 1
        bars = [
            f"{fault:<22} {count:>5} {'#' * round(40 * count / widest)}" for fault, count in sorted(self.fired.items())
        ]
        return [*bars, *(f"happened too rarely: {one}" for one in self.rare), "", *self._took()]

    def _took(self) -> list[str]:
        times, hosts = sorted(self.seconds.values()), sorted(self.yardsticks)
        longest, slowest = times[-1], max(self.seconds, key=self.seconds.__getitem__)
        at = {share: times[min(len(times) - 1, round(share * len(times)))] for share in (0.5, 0.9, 0.99)}
        within = ", ".join(f"{100 * share:g} % within {seconds:.3f} s" for share, seconds in at.items())
        return [
            f"{sum(one > LONG for one in times)} of {len(times)} seeds took more than {LONG} s of processor time: "
            f"longest {longest:.3f} s (seed {slowest}), {within}, {sum(times):.0f} s in all",
            f"beside them {STEPS:,} additions in Python took this host {1000 * hosts[0]:.0f} ms at its best, "
            f"{1000 * hosts[len(hosts) // 2]:.0f} ms mostly, {1000 * hosts[-1]:.0f} ms at its worst",
        ]
