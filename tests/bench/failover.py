"""failover: bindings leave a lost cluster at 10,000/s by real worker processes; from its taint to the last new Work."""

from __future__ import annotations

import tempfile
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from apps.development.fleet import Fleet, store_all
from apps.objects.store import store
from apps.worker.groups import INTERVAL_SECONDS, tick_names
from controlplane.apimachinery.meta import Object, Ref
from controlplane.apimachinery.names import execution_namespace
from controlplane.apimachinery.selectors import LabelSelector
from controlplane.engine.decision import Decision, Put
from controlplane.engine.state import Actor
from controlplane.kinds import CLUSTER, WORK
from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import (
    DUPLICATED,
    ClusterAffinity,
    Placement,
    ReplicaSchedulingStrategy,
    SpreadConstraint,
)
from tests.bench.figure import Figure
from tests.processes import Processes, environment, own_redis, ring, until

SIZES = (50, 500, 5_000)
CLUSTERS = 3
RATE = "10000"
WITHIN = 300.0  # seconds until we give up
ONE = (SpreadConstraint(spread_by_field="cluster", min_groups=1, max_groups=1),)


def run() -> list[Figure]:
    """Lose a cluster with 50, 500 and 5,000 bindings on it, one after the other."""
    figures: list[Figure] = []
    for size in SIZES:
        with tempfile.TemporaryDirectory(prefix="lifeboat-bench-") as name:
            redis_url = own_redis()
            given = {"feature_gates": "Failover=true", "resource_eviction_rate": RATE}
            with Processes(Path(name), environment(Path(name), redis_url=redis_url, **given)) as processes:
                processes.worker()
                figures += _lost(size, redis_url)
    return figures


def _lost(size: int, redis_url: str) -> list[Figure]:
    """Put everything on one cluster, taint it, and read from the change log when what had happened."""
    prefix, done = f"lost{size}", threading.Event()

    def beat() -> None:
        while not done.is_set():
            ring(tick_names(), redis_url=redis_url)
            done.wait(INTERVAL_SECONDS)

    bell = threading.Thread(target=beat, daemon=True)
    bell.start()
    try:
        store_all(store(), _objects(size, prefix), by="bench")
        lost = f"{prefix}-0000"
        others = [f"{prefix}-{number:04d}" for number in range(1, CLUSTERS)]
        until(lambda: _works([lost]) >= size, within=WITHIN, every=0.2)
        for name in others:
            _taint(name)
        until(_quiet, within=WITHIN, every=0.2)
        _taint(lost, Taint("bench", "NoExecute", time_added=store().now()))
        until(lambda: _works(others) >= size, within=WITHIN, every=0.1)
    finally:
        done.set()
        bell.join()
    return _figures(size, lost, others)


def _objects(size: int, prefix: str) -> list[Object]:
    """Return clusters of which only the first takes workloads, and Deployments under one policy: one cluster each."""
    fleet = Fleet(clusters=CLUSTERS, bindings=size, now=store().now(), prefix=prefix)
    found: list[Object] = []
    for one in fleet.objects():
        if one.kind == "ClusterPropagationPolicy":
            continue
        if one.kind == "Cluster" and not one.metadata.name.endswith("-0000"):
            one = one.with_spec(taints=(Taint("bench", "NoSchedule"),))
        found.append(one)
    policy = next(iter(fleet.policies()))
    selector = replace(policy.spec.resource_selectors[0], label_selector=LabelSelector({"fleet": prefix}))
    mine = ClusterAffinity(cluster_names=tuple(f"{prefix}-{number:04d}" for number in range(CLUSTERS)))
    one_each = Placement(mine, spread_constraints=ONE, replica_scheduling=ReplicaSchedulingStrategy(DUPLICATED))
    return [replace(policy, spec=replace(policy.spec, resource_selectors=(selector,), placement=one_each)), *found]


def _taint(name: str, *taints: Taint) -> None:
    """Put exactly these taints on a cluster, as a person does; others may write it meanwhile."""
    ref = Ref(CLUSTER, "", name)

    def written() -> bool:
        old = store().get([ref])[ref]
        return not store().apply([(None, Decision(changes=(Put(old.with_spec(taints=taints), old),)))], by=BY)[0].lost

    until(written, within=10)


BY = Actor("bench")


def _query(statement: str, *values: Any) -> tuple[Any, ...]:
    from django.db import connection  # here: Django is set up by now

    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        found: tuple[Any, ...] = cursor.fetchone()
        return found


def _works(clusters: list[str]) -> int:
    statement = "SELECT count(*) FROM resources_work WHERE cluster = ANY(%s)"
    return int(str(_query(statement, clusters)[0]))


def _quiet() -> bool:
    """Test whether nobody but those who look at the fleet every few seconds has anything to do."""
    statement = "SELECT count(*) FROM objects_due WHERE due_at <= clock_timestamp() AND controller <> ALL(%s)"
    return _query(statement, ["probes", "collection", "execution", "work_status"])[0] == 0


def _figures(size: int, lost: str, others: list[str]) -> list[Figure]:
    tainted, scheduled = (
        _logged(CLUSTER, [""], lost, "bench"),
        _moment(
            "SELECT max(at) FROM objects_changelog WHERE actor = 'scheduler' AND kind LIKE %s", "%%ResourceBinding"
        ),
    )
    queued, evicted = _query("SELECT max(queued_at), max(ended_at) FROM failover_eviction WHERE cluster = %s", lost)
    assert isinstance(queued, datetime) and isinstance(evicted, datetime), "everything was evicted"  # noqa: PT018
    stored = _logged(WORK, [execution_namespace(name) for name in others], "", "works")
    on = f"{size:,} bindings, rate {RATE}/s, Celery worker, PostgreSQL and Redis on the same machine"
    moments = (("queue", tainted, queued), ("token", queued, evicted), ("schedule", evicted, scheduled))
    parts = [*moments, ("store", scheduled, stored)]
    figures = [Figure(f"failover.{size}", (stored - tainted).total_seconds(), "s", size, on)]
    for name, begins, ends in parts:
        seconds = (ends - begins).total_seconds()
        figures.append(Figure(f"failover.{size}.{name}", seconds, "s", size, "last one to last one; steps overlap"))
    return figures


def _moment(statement: str, *values: Any) -> datetime:
    found = _query(statement, *values)[0]
    assert isinstance(found, datetime), f"nothing was logged: {statement}"
    return found


def _logged(kind: str, namespaces: list[str], name: str, actor: str) -> datetime:
    """Return when objects of a kind were last written by somebody."""
    type_ = "ADDED" if kind == WORK else "MODIFIED"
    return _moment(
        "SELECT max(at) FROM objects_changelog WHERE kind = %s AND namespace = ANY(%s) AND type = %s AND actor = %s"
        " AND (%s = '' OR name = %s)",
        kind,
        namespaces,
        type_,
        actor,
        name,
        name,
    )
