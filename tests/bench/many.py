"""many: eight workers and two beats beside one of each: what the same workloads cost, and who holds the leases."""

from __future__ import annotations

import time

from apps.development.supervise.stack import WORKER_OPTIONS
from tests.bench.figure import Figure
from tests.bench.own_stack import OwnStack, own_stack

WORKERS, BEATS = 8, 2
CLUSTERS, BINDINGS = 10, 200
IDLE_SECONDS = 20.0
CELERY = ("-m", "celery", "--skip-checks", "-A", "config")
# A binding that two processes decide about at the same time is written once: the second write finds another version.
TWICE = """
SELECT count(*) FROM (SELECT kind, namespace, name FROM objects_changelog WHERE type = 'ADDED' AND kind LIKE %s
GROUP BY 1, 2, 3 HAVING count(*) > 1) AS added
"""


def run() -> list[Figure]:
    """Return the figures with the usual processes, and with more of them."""
    figures = []
    for workers, beats in ((1, 1), (WORKERS, BEATS)):
        with own_stack() as stack:
            for number in range(1, workers):
                options = ("--concurrency=1", f"--hostname=more-{number}@%h")
                stack.add(*CELERY, "worker", *WORKER_OPTIONS, *options)
            for _ in range(1, beats):
                stack.add(*CELERY, "beat", "--pidfile=")
            figures += _figures(stack, workers, f"{workers} workers, {beats} beats")
    return figures


def _figures(stack: OwnStack, workers: int, conditions: str) -> list[Figure]:
    time.sleep(IDLE_SECONDS)  # until all have started
    idle = stack.measured(lambda: time.sleep(IDLE_SECONDS))
    spent = stack.measured(lambda: stack.manage("fleet", "--clusters", str(CLUSTERS), "--bindings", str(BINDINGS)))
    wanted = "SELECT count(DISTINCT binding) >= %s FROM resources_targetcluster"
    stack.until(wanted, BINDINGS, within=120)
    twice = stack.number(TWICE, "work.karmada.io/%")
    assert not twice, f"{twice} objects were created twice"
    holders = stack.number("SELECT count(DISTINCT holder) FROM objects_lease WHERE until > clock_timestamp()")
    name = f"many.{workers}"
    return [
        Figure(f"{name}.idle_minute.cpu", idle.cpu / idle.seconds * 60, "s", 1, conditions),
        Figure(f"{name}.registration", spent.seconds, "s", BINDINGS, conditions),
        Figure(f"{name}.registration.cpu", spent.cpu, "s", BINDINGS, "CPU of all processes"),
        Figure(f"{name}.holders", holders, "processes", 1, "hold the leases of all groups at one moment"),
    ]
