"""`python -m tests.bench [name …]`: run benches, print their figures, append them to the file BENCH_OUT.

A bench that fails does not stop the others: its error is printed with their figures, and the exit code is 1.

Servers of our own are started where DATABASE_URL is not set; a database of its own is made and dropped either way.
"""

from __future__ import annotations

import importlib
import logging
import os
import pkgutil
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import tests.bench
from tests.bench import figure
from tests.services import VARIABLES, OwnServices

T = TypeVar("T")
_NOT_BENCHES = {"__main__", "bare_copy", "cpu", "figure", "observed", "own_stack", "peer", "served"}
LOG_FILLED = 1_500  # MB
_ONLY_BY_NAME = {"crowd", "scale", "soak"}  # they take long


def names() -> list[str]:
    """Return every bench there is."""
    found = (module.name for module in pkgutil.iter_modules(tests.bench.__path__))
    return sorted(name for name in found if name not in _NOT_BENCHES)


def set_environment() -> None:
    """Set what Django's settings need and the environment does not have."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    os.environ.setdefault("LIFEBOAT_SECRET_KEY", "only-for-benches")
    os.environ.setdefault("LIFEBOAT_ENCRYPTION_KEYS", "b25seS1mb3ItdGVzdHMtLW9ubHktZm9yLXRlc3RzLS0")


def main(asked: list[str]) -> int:
    if unknown := set(asked) - set(names()):
        print(f"no bench named {', '.join(sorted(unknown))}; there are: {', '.join(names())}", file=sys.stderr)
        return 2
    set_environment()
    if not asked:
        os.environ["BENCH_WHOLE"] = "1"  # benches with sizes choose small ones
    own = None if all(os.environ.get(name) for name in VARIABLES) else OwnServices(throwaway=False)
    try:
        if own is not None:
            _fill_log()
        figures, failed = with_database(lambda: _run(asked or sorted(set(names()) - _ONLY_BY_NAME)))
    finally:
        if own is not None:
            own.stop()
    on = figure.machine()
    print(f"{on}\n{figure.table(figures)}")
    if out := os.environ.get("BENCH_OUT"):
        with Path(out).open("a") as file:
            file.write(figure.lines(figures, on=on))
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _fill_log() -> None:
    """Write as much log as PostgreSQL keeps files for. From then on it uses these files again, as it does after hours.

    Before that, each page of a new file may be memory that the machine has to get first, which can cost more than what
    is written to it. How much differs between machines and between rounds.
    """
    import psycopg  # here: the server's address is known by now

    message = "pg_logical_emit_message(false, 'bench', repeat('x', 1048576))"
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        for _ in range(LOG_FILLED // 100):
            connection.execute(f"SELECT count({message}) FROM generate_series(1, 100)")
        connection.execute("CHECKPOINT")


def with_database(work: Callable[[], T]) -> T:
    """Return what `work` returns. It runs on a database of its own, which is dropped afterwards."""
    import django  # here: the settings read the servers' addresses from the environment

    django.setup()
    _keep_log_lines_out_of_the_figures()
    from django.db import connection

    creation: Any = connection.creation
    before = connection.settings_dict["NAME"]
    creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        return work()
    finally:
        creation.destroy_test_db(before, verbosity=0)


def _run(asked: list[str]) -> tuple[list[figure.Figure], list[str]]:
    """Return the figures of the benches, and the names of those that failed."""
    from tests.emptied import empty_database  # here: Django is set up by now

    figures, failed = list[figure.Figure](), list[str]()
    for name in asked:
        started = time.monotonic()
        empty_database()  # what the bench before has left would be work and rows of this one
        try:
            figures += importlib.import_module(f"tests.bench.{name}").run()
        except Exception:  # noqa: BLE001  # the figures of the others are worth minutes
            traceback.print_exc()
            failed.append(name)
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return figures, failed


def _keep_log_lines_out_of_the_figures() -> None:
    """Let log lines be formatted, because that costs time in production too, and write them nowhere."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(Path(os.devnull).open("w"))  # noqa: SIM115  # open as long as the process


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
