"""Not a bench: the Celery application of the workers that benches start, with what every transaction cost on record.

`celery -A tests.bench.observed worker`; each process appends to `<LIFEBOAT_HOME>/timings-<pid>`.
"""

from __future__ import annotations

import os
from pathlib import Path

from celery.signals import worker_process_init

from config.celery import app

__all__ = ["app"]


@worker_process_init.connect
def observe(**_: object) -> None:
    from apps.objects.store import store
    from apps.objects.transaction import Timing  # here: Django is set up by now

    file = Path(os.environ["LIFEBOAT_HOME"], f"timings-{os.getpid()}").open("a", buffering=1)  # noqa: SIM115  # for as long as the process lives

    def note(timing: Timing) -> None:
        file.write(f"{timing.lines} {timing.locked_seconds:.6f}\n")

    store().observe = note


def held_milliseconds(folder: Path) -> list[float]:
    """Return how long each transaction that wrote something held the write lock."""
    lines = (line.split() for file in folder.glob("timings-*") for line in file.read_text().splitlines())
    return [float(seconds) * 1000 for count, seconds in lines if int(count)]
