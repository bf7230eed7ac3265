"""A document that cannot be decoded costs only what depends on it: a later release wrote it, or it is damaged."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from apps.objects.legible_state import empty
from apps.objects.store import DjangoStore
from apps.objects.tables import object_table
from controlplane.apimachinery.meta import ObjectMeta, Ref
from controlplane.controllers import CONTROLLERS
from controlplane.engine.cascade import followers
from controlplane.engine.run import World, run_batch
from controlplane.eviction.rate import Tokens
from controlplane.kinds import KINDS, RESOURCE_BINDING
from controlplane.kinds.drain import DRAIN, Drain, DrainSpec
from controlplane.kinds.failback import FAILBACK, Failback, FailbackSpec
from controlplane.kinds.rows import EVICTED, HELD, UNREADABLE, BindingReadiness, Eviction
from tests.builders.objects import START, binding, cluster, taint_policy
from tests.builders.steering import hold
from tests.core.eviction_fleet import ANYWHERE, FAST
from tests.core.test_failbacks import API_VERSION, away
from tests.stores.grounds import create
from tests.stores.test_evicting_cascade import queued

pytestmark = pytest.mark.django_db(transaction=True)

BY_NAME = {one.name: one for one in CONTROLLERS}
WORLD = World(answer=lambda question: Tokens(dict(question.wanted), 0.0) if hasattr(question, "wanted") else None)


def damage(ref: Ref, spec: str = "[]") -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {object_table(ref.kind).name} SET doc = jsonb_set(doc::jsonb, '{{spec}}', '{spec}')::text"
            " WHERE (kind, namespace, name) = (%s, %s, %s)",
            ref,
        )
        assert cursor.rowcount == 1


def evict(store: DjangoStore) -> None:
    evictions = BY_NAME["evictions"]
    report = run_batch(evictions, store, FAST, world=WORLD, following=followers(evictions, CONTROLLERS, FAST))
    assert report.failures == ()


def test_a_damaged_binding_in_the_queue_keeps_no_other_copy_from_being_evicted() -> None:
    """It stopped all evictions of the fleet."""
    store = queued(5)
    bad = Ref(RESOURCE_BINDING, "default", "web2-deployment")
    damage(bad)

    evict(store)

    evicted = store.rows(Eviction, "state", [EVICTED])[EVICTED]
    assert sorted(Ref.parse(row.binding).name for row in evicted) == [
        f"web{number}-deployment" for number in (0, 1, 3, 4)
    ]
    (held,) = store.rows(Eviction, "state", [HELD])[HELD]
    assert (held.binding, held.reason) == (str(bad), UNREADABLE)
    assert "ResourceBinding default/web2-deployment is no document of its kind" in held.message


def test_a_damaged_binding_keeps_no_other_from_hearing_of_a_cluster() -> None:
    """No binding behind it was placed again when a cluster had joined, recovered or gone."""
    store = DjangoStore(controllers=[scheduler := BY_NAME["scheduler"]])
    names = ("a", "bad", "z")
    create(store, cluster("member1"), *(binding(name, ANYWHERE, replicas=2) for name in names))
    while store.claim("scheduler", shard=0, shards=1, limit=9, lease_seconds=0).claims:
        run_batch(scheduler, store, FAST, world=WORLD)
    damage(Ref(RESOURCE_BINDING, "default", "bad-deployment"))
    create(store, cluster("member2"))

    report = run_batch(scheduler, store, FAST, world=WORLD)

    claims = store.claim("scheduler", shard=0, shards=1, limit=9, lease_seconds=0).claims
    assert sorted(one.ref.name for one in claims) == ["a-deployment", "z-deployment"]
    assert [one.ref.name for one in report.failures] == ["bad-deployment"]


def test_a_damaged_binding_keeps_no_other_from_being_found_without_a_template() -> None:
    store = DjangoStore(controllers=[garbage := BY_NAME["garbage"]])
    create(store, *(binding(name, ANYWHERE).with_meta(creation_timestamp=START) for name in ("a", "bad", "z")))
    damage(Ref(RESOURCE_BINDING, "default", "bad-deployment"))
    store.mark("garbage", garbage.due_at_start)

    run_batch(garbage, store, FAST, world=WORLD)

    left = {one.metadata.name for one in store.legible().list(RESOURCE_BINDING)}
    assert left == {"bad-deployment"}


def test_the_readiness_of_all_others_is_assessed() -> None:
    store = DjangoStore(controllers=[one := BY_NAME["readiness"]])
    create(store, cluster("member1"), cluster("member2"))
    create(store, *(binding(name, ANYWHERE, on={"member1": 1}) for name in ("a", "bad", "z")))
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM objects_due")
    damage(Ref(RESOURCE_BINDING, "default", "bad-deployment"))
    store.mark("readiness", one.due_at_start)

    while run_batch(one, store, FAST, world=WORLD).claimed:
        pass

    refs = {name: str(Ref(RESOURCE_BINDING, "default", f"{name}-deployment")) for name in ("a", "bad", "z")}
    rows = store.rows(BindingReadiness, "key", refs.values())
    assert {name: ref in rows for name, ref in refs.items()} == {"a": True, "bad": True, "z": True}
    (bad,) = rows[refs["bad"]]
    assert "default/bad-deployment is no document of its kind" in str(bad)


def test_a_damaged_binding_keeps_no_other_from_being_drained() -> None:
    """The Drain stood still, before it had moved anything."""
    store = DjangoStore(controllers=[drains := BY_NAME["drains"]])
    create(store, *(cluster(name) for name in ("full", "member2")))
    create(store, *(binding(name, ANYWHERE, on={"full": 1}) for name in ("a", "bad", "z")))
    damage(bad := Ref(RESOURCE_BINDING, "default", "bad-deployment"))
    create(store, Drain(API_VERSION, "Drain", ObjectMeta(name="upgrade"), DrainSpec("full", 10_000.0)))

    for _ in range(5):
        assert run_batch(drains, store, FAST, world=WORLD).failures == ()
        store.mark("drains", [Ref(DRAIN, "", "upgrade")])

    left = [one for one in store.legible().list(RESOURCE_BINDING) if one.spec.graceful_eviction_tasks]
    assert [one.metadata.name for one in left] == ["a-deployment", "z-deployment"]
    (drain,) = store.list(DRAIN)
    (remaining,) = drain.status.cannot_leave
    assert (remaining.binding, drain.status.remaining) == (str(bad), 1)
    assert "default/bad-deployment is no document of its kind" in remaining.message


def test_a_damaged_binding_keeps_no_other_from_going_back() -> None:
    store = DjangoStore(controllers=[failbacks := BY_NAME["failbacks"]])
    create(store, *(cluster(name) for name in ("home", "spare")))
    create(store, *map(away, ("a", "bad", "z")))
    damage(bad := Ref(RESOURCE_BINDING, "default", "bad-deployment"))
    create(
        store, Failback(API_VERSION, "Failback", ObjectMeta(name="back"), FailbackSpec("home", rate=100.0, at_once=9))
    )

    for _ in range(20):
        assert run_batch(failbacks, store, FAST, world=WORLD).failures == ()
        store.mark("failbacks", [Ref(FAILBACK, "", "back")])

    back = [one for one in store.legible().list(RESOURCE_BINDING) if one.spec.target("home")]
    assert [one.metadata.name for one in back] == ["a-deployment", "z-deployment"]
    (failback,) = store.list(FAILBACK)
    assert [one.binding for one in failback.status.cannot_return] == [str(bad)]


@pytest.mark.parametrize("kind", [*(kind.key for kind in KINDS), "Gadget", "example.io/Gadget"])
def test_what_cannot_be_read_keeps_its_name(kind: str) -> None:
    ref = Ref(kind, "default", "bad")

    assert empty(ref).ref == ref


def test_a_binding_that_can_be_read_again_is_evicted() -> None:
    store = queued(2)
    bad = Ref(RESOURCE_BINDING, "default", "web1-deployment")
    with connection.cursor() as cursor:
        cursor.execute("SELECT doc::jsonb->>'spec' FROM resources_binding WHERE name = 'web1-deployment'")
        (spec,) = cursor.fetchone()
    damage(bad)
    evict(store)

    damage(bad, spec)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE failover_fleetstate SET capacity = 'stale'")  # as after HELD_LOOK
    for _ in range(3):
        store.mark("evictions", BY_NAME["evictions"].due_at_start, due_at=store.now() - timedelta(seconds=1))
        evict(store)

    assert len(store.rows(Eviction, "state", [EVICTED])[EVICTED]) == 2


@pytest.mark.parametrize("of_all", [taint_policy(), hold()], ids=["ClusterTaintPolicy", "EvictionHold"])
def test_no_readiness_rests_on_what_cannot_be_read_about_the_fleet(of_all: Any) -> None:
    """Workloads were assessed as if the policy had no taints, or the hold held something else."""
    store = DjangoStore(controllers=[one := BY_NAME["readiness"]])
    create(store, cluster("member1"), cluster("member2"), binding("a", ANYWHERE, on={"member1": 1}), of_all)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM objects_due")
    damage(of_all.ref)
    store.mark("readiness", one.due_at_start)

    failed = []
    while (report := run_batch(one, store, FAST, world=WORLD)).claimed:
        failed += [failure.error for failure in report.failures]

    assert store.rows(BindingReadiness, "key", [str(Ref(RESOURCE_BINDING, "default", "a-deployment"))]) == {}
    assert f"{of_all.metadata.name} is no document of its kind" in failed[-1]
