"""`python -m tests.fuzz --requests 50000 --seed 7`: send odd requests to a server; status 1 where a claim fails.

A request is the same whenever its seed and number are. `--first N --requests 1` repeats a single request, on a server
without the changes of those before it.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

from tests.services import VARIABLES, OwnServices


def main() -> int:
    """Run it as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=None, help="none: a random one, which is printed")
    parser.add_argument("--first", type=int, default=0, help="number of the first request")
    given = parser.parse_args()
    seed = random.randrange(1_000_000) if given.seed is None else given.seed
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    os.environ.setdefault("LIFEBOAT_SECRET_KEY", "only-for-tests")
    os.environ.setdefault("LIFEBOAT_ENCRYPTION_KEYS", "b25seS1mb3ItdGVzdHMtLW9ubHktZm9yLXRlc3RzLS0")
    own = None if all(os.environ.get(name) for name in VARIABLES) else OwnServices()
    try:
        import django  # here: the settings read the addresses of the services

        django.setup()
        from tests.api.server import Server
        from tests.fuzz.run import run

        with tempfile.TemporaryDirectory() as folder, Server(Path(folder), name="lifeboat_fuzz") as server:
            report = run(server, requests=given.requests, seed=seed, first=given.first, say=print)
            log = (Path(folder) / "api-0.log").read_text().splitlines()
    finally:
        if own is not None:
            own.stop()
    print("\n".join(report.lines))
    if report.problems:
        print("\n".join(line for line in log if "Internal Server Error" in line or "request failed" in line))
        print(f"again: make fuzz REQUESTS={given.requests} SEED={seed}")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
