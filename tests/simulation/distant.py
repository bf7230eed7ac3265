"""Everything that workloads may ask for, on clusters with agents that are not what they should be.

    python -m tests.simulation.distant 4711

runs one seed again and prints its timeline. Three of the five members have an agent. It asserts what `motley` and
`pulled` assert.
"""

from __future__ import annotations

import sys

from tests.simulation import absences
from tests.simulation.chaos import BEGINS, ran, replay
from tests.simulation.crowd import WITHIN
from tests.simulation.motley import Motley
from tests.simulation.pulled import Pulled
from tests.simulation.timeline import reported

ABSENCES = 1  # beside the first


class Distant(Pulled, Motley):
    """One seeded run."""

    def _planned(self) -> list[tuple[float, str]]:
        names = list(absences.ABSENCES)
        chosen = [names[self.seed % len(names)], *self.chance.choices(names, k=ABSENCES)]
        amid = [(BEGINS + self.chance.uniform(0, WITHIN), name) for name in chosen]
        return sorted([*Motley._planned(self), *amid])


def run(seed: int) -> Distant:
    """Run one seed. Raises AssertionError with what does not hold, how to run it again, and what happened."""
    distant = Distant(seed)
    ran(distant, replay(seed, "distant"))
    return distant


if __name__ == "__main__":
    try:
        print(reported(run(int(sys.argv[1])).world))
    except AssertionError as failed:
        sys.exit(str(failed))
