"""What a page reads does not grow with the bindings: figures come from tables that are kept with every write."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection, transaction
from django.test import Client

from apps.api import pagination
from apps.api.health import HEALTH
from apps.api.places import list_url, object_url
from apps.console.cluster_acts import ACTS
from apps.objects import changelist
from apps.objects.store import store
from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Decision, Save
from controlplane.engine.state import Actor
from controlplane.insight.readiness_row import BLOCKED
from controlplane.kinds import CLUSTER, KINDS, RESOURCE_BINDING, WORK
from controlplane.kinds.obstacle import BLOCKS, Obstacle
from controlplane.kinds.rows import BindingReadiness
from tests.apps.pages import list_of, stored
from tests.builders.bare import binding, cluster
from tests.builders.objects import work

FEW, MANY = 250, 500  # bindings: more than any page shows
TABLES = ("resources_binding", "resources_targetcluster", "resources_work", "failover_bindingreadiness")
PAGES = (
    *("/", "/clusters", "/clusters/member1", "/queue", "/queue/rates", "/queue/gate/off", "/records", "/what-if"),
    *("/readiness", "/readiness?verdict=Blocked", "/readiness?obstacle=NoRefuge", "/drills", "/drills/start", "/pause"),
    *("/readiness?cluster=member1", "/readiness?namespace=shop", "/readiness?namespace=shop&verdict=Blocked"),
    "/readiness?cluster=member1&namespace=shop",
    *(f"/clusters/member1/{act}" for act in ACTS),
    *("/admin/", list_of(CLUSTER), list_of(RESOURCE_BINDING), list_of(WORK)),
    object_url(Ref(CLUSTER, "", "member1")),
    *(list_url(KINDS[key].resource, namespace="") for key in (CLUSTER, RESOURCE_BINDING, WORK)),
    "/apis/failover.lifeboat.io/v1alpha1/fleetreadinesses",
)
FULL = Obstacle("NoRefuge", BLOCKS, "no other cluster was found", "join another cluster", "member1")
READ = """
    SELECT sum(pg_stat_get_xact_tuples_returned(c.oid)) FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid
    WHERE coalesce(i.indrelid, c.oid) = ANY(%s::regclass[])"""


@pytest.fixture(autouse=True)
def checks_are_closed() -> Iterator[None]:
    """Close the connection of health checks, which the first page runs, before the database is dropped."""
    yield
    HEALTH.close()


def fill(begin: int, end: int) -> None:
    """Store that many bindings with their Works and answers about readiness."""
    names = [f"web{number}" for number in range(begin, end)]
    made = stored(*(binding(name, "member1", "member2") for name in names), *(work(name) for name in names))
    answers = [
        BindingReadiness(
            str(one.ref), "shop", one.metadata.name, "apps/v1/Deployment", BLOCKED, "NoRefuge", ("member1",), (FULL,)
        )
        for one in made[: len(names)]
    ]
    store().apply([(None, Decision(changes=tuple(map(Save, answers))))], by=Actor("test"))


def rows_read(client: Client, url: str) -> int:
    """Return how many rows and index entries of TABLES a request reads."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off")
        before = _counter()
        answer = client.get(url, HTTP_ACCEPT="text/html")
        assert answer.status_code == 200, (url, answer.content)
        return _counter() - before


def _counter() -> int:
    with connection.cursor() as cursor:
        cursor.execute(READ, [list(TABLES)])
        return int(cursor.fetchone()[0])


def test_no_page_reads_more_rows_for_more_bindings(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (changelist, pagination):  # they count up to a limit
        monkeypatch.setattr(module, "COUNTED", 100)
    with connection.cursor() as cursor:  # entries of rows that other tests deleted are read as well
        cursor.execute(f"TRUNCATE {', '.join(TABLES)} CASCADE")
    stored(cluster("member1"), cluster("member2"))
    fill(0, FEW)
    few = {url: rows_read(root, url) for url in PAGES}
    fill(FEW, MANY)
    many = {url: rows_read(root, url) for url in PAGES}

    assert {url: (few[url], number) for url, number in many.items() if number > few[url]} == {}
