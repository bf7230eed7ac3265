"""The plans by which PostgreSQL reads a large fleet: by an index, and not what is due later."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from apps.objects import change_log
from apps.objects.arrays import BinaryCursor
from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.selectors import LabelSelector, parse_label_selector
from controlplane.engine.state import Selection
from controlplane.kinds import BINDINGS, RESOURCE_BINDING, WORK
from controlplane.kinds.rows import CapacityReservation, Eviction
from tests.builders.bare import template
from tests.stores.grounds import controllers

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def store() -> DjangoStore:
    return DjangoStore(controllers=controllers())


PLANNED = 20_000
FILLED = (
    "resources_binding",
    "resources_work",
    "objects_due",
    "failover_eviction",
    "scheduling_capacityreservation",
    change_log.TABLE,
)


READS: dict[str, Callable[[DjangoStore], Any]] = {
    "get": lambda store: store.get([Ref(RESOURCE_BINDING, f"ns{n % 50}", f"b{n}") for n in range(500)]),
    "list": lambda store: store.list(RESOURCE_BINDING, after=("ns3", "b5"), limit=100),
    "refs": lambda store: store.refs(RESOURCE_BINDING, after=("ns3", "b5"), limit=100),
    "refs of a name": lambda store: store.refs(RESOURCE_BINDING, name="b77", limit=100),
    "refs by labels": lambda store: store.refs(
        RESOURCE_BINDING, any_of=[LabelSelector({"app": f"a{n}"}) for n in range(3)], after=("ns3", "b5"), limit=100
    ),
    "list of a namespace": lambda store: store.documents(RESOURCE_BINDING, namespace="ns7", limit=100),
    "label selector": lambda store: store.documents(RESOURCE_BINDING, labels=parse_label_selector("app=a7")),
    "by_index": lambda store: store.by_index(RESOURCE_BINDING, "placed", ["member1", "member2"]),
    "by_index of 500": lambda store: store.by_index(WORK, "binding", [f"b{n}" for n in range(500)]),
    "by_index, the first of each": lambda store: store.by_index(
        RESOURCE_BINDING, "placed", [f"member{n}" for n in range(10)], limit=20
    ),
    "refs_by_index": lambda store: store.refs_by_index(
        RESOURCE_BINDING, "placed", "member7", after=("ns1", ""), limit=100
    ),
    "page_by_index": lambda store: store.page_by_index(
        BINDINGS, "placed", ["member7", "member8"], after=Ref(RESOURCE_BINDING, "ns1", ""), limit=100
    ),
    "page_by_index, many values": lambda store: store.page_by_index(
        BINDINGS, "placed", [f"member{n}" for n in range(7, 300)], after=Ref(RESOURCE_BINDING, "ns1", ""), limit=100
    ),
    "count_by_index": lambda store: store.count_by_index(RESOURCE_BINDING, "placed", "member7", after=("ns1", "")),
    "rows by binding": lambda store: store.rows(Eviction, "binding", [f"b{n}" for n in range(500)]),
    "rows by binding, beside known ones": lambda store: store.rows(
        Eviction, "binding", [f"b{n}" for n in range(500)], known=store.queue_heads(limit=100)
    ),
    "rows by cluster": lambda store: store.rows(Eviction, "cluster", ["member1"]),
    "rows by state": lambda store: store.rows(Eviction, "state", ["Held"]),
    "rows by key": lambda store: store.rows(CapacityReservation, "key", [f"b{n}" for n in range(500)]),
    "values": lambda store: store.values(CapacityReservation, "cluster"),
    "reserved_capacity": lambda store: store.reserved_capacity(
        within=timedelta(seconds=300), bindings=[f"b{n}" for n in range(0, PLANNED, 40)]
    ),
    "queue_heads": lambda store: store.queue_heads(limit=10),
    "queue_heads of each cluster": lambda store: store.queue_heads(limit=10, per_cluster=True),
    "held_evictions": lambda store: store.held_evictions(after=(3, store.now(), "b7"), limit=10),
    "queued_between": lambda store: store.queued_between(
        store.now(), store.now() + timedelta(seconds=3), after="b7", limit=10
    ),
    "next_eviction": lambda store: store.next_eviction(),
    "kinds_on_members": lambda store: store.kinds_on_members(),
    "works_of": lambda store: store.works_of(("member1", "apps/v1", "Deployment")),
    "selected": lambda store: store.selected(
        [Selection(RESOURCE_BINDING, f"ns{n % 50}", LabelSelector(match_labels={"app": f"a{n}"})) for n in range(50)]
    ),
    "owned": lambda store: store.owned([f"ConfigMap:ns{n % 50}/top{n}" for n in range(500)], limit=200),
    "next_due": lambda store: store.next_due(["c1"]),
    "seconds_until_due": lambda store: store.seconds_until_due({"c1": 2}, shard=1),
    "claim": lambda store: store.claim("c1", shard=0, shards=1, limit=100, lease_seconds=1),
    "changes": lambda store: store.changes(PLANNED - 100),
    "list_at": lambda store: store.list_at(RESOURCE_BINDING, version=PLANNED, after=("ns3", "b5"), limit=100),
    "list_at by labels": lambda store: store.list_at(
        RESOURCE_BINDING, version=PLANNED - 100, after=("ns3", "b5"), limit=100, labels=parse_label_selector("app=a7")
    ),
}


class TestPlans:
    """Every query of State, on a large fleet, by an index."""

    @pytest.fixture
    def fleet(self, store: DjangoStore) -> DjangoStore:
        """Twenty thousand bindings, Works, due rows and evictions: rows as apply writes them, made in SQL."""
        numbers = f"FROM generate_series(1, {PLANNED}) n"
        common = "uid, resource_version, generation, doc, keys, labels"
        with connection.cursor() as cursor:
            cursor.execute(
                f"""INSERT INTO resources_binding (kind, namespace, name, {common},
                        resource_kind, replicas, scheduled, priority)
                    SELECT '{RESOURCE_BINDING}', 'ns' || n % 50, 'b' || n, n, n, 1, repeat('x', 1500),
                        ARRAY['placed=member' || n % 500, 'template=t' || n, 'policy=all'],
                        ARRAY['app=a' || n % 900, 'app'],
                        'apps/v1/Deployment', 1, 'True', 0 {numbers}"""
            )
            cursor.execute(
                f"""INSERT INTO resources_work (kind, namespace, name, {common}, cluster, applied,
                        manifest_api_version, manifest_kind)
                    SELECT '{WORK}', 'karmada-es-member' || n % 500, 'w' || n, n, n, 1, repeat('x', 1500),
                        ARRAY['binding=b' || n], ARRAY[]::text[], 'member' || n % 500, 'True', 'v1', 'Pod' {numbers}"""
            )
            cursor.execute(
                f"""INSERT INTO objects_due (controller, kind, namespace, name, due_at, seq, cursor, hash)
                    SELECT 'c' || n % 20, '{RESOURCE_BINDING}', 'ns', 'b' || n, now() + n * interval '1 second', n,
                        '', n {numbers}"""
            )
            cursor.execute(
                f"""INSERT INTO failover_eviction (key, binding, cluster, resource_kind, priority, due_at, queued_at,
                        state, reason, message, generation, judged)
                    SELECT 'b' || n, 'b' || n, 'member' || n % 500, 'x', n % 5, now() + n * interval '1 second',
                        now() - n * interval '1 second',
                        CASE WHEN n % 100 = 0 THEN 'Held' ELSE 'Queued' END, '', '', 1, '[]' {numbers}"""
            )
            cursor.execute(
                f"""INSERT INTO scheduling_capacityreservation (key, binding, cluster, replicas, request, made_at)
                    SELECT 'b' || n, 'b' || n, 'member' || n % 500, 1, '{{}}',
                        now() - n * interval '1 second' {numbers}"""
            )
            cursor.execute(
                f"""INSERT INTO objects_changelog (version, type, kind, namespace, name, doc, actor, reason, cause, at)
                    SELECT n, 'ADDED', '{RESOURCE_BINDING}', 'ns' || n % 50, 'b' || n, repeat('x', 1500), 'a', '', 0,
                        now() {numbers}"""
            )
            for table in FILLED:
                cursor.execute(f"ANALYZE {table}")
        return store

    def test_no_query_reads_a_whole_table(self, fleet: DjangoStore, monkeypatch: pytest.MonkeyPatch) -> None:
        plans: list[str] = []
        run = BinaryCursor.run

        def explaining(self: BinaryCursor, query: Any, params: Any = ()) -> Any:
            if "objects_counter" not in query:
                found = self.execute(f"EXPLAIN {query}", params)
                plans.append("\n".join(row[0] for row in found.fetchall()))
            return run(self, query, params)

        monkeypatch.setattr(BinaryCursor, "run", explaining)
        monkeypatch.setattr("apps.objects.lookup.read", lambda kind, doc, **more: template("stands-for-a-row"))
        scans: dict[str, str] = {}
        for name, read in READS.items():
            plans.clear()
            read(fleet)
            assert plans, f"{name} asked nothing"
            if found := next((plan for plan in plans if "Seq Scan" in plan), ""):
                scans[name] = found[:2000]

        assert scans == {}

    @pytest.mark.parametrize("statistics", ["recent", "none"])
    def test_what_is_due_later_is_not_read_to_find_what_is_due_now(
        self, fleet: DjangoStore, monkeypatch: pytest.MonkeyPatch, statistics: str
    ) -> None:
        if statistics == "none":  # as on a table that was filled after the last ANALYZE
            forget_statistics("objects_due")
        read: dict[str, float] = {}
        run = BinaryCursor.run

        def counting(self: BinaryCursor, query: Any, params: Any = ()) -> Any:
            [plan] = self.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", params).fetchone()[0]
            read[query] = _rows_read(plan["Plan"])
            return run(self, query, params)

        fleet.mark("c1", [Ref(RESOURCE_BINDING, "ns", "b1")])
        monkeypatch.setattr(BinaryCursor, "run", counting)
        fleet.claim("c1", shard=0, shards=1, limit=100, lease_seconds=0)
        fleet.next_due([f"c{n}" for n in range(20)])
        fleet.seconds_until_due({f"c{n}": 1 for n in range(20)}, shard=0)

        assert (len(read), max(read.values()) <= 40) == (3, True), read

    @pytest.mark.parametrize("several", [True, False])
    def test_the_pages_of_a_policy_read_each_of_its_bindings_about_once(
        self, fleet: DjangoStore, monkeypatch: pytest.MonkeyPatch, several: bool
    ) -> None:
        """Each page read all bindings of the policy: 50 pages of 100,000 bindings read five million rows."""
        read: list[float] = []
        run = BinaryCursor.run

        def counting(self: BinaryCursor, query: Any, params: Any = ()) -> Any:
            [plan] = self.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", params).fetchone()[0]
            read.append(_rows_read(plan["Plan"], "resources_binding"))
            return run(self, query, params)

        monkeypatch.setattr(BinaryCursor, "run", counting)
        monkeypatch.setattr("apps.objects.lookup.read", lambda kind, doc, **more: template("stands-for-a-row"))
        first = Ref(RESOURCE_BINDING, "ns20", "b20")
        if several:
            found: Any = fleet.page_by_index(BINDINGS, "policy", ["all"], after=first, limit=500)
        else:
            found = fleet.refs_by_index(RESOURCE_BINDING, "policy", "all", after=first[1:], limit=500)

        assert len(found) == 500
        assert 500 <= sum(read) <= 2000, read


def forget_statistics(table: str) -> None:
    """Remove what ANALYZE has found out about a table. Only a superuser may."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('is_superuser')")
        if cursor.fetchone() != ("on",):
            pytest.skip("the login of DATABASE_URL is no superuser and cannot remove statistics")
        cursor.execute("DELETE FROM pg_statistic WHERE starelid = %s::regclass", [table])


def _rows_read(node: Mapping[str, Any], table: str = "objects_due") -> float:
    """Return how many rows of a table the scans of a plan have read."""
    rows = sum(_rows_read(each, table) for each in node.get("Plans", ()))
    if node.get("Relation Name") != table:
        return rows
    names = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
    return rows + sum(float(node.get(name, 0)) for name in names) * float(node["Actual Loops"])
