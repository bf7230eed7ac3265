"""Random trouble heals, whatever it was, and breaks no invariant on the way."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.chaos import FAULTS, Chaos, healed

SEEDS = range(24)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_everything_heals(seed: int) -> None:
    chaos = Chaos(seed)

    healed(chaos.run())


def test_every_kind_of_fault_is_ordered_by_some_seed() -> None:
    ordered: Counter[str] = Counter()
    for seed in SEEDS:
        ordered.update(fault for _, fault in Chaos(seed).plan)

    assert not set(FAULTS) - set(ordered)
