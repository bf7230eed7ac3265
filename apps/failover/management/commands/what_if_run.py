"""manage.py what_if_run <name>: answers a large question that was asked through the API, and ends."""

from __future__ import annotations

import os
import resource
import signal
from typing import Any, Final

import msgspec
from django.core.management.base import BaseCommand, CommandParser

from apps.failover import what_if_runs
from apps.failover.what_if_runs import ALIVE_SECONDS, KEPT_SECONDS, Run
from apps.objects.refusal import cause
from apps.objects.store import store
from apps.objects.what_if import effects_of, status_of
from controlplane.insight.changes import decoded_changes
from controlplane.kinds.what_if import FAILED, RUNNING, WhatIfStatus

LONGEST_SECONDS: Final = 120
MEMORY_BYTES: Final = 1 << 30
NICENESS: Final = 10
REPORT_SHARE: Final = 0.01  # of progress between two reports


class Command(BaseCommand):
    help = "Answers a large what-if question. The API starts this command; its answer goes to Redis."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the name of the run")

    def handle(self, *args: Any, **options: Any) -> None:
        name: str = options["name"]
        os.nice(NICENESS)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        signal.alarm(LONGEST_SECONDS)  # ends the process; the run then counts as one that has died
        run = what_if_runs.read(name)
        if run is not None:
            with what_if_runs.alive(name):
                answered = _answered(name, run)
            what_if_runs.write(name, answered, seconds=KEPT_SECONDS)


def _answered(name: str, run: Run) -> Run:
    """Return the run with its answer, or with the reason why there is none."""
    changes, _ = decoded_changes(run.changes)
    try:
        effects = effects_of(store(), changes, progress=_Reports(name, run))
    except MemoryError:
        why = f"the answer needs more than {MEMORY_BYTES >> 20} MiB of memory: ask about fewer clusters at once"
        return _with(run, phase=FAILED, message=why)
    except Exception as error:  # noqa: BLE001  # whatever happens, the user reads that it has happened
        return _with(run, phase=FAILED, message=f"the question could not be answered: {cause(error)}")
    return msgspec.structs.replace(run, status=status_of(effects))


def _with(run: Run, **status: Any) -> Run:
    return msgspec.structs.replace(run, status=WhatIfStatus(**status))


class _Reports:
    """Writes the progress of a run to Redis, in steps of REPORT_SHARE."""

    def __init__(self, name: str, run: Run) -> None:
        self._name, self._run, self._last = name, run, -1.0

    def __call__(self, share: float) -> None:
        if share - self._last >= REPORT_SHARE:
            self._last = share
            status = WhatIfStatus(phase=RUNNING, progress=round(share, 2))
            what_if_runs.write(self._name, msgspec.structs.replace(self._run, status=status), seconds=ALIVE_SECONDS)
