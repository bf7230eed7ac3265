"""seeds: processor time of each seed of random trouble that CI runs, one after the other on one core (aim: 0.3 s each).

In a run of all benches, only every fifth seed.

Nothing fails by it: how long a seed takes is the host's affair as well, whose speed is printed beside it.
"""

from __future__ import annotations

import os

from tests.bench.figure import Figure, percentile
from tests.simulation import chaos
from tests.simulation.histogram import ALL, LONG
from tests.simulation.yardstick import STEPS, spent, yardstick


def run() -> list[Figure]:
    """Return what seeds take, and a yardstick to compare hosts by."""
    host = min(yardstick() for _ in range(5))
    chaos.fleet()  # which all seeds begin with, is made once
    seeds = range(0, ALL, 5 if os.environ.get("BENCH_WHOLE") else 1)
    took = [spent(lambda seed=seed: chaos.run(seed)) for seed in seeds]
    trouble = "processor time of one seed"
    return [
        Figure("seeds.p50", 1000 * percentile(took, 0.5), "ms", len(seeds), trouble),
        Figure("seeds.p99", 1000 * percentile(took, 0.99), "ms", len(seeds), trouble),
        Figure("seeds.longest", 1000 * max(took), "ms", len(seeds), f"seed {seeds[took.index(max(took))]}"),
        Figure("seeds.over", sum(one > LONG for one in took), "seeds", len(seeds), f"that took more than {LONG} s"),
        Figure("seeds.yardstick", 1000 * host, "ms", 5, f"{STEPS:,} additions in Python on this host, least of 5"),
    ]
