"""What chaos has found, each as the shortest story that would have seen it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import ObjectMeta
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.engine.decision import Decision, Put
from controlplane.eviction.rate import Bucket
from controlplane.kinds.binding import GracefulEvictionTask
from controlplane.kinds.configuration import FailoverConfiguration
from controlplane.kinds.policy import Toleration
from tests.simulation import edits
from tests.simulation.invariants import Watchman
from tests.simulation.manifests import ANYWHERE, DIVIDED, DUPLICATED, NGINX, NOT_READY_MEANS_LEAVE
from tests.simulation.member import Member
from tests.simulation.outages import (
    SERVING,
    member2_fails_as_member1_is_back,
    removal_hangs,
    scale,
    serving,
    taint,
    wait,
    wait_until_leaving,
    wait_until_not_ready,
    without,
)
from tests.simulation.stories import OFTEN, apply, binding, joined, placed, running, with_members

SEEDS = range(4)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_copy_left_behind_counts_again_once_it_is_wanted_again(seed: int) -> None:
    """member1 is left and comes back, and is chosen again before what it holds was removed."""
    world = serving("member1", "member2", "member3", "member4", seed=seed, policy=DUPLICATED, settings=OFTEN)
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
@pytest.mark.parametrize("failed", ["down", "tainted"])
def test_a_workload_that_is_scaled_to_zero_amid_its_eviction_runs_nowhere(failed: str, seed: int) -> None:
    world = joined("member1", "member2", "member3", seed=seed)
    apply(world, DIVIDED, f"{NGINX % 3}        resources: {{requests: {{cpu: 100m}}}}")
    world.run(SERVING)
    if failed == "down":
        world.fault("member1", "down")
    else:
        taint(world, "member1")
    wait_until_leaving(world)
    scale(world, 0)
    wait(world, 10)
    world.fault("member1", "none")
    wait(world, 60)

    assert running(world) == {}
    assert binding(world).spec.graceful_eviction_tasks == ()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_recovered_copy_keeps_the_replicas_that_run_nowhere_else_yet(seed: int) -> None:
    """Only one of three lost replicas found a place, on member3, which fails before member1 recovers."""
    room = {"member1": 3, "member2": 1, "member3": 1, "member4": 0, "member6": 0}
    members = [Member(name, pods=pods, reports_pods=True) for name, pods in room.items()]
    members[2].fault = "down"
    world = with_members(*members, manifests=[NOT_READY_MEANS_LEAVE], seed=seed, settings=OFTEN)
    Watchman().attach(world)
    world.run(12)
    apply(world, ANYWHERE, NGINX % 4)
    world.run(30)
    world.fault("member3", "none")
    world.run(60)
    assert running(world) == {"member1": 3, "member2": 1}

    world.fault("member1", "down")
    wait_until_leaving(world)
    wait(world, 1)
    assert placed(world) == {"member2": 1, "member3": 1}
    world.fault("member3", "down")
    wait_until_not_ready(world, "member3")
    world.fault("member1", "none")
    wait(world, 40)
    assert running(world) == {"member1": 3, "member2": 1, "member3": 0}

    world.fault("member3", "none")
    wait(world, 40)
    assert running(world) == placed(world) == {"member1": 2, "member2": 1, "member3": 1}
    assert binding(world).spec.graceful_eviction_tasks == ()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_policy_that_fits_nowhere_ends_no_eviction_whose_new_copy_does_not_run(seed: int) -> None:
    """The policy is edited, and the taint removed, before the new copy is ready."""
    world = serving("member1", "member2", "member3", seed=seed, policy=ANYWHERE, settings=OFTEN)
    taint(world, "member1")
    wait_until_leaving(world)
    wait(world, 0.2)
    policy = world.store.list(kinds.PROPAGATION_POLICY)[0]
    nowhere = replace(policy.spec.placement.cluster_affinity, cluster_names=("nowhere",), exclude=())
    edited = policy.with_spec(placement=replace(policy.spec.placement, cluster_affinity=nowhere))
    assert not world.store.put(edited, policy).lost
    wait(world, 0.2)
    taint(world, "member1", on=False)
    wait(world, 1)
    assert running(world)["member1"] == 1

    wait(world, 40)
    assert sum(running(world).values()) == 3
    assert "member1" not in running(world)


@pytest.mark.parametrize("seed", SEEDS)
def test_i2_a_stop_makes_no_tokens_also_where_nothing_waits(seed: int) -> None:
    world = serving("member1", "member2", "member3", seed=seed)
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
def test_i2_a_gate_that_is_off_makes_no_tokens(seed: int) -> None:
    """A bucket is empty when a user stops everything, and still is when it goes on a minute later."""
    world = serving("member1", "member2", "member3", seed=seed)
    world.buckets["fleet"] = Bucket(0.0, world.settings.resource_eviction_rate, world.now.timestamp())
    for is_on in (False, True):
        gates = {**world.settings.feature_gates, "Failover": is_on}
        world.settings = replace(world.settings, feature_gates=gates)
        old = world.store.object(FLEET)
        meta = ObjectMeta(name=FLEET.name, uid="uid-settings", generation=1 + is_on)
        meta = meta if old is None else replace(old.metadata, generation=2)
        new = FailoverConfiguration(edits.API_VERSION, "FailoverConfiguration", meta, {"featureGates": gates})
        assert not world.store.apply([(None, Decision(changes=(Put(new, old),)))], by=edits.PERSON)[0].lost
        wait(world, 0 if is_on else 60)

    assert world.buckets["fleet"].tokens == 0.0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_removal_that_comes_late_minds_who_has_failed_since(seed: int) -> None:
    """member1 goes away before its old copy is removed; when it is back, member2 has failed: the copy stays."""
    world = serving("member1", "member2", "member3", seed=seed)
    removal_hangs(world)
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
def test_a_copy_that_is_wanted_again_outlives_its_removal(seed: int) -> None:
    world = serving("member1", "member2", "member3", seed=seed)
    removal_hangs(world)
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
def test_a_removal_that_was_refused_minds_who_has_failed_since(seed: int) -> None:
    """member1 refuses our credentials and stays Ready; when it takes them again, member2 has failed: the copy stays."""
    world = serving("member1", "member2", "member3", seed=seed)
    removal_hangs(world, "unauthorized")
    member2_fails_as_member1_is_back(world, seconds=12)

    assert running(world) == {"member1": 1, "member2": 0}

    world.fault("member2", "none")
    world.run(250)
    assert running(world) == placed(world) == {"member2": 3}


@pytest.mark.parametrize("seed", SEEDS)
def test_fewer_replicas_that_come_late_mind_who_has_failed_since(seed: int) -> None:
    """1 of 2 replicas is asked of member1 when it cannot be reached; when it is back, member2 has failed."""
    world = serving("member1", "member2", seed=seed, replicas=6)
    assert running(world) == {"member1": 2, "member2": 4}
    world.fault("member1", "unauthorized")
    scale(world, 3)
    world.run(31)
    assert placed(world) == {"member1": 1, "member2": 2}
    member2_fails_as_member1_is_back(world, seconds=4)

    assert running(world) == {"member1": 2, "member2": 0}

    world.fault("member2", "none")
    world.run(250)
    assert running(world) == placed(world)
    assert sum(running(world).values()) == 3


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("known", [False, True], ids=["believed Ready", "known to be away"])
def test_fewer_replicas_that_were_never_applied_come_late_all_the_same(seed: int, known: bool) -> None:
    """1 of 2 replicas is asked of member1, and it goes away before anybody gets there; when it is back, member2 has
    failed."""
    world = serving("member1", "member2", seed=seed, replicas=6)
    world.fault("member1", "down")
    if known:
        wait_until_not_ready(world, "member1")
    with without(world, "execution"):  # others are asked first
        scale(world, 3)
        wait(world, 1)
        assert placed(world) == {"member1": 1, "member2": 2}
        wait_until_not_ready(world, "member1")
    member2_fails_as_member1_is_back(world, seconds=12)

    assert running(world) == {"member1": 2, "member2": 0}

    world.fault("member2", "none")
    wait(world, 200)
    assert running(world) == placed(world)
    assert sum(running(world).values()) == 3


@pytest.mark.parametrize("seed", SEEDS)
def test_a_copy_that_is_left_again_before_it_was_removed_has_a_work_until_it_is_gone(seed: int) -> None:
    """Seed 281: its removal hangs, it is placed there again and leaves again. A task makes no Work again."""
    world = serving("member1", "member2", seed=seed)
    removal_hangs(world)
    world.fault("member2", "notready")
    old = binding(world)
    assert not world.store.put(old.with_spec(graceful_eviction_tasks=(GracefulEvictionTask("member1"),)), old).lost
    wait(world, 5)
    world.fault("member1", "none")
    wait(world, 30)
    assert "member1" in running(world)

    world.fault("member2", "none")
    wait(world, 120)

    assert running(world) == placed(world) == {"member2": 3}


@pytest.mark.parametrize("seed", SEEDS)
def test_i1_a_copy_that_may_go_stays_where_the_other_fails_before_it_is_removed(seed: int) -> None:
    """Seeds 672 and 825: its task is cleared, who removes it sleeps, and meanwhile the cluster it went to fails."""
    world = serving("member1", "member2", seed=seed)
    taint(world, "member1")
    wait_until_leaving(world)
    wait(world, 1)
    with without(world, "works"):
        while binding(world).spec.graceful_eviction_tasks:
            wait(world, 0.5)
        assert running(world) == {"member1": 1, "member2": 3}
        world.fault("member2", "down")
        wait_until_not_ready(world, "member2")
    wait(world, 10)

    assert running(world)["member1"] == 1

    world.fault("member2", "none")
    wait(world, 120)
    assert running(world) == placed(world) == {"member2": 3}


@pytest.mark.parametrize("seed", SEEDS)
def test_i1_a_copy_that_stayed_beside_a_failed_one_waits_until_that_is_healthy_not_only_back(seed: int) -> None:
    """The cluster it went to fails before anybody removed it, and comes back with pods that are not ready yet."""
    world = serving("member1", "member2", seed=seed)
    taint(world, "member1")
    wait_until_leaving(world)
    with without(world, "works"):
        while binding(world).spec.graceful_eviction_tasks:
            wait(world, 0.5)
        world.fault("member2", "down")
        wait_until_not_ready(world, "member2")
    wait(world, 4)
    world.fault("member2", "notready")
    wait(world, 40)

    assert running(world) == {"member1": 1, "member2": 2}

    world.fault("member2", "none")
    wait(world, 60)
    assert running(world) == placed(world) == {"member2": 3}
