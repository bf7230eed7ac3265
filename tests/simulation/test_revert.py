"""A failover taken back by hand: what took over goes on serving until what it was taken from runs again
[edits-by-hand] [no-healthy-copy-lost]."""

from __future__ import annotations

import pytest

from controlplane.apimachinery.meta import Ref
from controlplane.eviction import revert
from controlplane.insight import record
from tests.simulation.member import DOWN, UP
from tests.simulation.outages import serving, wait
from tests.simulation.stories import binding, placed, running
from tests.simulation.world import Simulation

SEEDS = range(3)


def taken_back(world: Simulation) -> None:
    """Ask for it as the API does."""
    old = binding(world)
    before = record.binding_before_failover([one for one in world.store.log if one.ref == old.ref])
    assert before is not None
    clusters = {target.name: world.store.objects[_cluster(target.name)] for target in before.spec.clusters}
    assert list(revert.revert_obstacles(old, before, clusters, world.settings)) == []
    new = revert.reverted_binding(old, before, world.settings, by="ana", now=world.now)
    assert not world.store.put(new, old).lost


def _cluster(name: str) -> Ref:
    return Ref("cluster.karmada.io/Cluster", "", name)


def failed_over(seed: int) -> Simulation:
    """The overview's Divided example after member1 was lost, and has come back."""
    world = serving("member1", "member2", seed=seed)
    assert placed(world) == {"member1": 1, "member2": 2}
    world.fault("member1", DOWN)
    wait(world, 60)
    assert placed(world) == {"member2": 3}
    world.fault("member1", UP)
    wait(world, 60)
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_a_divided_workload_goes_back_and_serves_with_all_replicas_meanwhile(seed: int) -> None:
    world = failed_over(seed)

    taken_back(world)
    wait(world, 2)
    assert running(world)["member2"] == 3, "what is to replace the third is not there yet"
    (task,) = binding(world).spec.graceful_eviction_tasks
    assert (task.from_cluster, task.reason, task.replicas) == ("member2", "RevertedInPart", 1)
    wait(world, 60)

    assert placed(world) == running(world) == {"member1": 1, "member2": 2}
    assert binding(world).spec.graceful_eviction_tasks == ()
    assert world.failures == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_second_revert_changes_nothing(seed: int) -> None:
    world = failed_over(seed)

    taken_back(world)
    first = binding(world).spec
    taken_back(world)
    assert binding(world).spec == first
    wait(world, 60)
    taken_back(world)
    wait(world, 60)

    assert placed(world) == running(world) == {"member1": 1, "member2": 2}
