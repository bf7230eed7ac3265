"""propagate: bindings per second through the whole chain, by real worker processes: policy, schedule, Works.

Beside it stands how fast PostgreSQL takes the same rows by bare COPY (`bare_copy`), and the share of it that we reach.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from msgspec.structs import replace

from apps.development.fleet import Fleet, store_all
from apps.objects.store import store
from apps.worker.groups import INTERVAL_SECONDS, tick_names
from controlplane.apimachinery.meta import Object
from controlplane.kinds.policy import DUPLICATED, Placement, ReplicaSchedulingStrategy
from tests.bench.bare_copy import BareCopy
from tests.bench.cpu import cpu_seconds, database_pids
from tests.bench.figure import ROUNDS, Figure, loop_text, medians, percentile, python_loop
from tests.bench.observed import held_milliseconds
from tests.emptied import empty_database
from tests.processes import Processes, environment, family, own_redis, peak_megabytes, ring, until

BINDINGS = 10_000
CLUSTERS = 3
WITHIN = 300.0  # seconds until we give up
_BUSY = """
    SELECT count(*) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND state <> 'idle'"""


During = Callable[[list[int]], AbstractContextManager[object]]


def nothing_else(_: list[int]) -> AbstractContextManager[object]:
    """Return a block around which nothing else goes on."""
    return nullcontext()


class Placed(NamedTuple):
    """What one round measured: times in seconds, the largest memory of each process in MB, lock times in ms."""

    seconds: float
    copy_seconds: float
    peaks: list[float]
    held: list[float]
    loop: float  # milliseconds of the Python loop, right after the work
    workers_cpu: float  # CPU seconds of the workers
    database_cpu: float  # CPU seconds of PostgreSQL
    wal: int  # bytes of the log of the database


def run() -> list[Figure]:
    """Place all bindings in rounds of an empty database each."""
    return medians([_figures(placed(BINDINGS)) for _ in range(ROUNDS)])


def _figures(round_: Placed) -> list[Figure]:
    conditions = (
        f"{BINDINGS:,} Deployments under one policy, Duplicated to {CLUSTERS} members, Celery worker with "
        f"{len(round_.peaks) - 1} processes, log, events and due rows, PostgreSQL and Redis on the same machine"
    )
    rate, copied = BINDINGS / round_.seconds, BINDINGS / round_.copy_seconds
    beside, loop = f"bare COPY {copied:,.0f} bindings/s, {loop_text(round_.loop)}", loop_text(round_.loop)
    cpu = round_.workers_cpu + round_.database_cpu
    shares = f"CPU: workers {round_.workers_cpu:.1f} s, PostgreSQL {round_.database_cpu:.1f} s"
    locks, locked = len(round_.held), "write lock held per transaction"
    return [
        Figure("propagate", rate, "bindings/s", BINDINGS, conditions, beside=beside, ratio=rate / copied),
        Figure("propagate.cpu", 1000 * cpu / BINDINGS, "ms/binding", BINDINGS, shares, beside=loop),
        Figure("propagate.wal", round_.wal / BINDINGS, "B/binding", BINDINGS, "log of the database"),
        Figure("propagate.peak_rss", max(round_.peaks), "MB", len(round_.peaks), "of the largest process"),
        Figure("propagate.lock_p50", percentile(round_.held, 0.5), "ms", locks, locked, beside=loop),
        Figure("propagate.lock_p99", percentile(round_.held, 0.99), "ms", locks, locked, beside=loop),
    ]


def placed(bindings: int, *, during: During = nothing_else) -> Placed:
    """Commit the templates while workers are idle, then let them work until every Work is there.

    The database is emptied before. `during`: what goes on around the work, given the processes of the workers.
    """
    empty_database()
    with tempfile.TemporaryDirectory(prefix="lifeboat-bench-") as name:
        folder, redis_url = Path(name), own_redis()
        with Processes(folder, environment(folder, redis_url=redis_url)) as processes:
            worker = processes.worker(application="tests.bench.observed")
            templates = _prepare(bindings)
            with Beat(redis_url):  # rings again, because a tick expires on a busy machine
                until(_started, within=WITHIN)
            # Workers go on until the next notification: they are paused until everything is stored.
            until(lambda: _paused(family(worker)), within=WITHIN)
            store_all(store(), templates, by="bench")
            copy = BareCopy()
            copy.remember()
            before, written = (cpu_seconds(family(worker)), cpu_seconds(database_pids())), _log_position()
            began = perf_counter()
            _signal(family(worker), signal.SIGCONT)
            with during(family(worker)), Beat(redis_url):
                until(lambda: _works(bindings * CLUSTERS), within=WITHIN, every=0.1)
                seconds = perf_counter() - began
            cpu = cpu_seconds(family(worker)) - before[0], cpu_seconds(database_pids()) - before[1]
            wal = _log_position() - written
            loop = python_loop()
            peaks = [peak_megabytes(pid) for pid in family(worker)]
        held = held_milliseconds(folder)
    return Placed(seconds, copy.seconds(), peaks, held, loop, *cpu, wal)


class Beat:
    """Rings as beat does, while its block runs."""

    def __init__(self, redis_url: str) -> None:
        self._redis_url = redis_url
        self._done = threading.Event()
        self._bell = threading.Thread(target=self._ring, daemon=True)

    def __enter__(self) -> None:
        self._bell.start()

    def __exit__(self, *exception: object) -> None:
        self._done.set()
        self._bell.join()

    def _ring(self) -> None:
        while not self._done.is_set():
            ring(tick_names(), redis_url=self._redis_url)
            self._done.wait(INTERVAL_SECONDS)


def _prepare(bindings: int) -> list[Object]:
    """Create clusters, namespaces and the policy; return the templates, not stored yet."""
    fleet = Fleet(clusters=CLUSTERS, bindings=bindings, now=store().now(), prefix="bench")
    objects = list(fleet.objects())
    templates = [one for one in objects if one.kind == "Deployment"]
    policy = next(one for one in fleet.policies())
    everywhere = Placement(replica_scheduling=ReplicaSchedulingStrategy(DUPLICATED))
    selector = replace(policy.spec.resource_selectors[0], label_selector=None)
    policy = replace(policy, spec=replace(policy.spec, resource_selectors=(selector,), placement=everywhere))
    rest = [one for one in objects if one.kind not in ("Deployment", "ClusterPropagationPolicy")]
    store_all(store(), [*rest, policy], by="bench")
    return templates


def _log_position() -> int:
    """Return how many bytes PostgreSQL has written to its log so far."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_wal_insert_lsn() - '0/0'")
        return int(cursor.fetchone()[0])


def _started() -> bool:
    """Test whether every group has had a turn."""
    from django.db import connection  # here: Django is set up by now

    with connection.cursor() as cursor:
        cursor.execute("SELECT name || '/' || shard FROM objects_lease")
        return {name for (name,) in cursor.fetchall()}.issuperset(tick_names())


def _paused(pids: list[int]) -> bool:
    """Pause processes; let them go on and return False if one has a transaction open: it could hold the write lock."""
    from django.db import connection

    _signal(pids, signal.SIGSTOP)
    with connection.cursor() as cursor:
        cursor.execute(_BUSY)
        (busy,) = cursor.fetchone()
    if busy:
        _signal(pids, signal.SIGCONT)
    return not busy


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


def _works(wanted: int) -> bool:
    """Test whether as many Works are stored."""
    from django.db import connection

    with connection.cursor() as cursor:
        # Counting them ten times a second would cost the workers a tenth of what they have.
        cursor.execute("SELECT max(id) - min(id) FROM resources_work")
        if int(cursor.fetchone()[0] or 0) < wanted - 1:
            return False
        cursor.execute("SELECT count(*) FROM resources_work")
        return int(cursor.fetchone()[0]) >= wanted
