"""crowd: eight workers and two beats: workers share the groups, each binding is made once, and one beat sends ticks.

Fails if fewer than LEAST_SHARING workers had a turn, a binding was made twice, or both beats sent ticks.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from apps.development.supervise import lifetime
from apps.development.supervise.ports import free_port
from apps.development.supervise.stack import WORKER_OPTIONS
from tests.bench.figure import Figure
from tests.bench.own_stack import OwnStack, own_stack
from tests.builders import documents

WORKERS = 8
LEAST_SHARING = 2  # a tick goes to any worker that waits, and there are only a few in each interval
WORKLOADS = 200
WATCHED_SECONDS = 30.0
SPACE = "crowd"
CELERY = (sys.executable, "-m", "celery", "--skip-checks", "-A", "config")
_HOLDERS = "SELECT DISTINCT holder FROM objects_lease WHERE until > clock_timestamp() AND name = ANY(%s)"
_MADE = """
    SELECT count(*), count(DISTINCT name) FROM objects_changelog
    WHERE kind = 'work.karmada.io/ResourceBinding' AND type = 'ADDED' AND namespace = %s"""


def run() -> list[Figure]:
    """Return how many workers had a turn, and what it took to place the workloads."""
    with own_stack() as stack, ExitStack() as started:
        port = free_port(9390)
        started.enter_context(_process(stack, "beat", "--loglevel=INFO", "--pidfile=", LIFEBOAT_METRICS_PORT=str(port)))
        pids = [stack.pids()["worker"][0]]
        for number in range(1, WORKERS):
            options = ("worker", *WORKER_OPTIONS, f"--hostname=worker{number}@%h")
            pids.append(started.enter_context(_process(stack, *options)))
        stack.until("SELECT count(*) >= 2 FROM objects_lease WHERE name = 'beat' AND until > clock_timestamp()")
        before = _sent(port)  # until it knew of the other one, the second beat may have sent a round
        seconds = _place(stack)
        turns = _workers_with_turns(stack, pids)
        made, names = stack.sql(_MADE, SPACE)[0]
        second = _sent(port) - before
    assert made == names == WORKLOADS, f"{made} bindings were made for {names} workloads"
    assert turns >= LEAST_SHARING, f"only {turns} of {WORKERS} workers had a turn"
    assert second == 0, f"the second beat sent {second:g} ticks"
    return [
        Figure("crowd.workers", turns, "workers", WORKERS, f"had a turn within {WATCHED_SECONDS:g} s"),
        Figure("crowd.placed", WORKLOADS / seconds, "1/s", WORKLOADS, f"by {WORKERS} workers, each once"),
        Figure("crowd.second_beat", second, "ticks", 1, "sent by the second of two beats"),
    ]


@contextmanager
def _process(stack: OwnStack, *arguments: str, **more: str) -> Iterator[int]:
    """Start a Celery process beside those of the stack, and end it afterwards. Yields its pid."""
    environment = {**os.environ, **stack.environment, **more}
    log = Path(stack.home.root) / f"{arguments[0]}-more.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*CELERY, *arguments], cwd=lifetime.PROJECT, env=environment, stdout=output, stderr=output
        )
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(60)


def _place(stack: OwnStack) -> float:
    """Create workloads under a policy. Returns the seconds until each has its place."""
    stack.ask("POST", "/api/v1/namespaces", {"metadata": {"name": SPACE}})
    stack.ask("POST", documents.policies(SPACE), documents.policy("crowd"))
    began = time.monotonic()
    for number in range(WORKLOADS):
        stack.ask("POST", documents.deployments(SPACE), documents.deployment(f"app-{number}"))
    placed = "SELECT count(*) = %s FROM resources_binding WHERE namespace = %s AND scheduled = 'True'"
    stack.until(placed, WORKLOADS, SPACE, within=300)
    return time.monotonic() - began


def _workers_with_turns(stack: OwnStack, pids: list[int]) -> int:
    """Return how many workers had a process that held the lease of a group."""
    from apps.worker.groups import tick_names  # here: needs Django's settings

    names = sorted({name.partition("/")[0] for name in tick_names()})
    seen, ends = set[int](), time.monotonic() + WATCHED_SECONDS
    while time.monotonic() < ends and len(seen) < len(pids):
        for (holder,) in stack.sql(_HOLDERS, names):
            seen.add(_parent(int(holder.split(":")[1])))
        time.sleep(0.2)
    return len(seen & set(pids))


def _parent(pid: int) -> int:
    """Return the parent of a process of a pool; 0: it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _sent(port: int) -> float:
    """Return how many ticks the beat with this metrics port has sent."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = re.search(r'^lifeboat_ticks_total\{result="sent"\} (\S+)$', text, re.MULTILINE)
    return float(found[1]) if found else 0.0
