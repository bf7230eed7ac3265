"""A measured figure, what the same machine could do at that time, and the machine it was measured on.

Machines and hours differ by a factor of two and more. So a figure of a fast path has a measure of the machine beside it
that was taken in the same run, and the ratio of the two is what counts.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from time import perf_counter

ROUNDS = 3
LOOP_STEPS = 400_000


@dataclass(frozen=True)
class Figure:
    """One number with its unit, how many samples it stands on and under which conditions.

    spread: the smallest and the largest value of the rounds whose median this is; empty: there was one round.
    beside: what the same machine did in the same run, for example "bare COPY 3,100 bindings/s".
    ratio: this value relative to that measure; None: there is none.
    """

    name: str
    value: float
    unit: str
    n: int
    conditions: str
    spread: tuple[float, ...] = ()
    beside: str = ""
    ratio: float | None = None


def medians(rounds: Sequence[Sequence[Figure]]) -> list[Figure]:
    """Return the median of each figure over rounds that measured the same figures, with the spread.

    The ratio and the measure beside it are those of the round with the median ratio.
    """
    found: list[Figure] = []
    for same in zip(*rounds, strict=True):
        values = [one.value for one in same]
        by_ratio = sorted((one for one in same if one.ratio is not None), key=lambda one: one.ratio or 0.0)
        chosen = by_ratio[len(by_ratio) // 2] if by_ratio else same[0]
        spread = (min(values), max(values)) if len(values) > 1 else ()
        found.append(replace(chosen, value=statistics.median(values), spread=spread))
    return found


def python_loop() -> float:
    """Return how many milliseconds a fixed loop takes: what one core of this machine gives Python at the moment."""
    began, known = perf_counter(), dict[int, int]()
    for number in range(LOOP_STEPS):
        known[number & 1023] = known.get(number & 511, 0) + number
    return (perf_counter() - began) * 1000


def loop_text(milliseconds: float) -> str:
    """Return the time of `python_loop` as it stands beside a figure."""
    return f"Python loop {milliseconds:,.0f} ms"


def machine() -> str:
    """Return processor count, load and Python, to read figures by."""
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return f"{os.cpu_count()} × {platform.machine()}, load {load}, Python {platform.python_version()}"


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as lines of text."""
    width = max((len(one.name) for one in figures), default=0)
    return "\n".join(
        f"{one.name:<{width}}  {one.value:>12,.1f} {one.unit:<10} n={one.n:<8,} {_compared(one)}{one.conditions}"
        for one in figures
    )


def _compared(one: Figure) -> str:
    """Return the spread, the measure beside a figure and the ratio, as far as there are some."""
    parts = [f"{one.spread[0]:,.1f}…{one.spread[1]:,.1f}"] if one.spread else []
    if one.beside:
        parts.append(one.beside)
    if one.ratio is not None:
        parts.append(f"ratio {one.ratio:.2f}")
    return f"[{'; '.join(parts)}] " if parts else ""


def lines(figures: Sequence[Figure], *, on: str) -> str:
    """Return the figures as lines of JSON."""
    return "".join(json.dumps({**asdict(one), "machine": on}) + "\n" for one in figures)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that a share (0…1) of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
