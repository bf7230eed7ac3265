"""propagate: bindings per second through the whole chain, by real worker processes: policy, schedule, Works."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from pathlib import Path
from time import perf_counter

from msgspec.structs import replace

from apps.development.fleet import Fleet, store_all
from apps.objects.store import store
from apps.worker.groups import INTERVAL_SECONDS, tick_names
from controlplane.apimachinery.meta import Object
from controlplane.kinds.policy import DUPLICATED, Placement, ReplicaSchedulingStrategy
from tests.bench.figure import Figure, percentile
from tests.bench.observed import held_milliseconds
from tests.processes import Processes, environment, family, own_redis, peak_megabytes, ring, until

BINDINGS = 10_000
CLUSTERS = 3
WITHIN = 300.0  # seconds until we give up
_BUSY = """
    SELECT count(*) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND state <> 'idle'"""


def run() -> list[Figure]:
    """Commit the templates while workers are idle, then let them work until every Work is there."""
    with tempfile.TemporaryDirectory(prefix="lifeboat-bench-") as name:
        folder, redis_url = Path(name), own_redis()
        with Processes(folder, environment(folder, redis_url=redis_url)) as processes:
            worker = processes.worker(application="tests.bench.observed")
            templates = _prepare()
            ring(tick_names(), redis_url=redis_url)
            until(_started, within=WITHIN)
            # Workers go on for as long as nobody rings again: they are paused until everything is stored.
            until(lambda: _paused(family(worker)), within=WITHIN)
            store_all(store(), templates, by="bench")
            began = perf_counter()
            _signal(family(worker), signal.SIGCONT)
            seconds = _propagate(redis_url) - began
            pids = family(worker)
            peaks = [peak_megabytes(pid) for pid in pids]
        held = held_milliseconds(folder)
    conditions = (
        f"{BINDINGS:,} Deployments under one policy, Duplicated to {CLUSTERS} members, Celery worker with "
        f"{len(pids) - 1} processes, log, events and due rows, PostgreSQL and Redis on the same machine"
    )
    return [
        Figure("propagate", BINDINGS / seconds, "bindings/s", BINDINGS, conditions),
        Figure("propagate.peak_rss", max(peaks), "MB", len(peaks), "of the largest process"),
        Figure("propagate.lock_p50", percentile(held, 0.5), "ms", len(held), "write lock held per transaction"),
        Figure("propagate.lock_p99", percentile(held, 0.99), "ms", len(held), "write lock held per transaction"),
    ]


def _prepare() -> list[Object]:
    """Create clusters, namespaces and the policy; return the templates, not stored yet."""
    fleet = Fleet(clusters=CLUSTERS, bindings=BINDINGS, now=store().now(), prefix="bench")
    objects = list(fleet.objects())
    templates = [one for one in objects if one.kind == "Deployment"]
    policy = next(one for one in fleet.policies())
    everywhere = Placement(replica_scheduling=ReplicaSchedulingStrategy(DUPLICATED))
    selector = replace(policy.spec.resource_selectors[0], label_selector=None)
    policy = replace(policy, spec=replace(policy.spec, resource_selectors=(selector,), placement=everywhere))
    rest = [one for one in objects if one.kind not in ("Deployment", "ClusterPropagationPolicy")]
    store_all(store(), [*rest, policy], by="bench")
    return templates


def _propagate(redis_url: str) -> float:
    """Ring as beat does until every Work is committed; return that moment."""
    done = threading.Event()

    def beat() -> None:
        while not done.is_set():
            ring(tick_names(), redis_url=redis_url)
            done.wait(INTERVAL_SECONDS)

    bell = threading.Thread(target=beat, daemon=True)
    bell.start()
    try:
        until(lambda: _works() >= BINDINGS * CLUSTERS, within=WITHIN, every=0.1)
        return perf_counter()
    finally:
        done.set()
        bell.join()


def _started() -> bool:
    """Test whether every group has had a turn."""
    from django.db import connection  # here: Django is set up by now

    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM objects_lease")
        (known,) = cursor.fetchone()
    return bool(known == len(tick_names()))


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


def _works() -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        # Counting them ten times a second would cost the workers a tenth of what they have.
        cursor.execute("SELECT last_value FROM resources_work_id_seq")
        if int(cursor.fetchone()[0]) < BINDINGS * CLUSTERS:
            return 0
        cursor.execute("SELECT count(*) FROM resources_work")
        return int(cursor.fetchone()[0])
