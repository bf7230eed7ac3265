"""`python -m tests.chaos --seconds 480`: run the chaos and print its ledger; status 1 where something did not hold."""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from tests.chaos.run import run


def main() -> int:
    """Run it as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="none: a random one, which is printed")
    parser.add_argument("--dir", type=Path, default=Path(".lifeboat/chaos"))
    given = parser.parse_args()
    seed = random.randrange(1_000_000) if given.seed is None else given.seed
    report = run(given.dir, seconds=given.seconds, seed=seed)
    print("\n".join(report.lines))
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
