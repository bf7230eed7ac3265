"""propagate: bindings per second through the whole chain, by real worker processes: policy, schedule, Works."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from time import perf_counter

from msgspec.structs import replace

from apps.objects.store import store
from apps.runtime.fleet import Fleet, store_all
from apps.runtime.groups import INTERVAL_SECONDS, ticks
from controlplane.kinds.policy import DUPLICATED, Placement, ReplicaSchedulingStrategy
from controlplane.meta import Object
from tests.bench.figure import Figure, percentile
from tests.bench.observed import held_milliseconds
from tests.processes import Processes, environment, family, own_redis, peak_megabytes, ring, until

BINDINGS = 10_000
CLUSTERS = 3
WITHIN = 300.0  # seconds until we give up


def run() -> list[Figure]:
    """Commit the templates while workers are idle, then let them work until every Work is there."""
    with tempfile.TemporaryDirectory(prefix="lifeboat-bench-") as name:
        folder, redis_url = Path(name), own_redis()
        with Processes(folder, environment(folder, redis_url=redis_url)) as processes:
            worker = processes.worker(application="tests.bench.observed")
            templates = _prepare()
            ring(ticks(), redis_url=redis_url)
            until(_idle, within=WITHIN)
            store_all(store(), templates, by="bench")
            began = perf_counter()
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
            ring(ticks(), redis_url=redis_url)
            done.wait(INTERVAL_SECONDS)

    bell = threading.Thread(target=beat, daemon=True)
    bell.start()
    try:
        until(lambda: _works() >= BINDINGS * CLUSTERS, within=WITHIN, every=0.1)
        return perf_counter()
    finally:
        done.set()
        bell.join()


def _idle() -> bool:
    """Test whether every group has had its turn and none has one now."""
    from django.db import connection  # here: Django is set up by now

    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*), count(*) FILTER (WHERE until > clock_timestamp()) FROM objects_lease")
        known, held = cursor.fetchone()
    return bool(known == len(ticks()) and held == 0)


def _works() -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        # Counting them ten times a second would cost the workers a tenth of what they have.
        cursor.execute("SELECT last_value FROM resources_work_id_seq")
        if int(cursor.fetchone()[0]) < BINDINGS * CLUSTERS:
            return 0
        cursor.execute("SELECT count(*) FROM resources_work")
        return int(cursor.fetchone()[0])
