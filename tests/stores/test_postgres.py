"""What only the database store does: statements, pages as of a version, partitions, notices, projections."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from msgspec.structs import replace

from apps.objects import apply as writing
from apps.objects import change_log
from apps.objects.arrays import BinaryCursor
from apps.objects.store import DjangoStore
from controlplane.apimachinery.errors import Expired
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import PROPAGATION_POLICY_NAME_ANNOTATION, PROPAGATION_POLICY_NAMESPACE_ANNOTATION
from controlplane.apimachinery.selectors import parse_field_selector, parse_label_selector
from controlplane.engine.decision import Decision, Delete, Event, Put, Save
from controlplane.kinds import CLUSTER, RESOURCE_BINDING
from controlplane.kinds.binding import GracefulEvictionTask
from controlplane.kinds.rows import CapacityReservation, Collected, Eviction, Observation
from tests.builders.bare import binding, cluster, template
from tests.builders.objects import eviction
from tests.stores.grounds import PLACER, USER, controllers, create, stored, write

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def store() -> DjangoStore:
    return DjangoStore(controllers=controllers())


def rows(query: str, *params: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(query, params)
        return list(cursor.fetchall())


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Collect the statements that run meanwhile."""
    seen: list[str] = []
    execute = BinaryCursor.execute

    def noting(self: BinaryCursor, query: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(str(query))
        return execute(self, query, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(BinaryCursor, "execute", noting)
        yield seen


class TestStatements:
    def test_a_batch_costs_as_many_statements_for_500_objects_as_for_10(
        self, store: DjangoStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def batch(prefix: str, count: int) -> int:
            made = [binding(f"{prefix}{number:03}", "member1") for number in range(count)]
            outcomes = store.apply([(None, Decision(changes=(Put(one, None),))) for one in made], by=USER)
            old = [one.objects[0] for one in outcomes]
            claims = store.claim("placer", shard=0, shards=1, limit=count, lease_seconds=60).claims
            decisions = [
                Decision(
                    changes=(
                        Put(one.with_spec(clusters=binding("x", "member2").spec.clusters), one),
                        Save(CapacityReservation(key=one.metadata.name)),
                    ),
                )
                for one in old  # type: ignore[union-attr]  # created just now
            ]
            with counting(monkeypatch) as seen:
                store.apply(list(zip(claims, decisions, strict=True)), by=PLACER)
            return len(seen)

        assert batch("small", 10) == batch("large", 250) < 20

    @pytest.mark.parametrize(
        "read",
        [
            lambda store, refs: store.get(refs),
            lambda store, refs: store.by_index(RESOURCE_BINDING, "placed", [ref.name for ref in refs]),
            lambda store, refs: store.rows(Eviction, "binding", [ref.name for ref in refs]),
        ],
        ids=["get", "by_index", "rows"],
    )
    def test_reading_costs_one_statement_per_table(
        self, store: DjangoStore, monkeypatch: pytest.MonkeyPatch, read: Callable[..., Any]
    ) -> None:
        refs = [Ref(RESOURCE_BINDING, "shop", f"b{number}") for number in range(300)]

        with counting(monkeypatch) as seen:
            read(store, refs)

        assert len(seen) == 1

    def test_rows_that_were_just_read_are_not_read_again(self, store: DjangoStore) -> None:
        ref = Ref(RESOURCE_BINDING, "shop", "web")
        rows = [eviction(ref, on=name) for name in ("member1", "member2", "member3")]
        store.apply([(None, Decision(changes=tuple(map(Save, rows))))], by=USER)
        known = (replace(rows[1], message="as it was read"),)

        found = store.rows(Eviction, "binding", [str(ref)], known=known)

        assert found == {str(ref): [rows[0], *known, rows[2]]}

    def test_a_spec_that_changed_without_its_generation_is_a_defect(self, store: DjangoStore) -> None:
        (old,) = create(store, binding("web"))
        forged = old.with_spec(replicas=9).with_meta(generation=1)

        with pytest.raises(AssertionError, match="with_spec"):
            write(store, Put(forged, old))


class TestDocuments:
    @pytest.fixture
    def filled(self, store: DjangoStore) -> DjangoStore:
        create(
            store,
            template("a", labels={"app": "web", "tier": "gold"}),
            template("b", labels={"app": "web", "tier": "silver"}),
            template("c", labels={"app": "api"}),
            template("d", namespace="other"),
        )
        return store

    def test_texts_are_what_was_written_byte_for_byte(self, filled: DjangoStore) -> None:
        texts = {one.name: one.text for one in filled.documents("ConfigMap")}

        logged = {change.ref.name: change.document.decode() for change in filled.changes(0)}
        assert texts == logged

    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            ("", "abcd"),
            ("app=web", "ab"),
            ("app==web,tier=gold", "a"),
            ("app!=web", "cd"),
            ("app in (web,api)", "abc"),
            ("tier notin (gold)", "bcd"),
            ("tier", "ab"),
            ("!tier", "cd"),
            ("app=nothing", ""),
        ],
    )
    def test_label_selectors_choose_as_the_pure_ones_do(
        self, filled: DjangoStore, selector: str, expected: str
    ) -> None:
        parsed = parse_label_selector(selector)

        found = "".join(one.name for one in sorted(filled.documents("ConfigMap", labels=parsed), key=lambda d: d.name))

        pure = sorted(one.metadata.name for one in filled.list("ConfigMap") if parsed.matches(one.metadata.labels))
        assert found == expected == "".join(pure)

    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            ("metadata.name=b", "b"),
            ("metadata.name!=b", "dac"),
            ("metadata.namespace=other", "d"),
            ("metadata.namespace!=other,metadata.name!=a", "bc"),
        ],
    )
    def test_field_selectors(self, filled: DjangoStore, selector: str, expected: str) -> None:
        found = filled.documents("ConfigMap", fields=parse_field_selector(selector))

        assert "".join(one.name for one in found) == expected

    def test_pages(self, filled: DjangoStore) -> None:
        first = filled.documents("ConfigMap", namespace="shop", limit=2)
        rest = filled.documents("ConfigMap", namespace="shop", after=(first[-1].namespace, first[-1].name), limit=2)

        assert [one.name for one in (*first, *rest)] == ["a", "b", "c"]


class TestListingAsOfAVersion:
    def test_later_pages_show_what_the_first_one_saw(self, store: DjangoStore) -> None:
        objects = create(store, *(template(f"t{number}") for number in range(6)))
        before = store.documents("ConfigMap")
        version = store.current_version()
        write(store, Delete(objects[4]))
        write(store, Put(objects[5].with_content({"data": {"key": "new"}}), objects[5]))
        changed = stored(store, objects[5])
        write(store, Put(changed.with_content({"data": {"key": "newer"}}), changed))
        create(store, template("t2-and-a-half"))

        first = store.list_at("ConfigMap", version=version, limit=3)
        rest = store.list_at("ConfigMap", version=version, after=(first[-1].namespace, first[-1].name), limit=50)

        assert [*first, *rest] == list(before)

    def test_what_was_deleted_and_recreated_is_shown_as_it_was(self, store: DjangoStore) -> None:
        (old,) = create(store, template("a"))
        before = store.documents("ConfigMap")
        write(store, Delete(old))
        create(store, template("a", uid="another"))

        assert store.list_at("ConfigMap", version=1) == before

    @pytest.mark.parametrize("selector", ["of=few", "of!=few", "of", "!of", "of in (few,many),n=1"])
    def test_labels_choose_by_what_they_were_then(self, store: DjangoStore, selector: str) -> None:
        few, many = {"of": "few"}, {"of": "many", "n": "1"}
        names = ("gone", "kept", "more", "none", "with-few")
        made = create(store, *(template(name, labels=dict(few)) for name in names), template("z", labels=many))
        write(store, Put(made[3].with_meta(labels={}), made[3]))
        labels = parse_label_selector(selector)
        before, version = store.documents("ConfigMap", labels=labels), store.current_version()
        write(store, Delete(made[0]))
        none = stored(store, made[3])
        for old, changed in ((made[2], many), (none, few), (made[4], {}), (made[5], few)):
            write(store, Put(old.with_meta(labels=dict(changed)), old))
        create(store, template("a", labels=few), template("b", labels=many), template("gone", uid="another"))

        first = store.list_at("ConfigMap", version=version, labels=labels, limit=1)
        after = (first[-1].namespace, first[-1].name)
        rest = store.list_at("ConfigMap", version=version, labels=labels, after=after, limit=50)

        assert [*first, *rest] == list(before)
        assert list(store.list_at("ConfigMap", version=version, labels=labels)) == list(before)

    def test_labels_are_read_beside_any_text(self, store: DjangoStore) -> None:
        content = {"data": {"odd": "\0 😀 \u2028", "quoted": '"labels":{"of":"many"}'}}
        (made,) = create(store, template("a", labels={"of": "few"}).with_content(content))
        version, labels = store.current_version(), parse_label_selector("of=few")
        before = store.documents("ConfigMap", labels=labels)
        write(store, Put(made.with_content({}), made))

        assert list(store.list_at("ConfigMap", version=version, labels=labels)) == list(before)

    def test_a_version_the_log_no_longer_reaches_is_expired(
        self, store: DjangoStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with small_partitions(store, monkeypatch):
            create(store, *(template(f"t{number}") for number in range(30)))
            store.trim_log(store.now(), keep_versions=15)

            with pytest.raises(Expired, match="list again"):
                store.list_at("ConfigMap", version=2)


@contextmanager
def small_partitions(store: DjangoStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make partitions of ten versions each, and leave the log behind as it was."""

    def rebuild(size: int) -> None:
        with connection.cursor() as cursor:
            for (name,) in rows(
                "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass", change_log.TABLE
            ):
                cursor.execute(f"DROP TABLE {name}")
        monkeypatch.setattr(change_log, "PARTITION_VERSIONS", size)
        change_log.forget()

    before = change_log.PARTITION_VERSIONS
    rebuild(10)
    try:
        yield
    finally:
        rebuild(before)
        with writing.binary_cursor() as cursor:
            change_log.make_room(cursor, 1)


class TestNotices:
    def test_listeners_hear_the_newest_version_and_who_has_work(self, store: DjangoStore) -> None:
        with psycopg.connect(**connection.get_connection_params(), autocommit=True) as listener:  # type: ignore[arg-type]
            listener.execute("LISTEN lifeboat")
            listener.execute("LISTEN due")

            create(store, binding("web"))
            heard = {notice.channel: notice.payload for notice in listener.notifies(timeout=60, stop_after=2)}

        assert heard == {"lifeboat": "1", "due": "placer"}

    def test_listeners_hear_who_has_work_although_no_object_was_written(self, store: DjangoStore) -> None:
        with psycopg.connect(**connection.get_connection_params(), autocommit=True) as listener:  # type: ignore[arg-type]
            listener.execute("LISTEN lifeboat")
            listener.execute("LISTEN due")

            write(store, Save(Observation(key="member1")))
            heard = [(notice.channel, notice.payload) for notice in listener.notifies(timeout=60, stop_after=1)]
            create(store, binding("web"))
            heard += [(notice.channel, notice.payload) for notice in listener.notifies(timeout=60, stop_after=2)]

        assert heard[0] == ("due", "placer")
        assert set(heard[1:]) == {("lifeboat", "1"), ("due", "placer")}, "of the row watches heard nothing"

    def test_watches_hear_of_evictions_although_no_object_was_written(self, store: DjangoStore) -> None:
        with psycopg.connect(**connection.get_connection_params(), autocommit=True) as listener:  # type: ignore[arg-type]
            listener.execute("LISTEN lifeboat")

            write(store, Save(Eviction(key="a|b")))
            heard = [notice.channel for notice in listener.notifies(timeout=60, stop_after=1)]

        assert heard == ["lifeboat"]


class TestTransactions:
    def test_a_write_within_another_transaction_is_refused(self, store: DjangoStore) -> None:
        with transaction.atomic(), pytest.raises(RuntimeError, match="cannot be a part of another"):
            create(store, binding("web"))

        assert store.list(RESOURCE_BINDING) == []

    def test_an_object_created_and_removed_by_one_decision_leaves_no_trace(self, store: DjangoStore) -> None:
        new = template("short")

        outcome = write(store, Put(new, None), Delete(new))

        assert not outcome.lost
        assert stored(store, new) is None
        assert list(store.changes(0)) == []
        (later,) = create(store, template("later"))
        assert [change.version for change in store.changes(0)] == [int(later.metadata.resource_version)]


class TestProjections:
    def test_columns_and_children_follow_the_document(self, store: DjangoStore) -> None:
        (old,) = create(store, binding("web", "member1", "member2", replicas=3))
        assert rows("SELECT cluster, replicas FROM resources_targetcluster ORDER BY cluster") == [
            ("member1", 3),
            ("member2", 3),
        ]

        moved = old.with_spec(
            clusters=binding("web", "member2").spec.clusters,
            graceful_eviction_tasks=(
                GracefulEvictionTask("member1", purge_mode="Gracefully", reason="TaintUntolerated"),
            ),
            replicas=7,
        )
        write(store, Put(moved, old))

        assert rows("SELECT cluster FROM resources_targetcluster") == [("member2",)]
        assert rows("SELECT binding, from_cluster, reason FROM failover_gracefulevictiontask") == [
            (str(old.ref), "member1", "TaintUntolerated")
        ]
        assert rows("SELECT replicas, resource_kind, generation FROM resources_binding") == [
            (7, "apps/v1/Deployment", 2)
        ]

    def test_children_go_with_their_owner(self, store: DjangoStore) -> None:
        member, placed = create(store, cluster("member1", "NoExecute"), binding("web", "member1"))
        assert rows("SELECT cluster, effect FROM clusters_taint") == [("member1", "NoExecute")]

        write(store, Delete(member), Delete(placed))

        assert rows("SELECT count(*) FROM clusters_taint") == [(0,)]
        assert rows("SELECT count(*) FROM resources_targetcluster") == [(0,)]


def test_events_are_upserted_in_the_transaction_of_what_they_tell(store: DjangoStore) -> None:
    (old,) = create(store, binding("web"))

    write(store, Put(old.with_spec(replicas=5), old), events=(Event(old, "Scaled", "to 5"),))

    at = {change.ref.kind: change.at for change in store.changes(1)}
    assert len(set(at.values())) == 1
    assert set(at) == {RESOURCE_BINDING, "Event"}


def test_clusters_are_in_their_own_table(store: DjangoStore) -> None:
    create(store, cluster("member1"))

    assert rows("SELECT kind, name, region, sync_mode FROM clusters_cluster") == [(CLUSTER, "member1", "eu", "Push")]


def test_a_cluster_is_decoded_again_only_when_it_has_changed(store: DjangoStore) -> None:
    [kept, edited] = create(store, cluster("kept"), cluster("edited"))
    known = {one.ref: one for one in store.list(CLUSTER)}

    write(store, Put(edited.with_spec(region="us"), edited))

    found = store.get([kept.ref, edited.ref])
    assert found[kept.ref] is known[kept.ref]
    assert found[edited.ref].spec.region == "us"
    assert [one.spec.region for one in store.list(CLUSTER)] == ["us", "eu"]


@pytest.mark.parametrize("name", ["a\0b", "a\x1fpolicy=PropagationPolicy:x/forged"], ids=["NUL", "separator"])
def test_what_users_write_into_annotations_is_stored_and_forges_no_index_entry(store: DjangoStore, name: str) -> None:
    annotations = {PROPAGATION_POLICY_NAMESPACE_ANNOTATION: "x", PROPAGATION_POLICY_NAME_ANNOTATION: name}
    [made] = create(store, template("web").with_meta(annotations=annotations))

    assert stored(store, made.ref) == made
    assert rows("SELECT keys FROM objects_object WHERE name = 'web'") == [([],)]


def test_what_members_tell_is_kept_with_the_picture_of_a_nul(store: DjangoStore) -> None:
    reported = Collected("member1", kubernetes_version="v1\0", unread=("a\0\0", "a\\u0000", "\\\0"))

    write(store, Save(reported))

    (kept,) = store.rows(Collected, "key", ["member1"])["member1"]
    assert (kept.kubernetes_version, kept.unread) == ("v1␀", ("a␀␀", "a\\u0000", "\\␀"))


def test_a_transaction_fits_into_the_socket(store: DjangoStore) -> None:
    """Linux gives twice what is asked for, up to twice net.core.wmem_max, of which half is its own."""
    with writing.binary_cursor() as cursor, socket.socket(fileno=os.dup(cursor.connection.fileno())) as own:
        if own.family != socket.AF_UNIX:
            pytest.skip("the database of this run is not reached through a Unix socket")
        most = int(Path("/proc/sys/net/core/wmem_max").read_text())
        assert own.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * min(writing.TRANSACTION_BYTES, most)
