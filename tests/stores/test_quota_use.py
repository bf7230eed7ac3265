"""Both stores know what namespaces use of quotas, after every kind of write [federated-quotas]."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from apps.objects.store import DjangoStore
from controlplane.engine.decision import Decision, Delete, Put, QuotaGuard
from controlplane.estimate.quota import changes
from controlplane.eviction.purge import with_task
from controlplane.kinds.binding import TAINT_UNTOLERATED, Binding, ReplicaRequirements, TargetCluster, origin
from controlplane.kinds.policy import GRACEFULLY
from tests.builders.bare import binding
from tests.builders.objects import START
from tests.stores.grounds import USER, Ground, create, stored, write


def asking(name: str, *clusters: str, **requests: str) -> Any:
    """Return a binding with two replicas on each cluster that request these amounts."""
    return binding(name, *clusters).with_spec(replica_requirements=ReplicaRequirements(resource_request=requests))


def test_the_use_follows_every_write_of_a_binding(ground: Ground) -> None:
    store = ground.store
    create(store, asking("web", "a", "b", cpu="500m", memory="1Gi"), asking("idle", cpu="9"))
    assert store.quota_use(["shop", "other"]) == {"shop": {"cpu": 2000, "memory": 4 << 30}}

    web = stored(store, asking("web").ref)
    write(store, Put(web.with_spec(clusters=(TargetCluster("a", 5),)), web))
    create(store, asking("api", "a", cpu="1"))
    assert store.quota_use(["shop"]) == {"shop": {"cpu": 4500, "memory": 5 << 30}}

    web = stored(store, asking("web").ref)
    cheaper = ReplicaRequirements(resource_request={"cpu": "1"})
    write(store, Put(web.with_spec(replica_requirements=cheaper), web))
    assert store.quota_use(["shop"])["shop"]["cpu"] == 7000
    assert store.quota_use(["shop"])["shop"].get("memory", 0) == 0

    for name in ("web", "api"):
        store.apply([(None, Decision(changes=(Delete(stored(store, asking(name).ref)),)))], by=USER)
    assert store.quota_use(["shop"]) == {}


def test_amounts_beyond_64_bits_are_summed(ground: Ground) -> None:
    create(ground.store, *(asking(f"huge{number}", "a", memory="7Ei") for number in range(3)))

    assert ground.store.quota_use(["shop"]) == {"shop": {"memory": 6 * 7 * (1 << 60)}}


def test_a_dry_run_and_a_lost_write_change_nothing(ground: Ground) -> None:
    create(ground.store, asking("web", "a", cpu="1"))
    web = stored(ground.store, asking("web").ref)
    more = web.with_spec(clusters=(TargetCluster("a", 9),))
    write(ground.store, Put(web.with_spec(clusters=(TargetCluster("a", 3),)), web))

    (outcome,) = ground.store.apply([(None, Decision(changes=(Put(more, web, exact=True),)))], by=USER)
    web = stored(ground.store, web.ref)
    dry = Put(web.with_spec(clusters=(TargetCluster("a", 9),)), web)
    ground.store.apply([(None, Decision(changes=(dry,)))], by=USER, dry_run=True)

    assert outcome.lost
    assert ground.store.quota_use(["shop"]) == {"shop": {"cpu": 3000}}


def guarded(change: Put, *, most: int) -> Decision:
    """Return the decision to store a change of a binding if the namespace uses at most so many thousandths of a CPU."""
    before = change.old if isinstance(change.old, Binding) else None
    assert isinstance(change.new, Binding)
    more = tuple(changes(before, change.new).items())
    return Decision(changes=(change,), quota_guards=(QuotaGuard("shop", more, (("cpu", most),)),))


def test_a_decision_without_room_in_a_quota_is_lost_and_the_ones_beside_it_are_stored(ground: Ground) -> None:
    store = ground.store
    create(store, asking("old", "a", cpu="1"))
    wanted = [Put(asking(name, "a", cpu="1"), None) for name in ("one", "two")]

    outcomes = store.apply([(None, guarded(put, most=4000)) for put in wanted], by=USER)
    old = stored(store, asking("old").ref)
    smaller = Put(old.with_spec(clusters=(TargetCluster("a", 1),)), old)
    (shrunk,) = store.apply([(None, Decision(changes=(smaller,)))], by=USER)

    assert [outcome.lost for outcome in outcomes] == ["", "room in the quotas of shop"]
    assert not shrunk.lost
    assert store.quota_use(["shop"]) == {"shop": {"cpu": 3000}}


def waiting(name: str, number: int) -> Any:
    """Return a binding that has lost its only cluster, with so many replicas of one cpu."""
    old = asking(name, cpu="1").with_spec(clusters=(TargetCluster("a", number),), replicas=number)
    left = with_task(old, "a", mode=GRACEFULLY, reason=TAINT_UNTOLERATED, producer="", message="", now=START)
    return origin.with_departures(left, old, now=START)


def test_replicas_that_wait_for_a_place_are_used_until_the_scheduler_has_a_complete_result(ground: Ground) -> None:
    store = ground.store
    create(store, waiting("web", 3))
    assert store.quota_use(["shop"]) == {"shop": {"cpu": 3000}}

    web = stored(store, asking("web").ref)
    seen = web.with_status(scheduler_observed_generation=web.metadata.generation)
    write(store, Put(seen, web))

    assert store.quota_use(["shop"]).get("shop", {}).get("cpu", 0) == 0


@pytest.mark.django_db(transaction=True)
def test_an_upgrade_counts_the_replicas_that_wait_already() -> None:
    store = DjangoStore()
    create(store, waiting("web", 3), asking("api", "a", cpu="1"))
    create(store, asking("other", "a", cpu="1").with_meta(namespace="quiet"))
    operation = import_module("apps.resources.migrations.0012_waiting_replicas").Migration.operations[0]
    then = MigrationLoader(connection).project_state(("resources", "0012_waiting_replicas")).apps
    with connection.cursor() as cursor:
        cursor.execute("UPDATE objects_quotause SET amount = 2000 WHERE namespace = 'shop'")

    for _ in range(2):
        with connection.schema_editor() as editor:
            operation.code(then, editor)

        found = store.quota_use(["shop", "quiet"])
        assert found == {"shop": {"cpu": 5000}, "quiet": {"cpu": 2000}}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("migration", ["0008_quota_use", "0012_waiting_replicas"])
def test_a_binding_that_cannot_be_read_does_not_keep_an_upgrade_from_counting(
    migration: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = DjangoStore()
    create(store, waiting("web", 3), asking("broken", "a", cpu="1"))
    operation = import_module(f"apps.resources.migrations.{migration}").Migration.operations[0]
    then = MigrationLoader(connection).project_state(("resources", migration)).apps
    with connection.cursor() as cursor:
        cursor.execute("UPDATE resources_binding SET doc = '{\"spec\": 3}' WHERE name = 'broken'")
        cursor.execute("DELETE FROM objects_quotause")

    with connection.schema_editor() as editor:
        operation.code(then, editor)

    assert store.quota_use(["shop"]) == {"shop": {"cpu": 3000}}
    assert "shop/broken is not known" in caplog.text
