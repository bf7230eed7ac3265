"""failover: bindings leave a lost cluster at 10,000/s by real worker processes; from its taint to the last new Work.

Beside it stands the time in which `propagate` places as many bindings in the same round.
"""

from __future__ import annotations

import os
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from apps.development.fleet import Fleet, store_all
from apps.objects.store import store
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
from tests.bench import propagate
from tests.bench.cpu import cpu_seconds, database_pids
from tests.bench.figure import ROUNDS, Figure, medians
from tests.emptied import empty_database
from tests.processes import Processes, environment, family, own_redis, until

SIZES = (50, 500, 5_000)
CLUSTERS = 3
RATE = "10000"
WITHIN = 300.0  # seconds until we give up
ONE = (SpreadConstraint(spread_by_field="cluster", min_groups=1, max_groups=1),)


def run() -> list[Figure]:
    """Lose a cluster with 50, 500 and 5,000 bindings on it, one after the other, in rounds of an empty database."""
    return medians([_round() for _ in range(ROUNDS)])


def _round() -> list[Figure]:
    placed = propagate.placed(SIZES[-1]).seconds / SIZES[-1]
    empty_database()
    sizes = SIZES[1:] if os.environ.get("BENCH_WHOLE") else SIZES  # in a run of all benches, without the smallest
    return [figure for size in sizes for figure in lost(size, placed_in=size * placed)]


def lost(size: int, *, placed_in: float, during: propagate.During = propagate.nothing_else) -> list[Figure]:
    """Return how long it takes until a lost cluster has no binding any more.

    `placed_in`: seconds in which `propagate` places as many bindings. `during`: what goes on around the failover, given
    the processes of the workers.
    """
    with tempfile.TemporaryDirectory(prefix="lifeboat-bench-") as name:
        redis_url = own_redis()
        given = {"feature_gates": "Failover=true", "resource_eviction_rate": RATE}
        with Processes(Path(name), environment(Path(name), redis_url=redis_url, **given)) as processes:
            return _lost(size, redis_url, family(processes.worker()), placed_in=placed_in, during=during)


def _lost(size: int, redis_url: str, workers: list[int], *, placed_in: float, during: propagate.During) -> list[Figure]:
    """Put everything on one cluster, taint it, and read from the change log when what had happened."""
    prefix = f"lost{size}"
    lost = f"{prefix}-0000"
    others = [f"{prefix}-{number:04d}" for number in range(1, CLUSTERS)]
    with propagate.Beat(redis_url):
        store_all(store(), _objects(size, prefix), by="bench")
        until(lambda: _works([lost]) >= size, within=WITHIN, every=0.2)
        for name in others:
            _taint(name)
        until(_quiet, within=WITHIN, every=0.2)
        before = cpu_seconds(workers), cpu_seconds(database_pids())
        with during(workers):
            _taint(lost, Taint("bench", "NoExecute", time_added=store().now()))
            until(lambda: _works(others) >= size, within=WITHIN, every=0.5)  # times come from the log
        spent = cpu_seconds(workers) - before[0], cpu_seconds(database_pids()) - before[1]
    return _figures(size, lost, others, spent=spent, placed_in=placed_in)


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
    """Test whether only controllers that look at the fleet every few seconds have anything to do.

    The readiness of placed bindings is looked at some seconds after they were placed. That is waited for as well,
    because it is a part of placing them.
    """
    statement = """
        SELECT count(*) FROM objects_due WHERE controller <> ALL(%s)
        AND (due_at <= clock_timestamp() OR (controller = 'readiness' AND kind LIKE '%%ResourceBinding'))"""
    return _query(statement, ["probes", "collection", "execution", "work_status"])[0] == 0


def _figures(size: int, lost: str, others: list[str], *, spent: tuple[float, float], placed_in: float) -> list[Figure]:
    """Return the figures of a failover. `spent`: CPU seconds of the workers and of PostgreSQL."""
    tainted, scheduled = (
        _logged(CLUSTER, [""], lost, "bench"),
        _moment(
            "SELECT max(at) FROM objects_changelog WHERE actor IN ('evictions', 'scheduler') AND kind LIKE %s",
            "%%ResourceBinding",
        ),
    )
    queued, evicted = _query("SELECT max(queued_at), max(ended_at) FROM failover_eviction WHERE cluster = %s", lost)
    assert isinstance(queued, datetime) and isinstance(evicted, datetime), "everything was evicted"  # noqa: PT018
    stored = _logged(WORK, [execution_namespace(name) for name in others], "", "works")
    on = f"{size:,} bindings, rate {RATE}/s, Celery worker, PostgreSQL and Redis on the same machine"
    moments = (("queue", tainted, queued), ("token", queued, evicted), ("schedule", evicted, scheduled))
    parts = [*moments, ("store", scheduled, stored)]
    shares = f"CPU: workers {spent[0]:.1f} s, PostgreSQL {spent[1]:.1f} s"
    took, beside = (stored - tainted).total_seconds(), f"propagate places {size:,} in {placed_in:.1f} s"
    figures = [
        Figure(f"failover.{size}", took, "s", size, on, beside=beside, ratio=took / placed_in),
        Figure(f"failover.{size}.cpu", 1000 * sum(spent) / size, "ms/binding", size, shares),
    ]
    for name, begins, ends in parts:
        seconds = (ends - begins).total_seconds()
        figures.append(Figure(f"failover.{size}.{name}", seconds, "s", size, "last one to last one; steps overlap"))
    return figures


def _moment(statement: str, *values: Any) -> datetime:
    found = _query(statement, *values)[0]
    assert isinstance(found, datetime), f"nothing was logged: {statement}"
    return found


def _logged(kind: str, namespaces: list[str], name: str, actor: str) -> datetime:
    """Return when objects of a kind were last written by any process."""
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
