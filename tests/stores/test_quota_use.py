"""Both stores know what namespaces use of quotas, after every kind of write [federated-quotas]."""

from __future__ import annotations

from typing import Any

from controlplane.engine.decision import Decision, Delete, Put
from controlplane.kinds.binding import ReplicaRequirements, TargetCluster
from tests.stores.grounds import USER, Ground, binding, create, stored, write


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
