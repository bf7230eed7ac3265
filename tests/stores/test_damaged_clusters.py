"""A Cluster whose document cannot be decoded stops only what is about itself: a later release wrote it, or it is
damaged."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from django.db import connection

from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import ObjectMeta, Ref
from controlplane.controllers import CONTROLLERS
from controlplane.engine.decision import Put
from controlplane.engine.run import Report, run_batch
from controlplane.engine.state import Unreadable
from controlplane.kinds import CLUSTER, RESOURCE_BINDING, WORK
from controlplane.kinds.binding import TargetCluster
from controlplane.kinds.drain import DRAIN, PAUSED, Drain, DrainSpec
from controlplane.kinds.rows import EVICTED, Eviction
from controlplane.kinds.work import Work
from controlplane.settings import Settings
from tests.builders.objects import binding, cluster, no_execute
from tests.builders.templates import deployment
from tests.core.eviction_fleet import ANYWHERE, FAST
from tests.core.test_failbacks import API_VERSION
from tests.stores.grounds import create, write
from tests.stores.test_damaged_documents import WORLD, evict
from tests.stores.test_evicting_cascade import queued

pytestmark = pytest.mark.django_db(transaction=True)

BY_NAME = {one.name: one for one in CONTROLLERS}
BAD = Ref(CLUSTER, "", "bad")
PARTS = pytest.mark.parametrize(
    ("part", "value"),
    [
        ("{spec}", "[]"),
        ("{status}", "7"),
        ("{spec,taints}", '"?"'),
        ("{metadata,labels}", "[]"),
        ("{status,conditions}", "{}"),
    ],
)


def damage(part: str, value: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE clusters_cluster SET doc = jsonb_set(doc::jsonb, %s, %s)::text WHERE name = 'bad' RETURNING doc",
            (part, value),
        )
        return str(cursor.fetchone()[0])


def stored() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT doc FROM clusters_cluster WHERE name = 'bad'")
        return str(cursor.fetchone()[0])


def looked(store: DjangoStore, controller: str, refs: Iterable[Ref], settings: Settings = FAST) -> Report:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM objects_due")
    store.mark(controller, list(refs))
    return run_batch(BY_NAME[controller], store, settings, world=WORLD)


@PARTS
def test_it_stops_no_eviction_from_another_cluster(part: str, value: str) -> None:
    store = queued(3)
    create(store, cluster("bad"))
    damage(part, value)

    evict(store)

    assert len(store.rows(Eviction, "state", [EVICTED])[EVICTED]) == 3


@PARTS
def test_workloads_are_placed_and_not_on_it(part: str, value: str) -> None:
    store = DjangoStore(controllers=[BY_NAME["scheduler"]])
    create(store, cluster("bad"), cluster("member1"), *(binding(name, ANYWHERE, replicas=2) for name in ("a", "z")))
    damage(part, value)

    report = looked(store, "scheduler", [one.ref for one in store.list(RESOURCE_BINDING)])

    assert report.failures == ()
    assert [[target.name for target in one.spec.clusters] for one in store.list(RESOURCE_BINDING)] == [["member1"]] * 2


@PARTS
def test_a_copy_on_it_stays(part: str, value: str) -> None:
    store = DjangoStore(controllers=[BY_NAME["scheduler"]])
    one = binding("web", ANYWHERE, on={"bad": 2})
    create(store, cluster("bad"), cluster("member1"), one)
    damage(part, value)

    looked(store, "scheduler", [one.ref])

    assert [target.name for target in store.get([one.ref])[one.ref].spec.clusters] == ["bad"]


@PARTS
def test_taints_of_all_others_are_kept_up_and_its_own_document_stays(part: str, value: str) -> None:
    store = DjangoStore(controllers=[BY_NAME["cluster_taints"]])
    create(store, cluster("bad"), cluster("lost", ready="False"), cluster("member1"))
    damaged = damage(part, value)

    report = looked(store, "cluster_taints", (one.ref for one in store.list(CLUSTER)), Settings())

    assert [failure.ref for failure in report.failures] == [BAD]
    assert "Cluster bad is no document of its kind" in str(report.failures[0].error)
    lost = Ref(CLUSTER, "", "lost")
    assert [taint.effect for taint in store.get([lost])[lost].spec.taints] == ["NoSchedule"]
    assert stored() == damaged


def test_a_tainted_one_keeps_no_binding_from_being_judged() -> None:
    store = DjangoStore(controllers=[BY_NAME["eviction_queue"]])
    ones = [binding(name, ANYWHERE, on={name: 1}) for name in ("bad", "member1")]
    create(store, *(cluster(name, taints=[no_execute()]) for name in ("bad", "member1")), *ones)
    damage("{status}", "7")

    report = looked(store, "eviction_queue", [one.ref for one in ones])

    assert report.failures == ()


def test_its_drain_waits() -> None:
    store = DjangoStore(controllers=[BY_NAME["drains"]])
    create(store, cluster("bad"), cluster("member1"), binding("web", ANYWHERE, on={"bad": 1}))
    create(store, Drain(API_VERSION, "Drain", ObjectMeta(name="disks"), DrainSpec("bad", 10.0)))
    damaged = damage("{status}", "7")

    looked(store, "drains", [Ref(DRAIN, "", "disks")])

    (drain,) = store.list(DRAIN)
    assert drain.status.phase == PAUSED
    assert "Cluster bad is no document of its kind" in drain.status.message
    assert stored() == damaged


def test_who_asks_for_it_alone_hears_that_it_cannot_be_read() -> None:
    store = DjangoStore()
    create(store, cluster("bad"))
    damage("{status}", "7")
    assert [one.metadata.name for one in store.list(CLUSTER)] == ["bad"]

    with pytest.raises(Unreadable):
        store.get([BAD])


@PARTS
def test_works_on_other_clusters_are_kept_up_and_those_on_it_stay(part: str, value: str) -> None:
    """A binding with a copy on it waited as a whole: its other copies did not get what users changed."""
    store = DjangoStore(controllers=[BY_NAME["works"]])
    web = deployment("web")
    one = binding("web", ANYWHERE, on={"bad": 1, "member1": 1})
    moved = binding("api", ANYWHERE, on={"bad": 1})
    create(store, cluster("bad"), cluster("member1"), cluster("member2"), web, deployment("api"), one, moved)
    assert looked(store, "works", [one.ref, moved.ref]).failures == ()
    damage(part, value)
    before = copies(store)
    (live,) = store.get([web.ref]).values()
    write(store, Put(live.with_content({**live.content, "spec": {**live.spec, "paused": True}}), live))
    (placed,) = store.get([moved.ref]).values()
    write(store, Put(placed.with_spec(clusters=(TargetCluster("member2", 1),)), placed))

    report = looked(store, "works", [one.ref, moved.ref])

    assert report.failures == ()
    after = copies(store)
    assert after["member1", "web"].spec.workload.manifests[0]["spec"]["paused"] is True
    assert ("member2", "api") in after
    assert [after["bad", name] for name in ("web", "api")] == [before["bad", name] for name in ("web", "api")]


def copies(store: DjangoStore) -> dict[tuple[str, str], Work]:
    """Return the Works by their clusters and the names of what they apply."""
    return {
        (
            work.metadata.namespace.removeprefix("karmada-es-"),
            work.spec.workload.manifests[0]["metadata"]["name"],
        ): work
        for work in store.list(WORK)
    }
