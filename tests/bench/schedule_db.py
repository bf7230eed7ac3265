"""schedule_db: 10,000 pending bindings over 100 clusters as they really report, scheduled and stored in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter, process_time

from apps.development.fleet import Fleet, store_all
from apps.objects.store import DjangoStore, store
from controlplane.controllers import CONTROLLERS
from controlplane.engine.controller import Controller
from controlplane.engine.run import World, run_batch
from controlplane.kinds import CLUSTER, RESOURCE_BINDING
from controlplane.kinds.binding import Binding
from controlplane.settings import Settings
from tests.bench.figure import Figure

BINDINGS = 10_000
CLUSTERS = 100
LEASE_SECONDS = 600.0
BEFORE = ("policies", "namespaces")  # what makes bindings of templates


def run() -> list[Figure]:
    """Let policies make bindings of templates, then time the scheduler alone until all of them are stored."""
    database = store()
    fleet = Fleet(clusters=CLUSTERS, bindings=BINDINGS, now=database.now(), prefix="bench")
    store_all(database, list(fleet.objects()), by="bench")
    by_name = {one.name: one for one in CONTROLLERS}
    _work_off(database, [by_name[name] for name in ("scheduler", *BEFORE)])  # joining asks for bindings there are
    wall, cpu = perf_counter(), process_time()
    looked_at = _work_off(database, [by_name["scheduler"]])
    wall, cpu = perf_counter() - wall, process_time() - cpu
    placed, pending = _counts(database)
    assert placed + pending == BINDINGS, f"{placed} placed and {pending} pending of {BINDINGS:,}"
    conditions = (
        f"{CLUSTERS} clusters of {3}-{100} nodes, five ways of placing, notes, reservations, events, log and due rows, "
        f"one process; {placed:,} placed, {pending:,} without room, {looked_at:,} looked at"
    )
    return [
        Figure("schedule_db", wall, "s", BINDINGS, conditions),
        Figure("schedule_db.cpu", cpu, "s", BINDINGS, "of our process; the rest of the time PostgreSQL worked"),
    ]


def _work_off(database: DjangoStore, controllers: Iterable[Controller]) -> int:
    """Run each controller until nothing is due for it; return how many objects were looked at."""
    total, settings = 0, Settings()
    for controller in controllers:
        lease = database.take_lease(controller.group, 0, holder="bench", seconds=LEASE_SECONDS)
        assert lease is not None, f"another process has the lease of {controller.group}"
        while claimed := run_batch(controller, database, settings, world=World(), lease=lease).claimed:
            total += claimed
        database.drop_lease(lease, holder="bench")
    return total


def _counts(database: DjangoStore) -> tuple[int, int]:
    bindings: list[Binding] = list(database.list(RESOURCE_BINDING))
    assert len(list(database.list(CLUSTER))) == CLUSTERS
    decided = [one for one in bindings if one.status.conditions]
    placed = sum(1 for one in decided if one.spec.clusters)
    return placed, len(decided) - placed
