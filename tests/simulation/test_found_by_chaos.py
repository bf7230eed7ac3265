"""What chaos has found, each as the shortest story that would have seen it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controlplane import kinds
from controlplane.eviction.rate import Bucket
from controlplane.kinds.binding import GracefulEvictionTask
from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import Toleration
from controlplane.meta import Ref
from tests.simulation.manifests import DIVIDED, DUPLICATED, NGINX
from tests.simulation.stories import apply, binding, joined, placed, running
from tests.simulation.world import START, Simulation

SEEDS = range(4)
PERSONS = "gone"


def taint(world: Simulation, name: str, *, on: bool = True) -> None:
    old = world.store.objects[Ref(kinds.CLUSTER, "", name)]
    rest = tuple(one for one in old.spec.taints if one.key != PERSONS)
    mine = (Taint(PERSONS, "NoExecute", time_added=world.now.replace(microsecond=0)),) if on else ()
    assert not world.store.put(old.with_spec(taints=(*rest, *mine)), old).lost


def seconds(world: Simulation) -> float:
    return (world.now - START).total_seconds()


def begun(seed: int, policy: str, *names: str) -> Simulation:
    world = joined(*names, seed=seed)
    apply(world, policy, NGINX % 3)
    world.run(30)
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_a_copy_left_behind_counts_again_once_it_is_wanted_again(seed: int) -> None:
    """member1 is left and comes back, and is chosen again before what it holds was removed."""
    world = begun(seed, DUPLICATED, "member1", "member2", "member3", "member4")
    world.fault("member1", "down")
    world.run(44)
    assert set(placed(world)) == {"member2", "member3"}
    world.fault("member2", "down")
    world.run(45)
    world.fault("member1", "none")
    world.run(90)

    assert set(placed(world)) == {"member1", "member3"}
    assert {one.cluster_name for one in binding(world).status.aggregated_status} == {"member1", "member3"}
    assert binding(world).spec.graceful_eviction_tasks == ()


@pytest.mark.parametrize("seed", SEEDS)
def test_i2_a_stop_makes_no_tokens_also_where_nothing_waits(seed: int) -> None:
    world = begun(seed, DIVIDED, "member1", "member2", "member3")
    policy = world.store.list(kinds.PROPAGATION_POLICY)[0]
    bears = replace(policy.spec.placement, cluster_tolerations=(Toleration(operator="Exists"),))
    assert not world.store.put(policy.with_spec(placement=bears), policy).lost
    world.run(31)
    world.buckets["fleet"] = Bucket(0.0, world.settings.resource_eviction_rate, world.now.timestamp())
    taint(world, "member1")
    taint(world, "member2")
    world.run(50)

    found = world.buckets["fleet"]
    assert (found.tokens, found.rate) == (0.0, 0.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_fault_33_a_removal_that_comes_late_minds_who_has_failed_since(seed: int) -> None:
    """member1 goes away before its old copy is removed; when it is back, member2 has failed: the copy stays."""
    world = begun(seed, DIVIDED, "member1", "member2", "member3")
    _removal_hangs(world)
    world.run(45)
    world.fault("member2", "down")
    world.run(46)
    world.fault("member1", "none")
    world.run(52)

    assert running(world) == {"member1": 1, "member2": 0}

    world.fault("member2", "none")
    world.run(150)
    assert running(world) == {"member2": 3}


@pytest.mark.parametrize("seed", SEEDS)
def test_fault_33_a_copy_that_is_wanted_again_outlives_its_removal(seed: int) -> None:
    world = begun(seed, DIVIDED, "member1", "member2", "member3")
    _removal_hangs(world)
    taint(world, "member1", on=False)
    world.run(45)
    world.fault("member2", "down")
    world.run(46)
    world.fault("member1", "none")
    world.run(90)

    assert placed(world) == {"member1": 3}
    assert running(world)["member1"] == 3
    assert all(made[0] < world.now.replace(minute=37, second=0) for made in world.members["member1"].created)


@pytest.mark.parametrize("seed", SEEDS)
def test_fault_33_a_removal_that_was_refused_minds_who_has_failed_since(seed: int) -> None:
    """member1 refuses our credentials and stays Ready; when it takes them again, member2 has failed: the copy stays."""
    world = begun(seed, DIVIDED, "member1", "member2", "member3")
    _removal_hangs(world, "unauthorized")
    world.fault("member2", "down")
    _until_not_ready(world, "member2")
    world.fault("member1", "none")
    world.run(seconds(world) + 12)

    assert running(world) == {"member1": 1, "member2": 0}

    world.fault("member2", "none")
    world.run(250)
    assert running(world) == placed(world) == {"member2": 3}


@pytest.mark.parametrize("seed", SEEDS)
def test_fault_33_fewer_replicas_that_come_late_mind_who_has_failed_since(seed: int) -> None:
    """1 of 2 replicas is asked of member1 when it cannot be reached; when it is back, member2 has failed."""
    world = joined("member1", "member2", seed=seed)
    apply(world, DIVIDED, NGINX % 6)
    world.run(30)
    assert running(world) == {"member1": 2, "member2": 4}
    world.fault("member1", "unauthorized")
    old = world.store.objects[Ref("apps/Deployment", "default", "nginx")]
    fewer = old.with_content({**old.content, "spec": {**old.spec, "replicas": 3}})
    assert not world.store.put(fewer, old).lost
    world.run(31)
    assert placed(world) == {"member1": 1, "member2": 2}
    world.fault("member2", "down")
    _until_not_ready(world, "member2")
    world.fault("member1", "none")
    world.run(seconds(world) + 4)

    assert running(world) == {"member1": 2, "member2": 0}

    world.fault("member2", "none")
    world.run(250)
    assert running(world) == placed(world)
    assert sum(running(world).values()) == 3


def _until_not_ready(world: Simulation, name: str) -> None:
    while world.store.objects[Ref(kinds.CLUSTER, "", name)].ready == "True":
        world.run(seconds(world) + 0.5)


def _removal_hangs(world: Simulation, fault: str = "down") -> None:
    """member1 is left, and cannot be reached when its old copy is to be removed, which nobody knows yet."""
    taint(world, "member1")
    while binding(world).spec.graceful_eviction_tasks == ():
        world.run(seconds(world) + 0.5)
    world.run(seconds(world) + 4)
    world.fault("member1", fault)
    world.run(seconds(world) + 2)
    assert binding(world).spec.graceful_eviction_tasks == ()
    assert running(world)["member2"] == 3


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("known", [False, True], ids=["believed Ready", "known to be away"])
def test_fault_33_fewer_replicas_nobody_tried_to_bring_come_late_all_the_same(seed: int, known: bool) -> None:
    """1 of 2 replicas is asked of member1, and it goes away before anybody gets there; when it is back, member2 has
    failed."""
    world = joined("member1", "member2", seed=seed)
    apply(world, DIVIDED, NGINX % 6)
    world.run(30)
    everybody = world.controllers
    world.fault("member1", "down")
    if known:
        _until_not_ready(world, "member1")
    world.controllers = tuple(one for one in everybody if one.name != "execution")  # others are asked first
    old = world.store.objects[Ref("apps/Deployment", "default", "nginx")]
    fewer = old.with_content({**old.content, "spec": {**old.spec, "replicas": 3}})
    assert not world.store.put(fewer, old).lost
    world.run(seconds(world) + 1)
    assert placed(world) == {"member1": 1, "member2": 2}
    _until_not_ready(world, "member1")
    world.controllers = everybody
    world.fault("member2", "down")
    _until_not_ready(world, "member2")
    world.fault("member1", "none")
    world.run(seconds(world) + 12)

    assert running(world) == {"member1": 2, "member2": 0}

    world.fault("member2", "none")
    world.run(seconds(world) + 200)
    assert running(world) == placed(world)
    assert sum(running(world).values()) == 3


@pytest.mark.parametrize("seed", SEEDS)
def test_a_copy_that_is_left_again_before_it_was_removed_has_a_work_until_it_is_gone(seed: int) -> None:
    """Seed 281: its removal hangs, it is placed there again and leaves again. A task makes no Work anew."""
    world = joined("member1", "member2", seed=seed)
    apply(world, DIVIDED, NGINX % 3)
    world.run(30)
    _removal_hangs(world)
    world.fault("member2", "notready")
    old = binding(world)
    assert not world.store.put(old.with_spec(graceful_eviction_tasks=(GracefulEvictionTask("member1"),)), old).lost
    world.run(seconds(world) + 5)
    world.fault("member1", "none")
    world.run(seconds(world) + 30)
    assert "member1" in running(world)

    world.fault("member2", "none")
    world.run(seconds(world) + 120)

    assert running(world) == placed(world) == {"member2": 3}


@pytest.mark.parametrize("seed", SEEDS)
def test_i1_a_copy_that_may_go_stays_where_the_other_fails_before_anybody_removed_it(seed: int) -> None:
    """Seeds 672 and 825: its task is cleared, who removes it sleeps, and meanwhile the cluster it went to fails."""
    world = joined("member1", "member2", seed=seed)
    apply(world, DIVIDED, NGINX % 3)
    world.run(30)
    everybody = world.controllers
    taint(world, "member1")
    while not binding(world).spec.graceful_eviction_tasks:
        world.run(seconds(world) + 0.5)
    world.run(seconds(world) + 1)
    world.controllers = tuple(one for one in everybody if one.name != "works")
    while binding(world).spec.graceful_eviction_tasks:
        world.run(seconds(world) + 0.5)
    assert running(world) == {"member1": 1, "member2": 3}
    world.fault("member2", "down")
    _until_not_ready(world, "member2")
    world.controllers = everybody
    world.run(seconds(world) + 10)

    assert running(world)["member1"] == 1

    world.fault("member2", "none")
    world.run(seconds(world) + 120)
    assert running(world) == placed(world) == {"member2": 3}
