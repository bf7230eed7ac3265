"""One cluster changes among 100,000 bindings: only those it concerns are decided, in eleven queries from the change to
the decisions, and a dozen statements more write down that they are due and what was decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import pytest
from django.db import connection

from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import Ref
from controlplane.controllers.scheduler import Scheduler
from controlplane.engine.decision import Decision, Put
from controlplane.engine.run import World, run_batch, run_until_idle
from controlplane.kinds import CLUSTER
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.policy import Placement
from controlplane.settings import Settings
from tests.builders.objects import bound, cluster
from tests.builders.placements import DYNAMIC, placement
from tests.builders.scheduling import spec
from tests.stores.grounds import USER, create
from tests.stores.test_postgres import counting

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

ALL = 100_000
FOLLOWING, WAITING = 50, 50  # copies that go wherever they may, and shares that wait for room
QUERIES, WRITTEN = 12, 12


class Counting(Scheduler):
    """The scheduler, which says what it decided."""

    def __init__(self) -> None:
        super().__init__()
        self.decided: list[str] = []

    def decide_all(
        self, snapshots: Sequence[Any], settings: Settings, *, now: datetime, answer: Any = None
    ) -> list[Decision | Exception]:
        self.decided += [one.subject.metadata.name for one in snapshots]
        return super().decide_all(snapshots, settings, now=now, answer=answer)


def binding(name: str, where: Placement, *, replicas: int = 1) -> Binding:
    return bound(spec(where, replicas=replicas), name=name, namespace="shop")


def multiply(name: str, count: int) -> None:
    """Make that many more rows like the binding of that name."""
    table = "resources_binding"
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND column_name <> 'id'", [table]
        )
        columns = [column for (column,) in cursor.fetchall()]
        new = {"name": "%s || '-' || n", "uid": "uid || '-' || n", "doc": "replace(doc, %s, %s || '-' || n)"}
        values = ", ".join(new.get(column, column) for column in columns)
        params = [part for column in columns for part in {"name": [name], "doc": [name, name]}.get(column, [])]
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} "
            f"FROM {table}, generate_series(1, %s) n WHERE name = %s",
            [*params, count, name],
        )
        cursor.execute(f"ANALYZE {table}")


def read(statements: list[str]) -> list[str]:
    """Return the statements of a batch before it takes the write lock."""
    locked = next(place for place, one in enumerate(statements) if "objects_counter" in one)
    return statements[:locked]


def tainted(one: Cluster) -> Cluster:
    return one.with_spec(taints=(Taint("example.io/busy", "PreferNoSchedule"),))


def closed(one: Cluster) -> Cluster:
    return one.with_spec(taints=(*one.spec.taints, Taint("example.io/down", "NoExecute")))


def labelled(one: Cluster) -> Cluster:
    return one.with_meta(labels={**one.metadata.labels, "seen": "yes"})


def roomier(one: Cluster) -> Cluster:
    return one.with_status(resource_summary=cluster("near", room=9).status.resource_summary)


CHANGES: tuple[tuple[str, Callable[[Cluster], Cluster], int], ...] = (
    ("taint", tainted, FOLLOWING + WAITING),
    ("label", labelled, FOLLOWING + WAITING),
    ("capacity", roomier, WAITING),
    ("closed", closed, WAITING),
)


def test_a_changed_cluster_costs_what_it_concerns(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Counting()
    store = DjangoStore(controllers=[scheduler])
    create(store, cluster("near", room=5), cluster("far", room=5))
    create(
        store,
        binding("elsewhere", placement("far")),
        binding("follows", placement("near")),
        binding("waits", placement("near", how=DYNAMIC), replicas=500),
    )
    run_until_idle([scheduler], store, Settings(), world=World())
    multiply("elsewhere", ALL - FOLLOWING - WAITING - 1)
    multiply("follows", FOLLOWING - 1)
    multiply("waits", WAITING - 1)

    for what, change, concerned in CHANGES:
        old = store.get([Ref(CLUSTER, "", "near")])[Ref(CLUSTER, "", "near")]
        store.apply([(None, Decision(changes=(Put(change(old), old),)))], by=USER)
        scheduler.decided.clear()
        with counting(monkeypatch) as found:
            run_batch(scheduler, store, Settings(), world=World())
        with counting(monkeypatch) as stored:
            run_batch(scheduler, store, Settings(), world=World())

        assert len(scheduler.decided) == concerned, what
        assert not [one for one in scheduler.decided if one.startswith("elsewhere")], what
        queries = read(found) + read(stored)
        assert len(queries) <= QUERIES, f"{what}: to find and decide them: {queries}"
        assert len(found + stored) - len(queries) <= WRITTEN, f"{what}: to note and store them: {found + stored}"
