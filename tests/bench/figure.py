"""A measured figure, and the machine it was measured on."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Figure:
    """One number with its unit, how many samples it stands on and under which conditions."""

    name: str
    value: float
    unit: str
    n: int
    conditions: str


def machine() -> str:
    """Return processor count, load and Python, to read figures by."""
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return f"{os.cpu_count()} × {platform.machine()}, load {load}, Python {platform.python_version()}"


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as lines of text."""
    width = max(len(one.name) for one in figures)
    return "\n".join(
        f"{one.name:<{width}}  {one.value:>12,.1f} {one.unit:<10} n={one.n:<8,} {one.conditions}" for one in figures
    )


def lines(figures: Sequence[Figure], *, on: str) -> str:
    """Return the figures as lines of JSON."""
    return "".join(json.dumps({**asdict(one), "machine": on}) + "\n" for one in figures)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that a share (0…1) of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
