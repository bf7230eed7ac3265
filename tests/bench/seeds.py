"""seeds: processor time of every seed of random trouble CI runs, one after the other on one core (issue 4: 0.3 s each).

Nothing fails by it: how long a seed takes is the host's affair as well, whose speed is told beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

from tests.bench.figure import Figure, percentile
from tests.simulation import chaos
from tests.simulation.histogram import ALL, LONG

STEPS = 1_000_000


def run() -> list[Figure]:
    """Return what seeds take, and a yardstick to compare hosts by."""
    yardstick = min(_spent(_count) for _ in range(5))
    chaos.run(0)  # the fleet that all seeds begin with is made once
    spent = [_spent(lambda seed=seed: chaos.run(seed)) for seed in range(ALL)]
    trouble = "processor time of one seed"
    return [
        Figure("seeds.p50", 1000 * percentile(spent, 0.5), "ms", ALL, trouble),
        Figure("seeds.p99", 1000 * percentile(spent, 0.99), "ms", ALL, trouble),
        Figure("seeds.longest", 1000 * max(spent), "ms", ALL, f"seed {spent.index(max(spent))}"),
        Figure("seeds.over", sum(one > LONG for one in spent), "seeds", ALL, f"that took more than {LONG} s"),
        Figure("seeds.yardstick", 1000 * yardstick, "ms", 5, f"{STEPS:,} additions in Python on this host, least of 5"),
    ]


def _spent(work: Callable[[], object]) -> float:
    began = process_time()
    work()
    return process_time() - began


def _count() -> int:
    total = 0
    for step in range(STEPS):
        total += step
    return total
