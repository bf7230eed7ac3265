"""The cluster of the new copy fails in the moment in which the old copy is to go: it is not published yet, but its last
probe has failed [no-healthy-copy-lost]."""

from __future__ import annotations

import pytest

from tests.simulation.manifests import NGINX
from tests.simulation.outages import taint, wait, wait_until_leaving, without
from tests.simulation.stories import apply, joined, placed, running
from tests.simulation.test_own_outage import LIVE, POLICY
from tests.simulation.world import Simulation


def on_one(seed: int, *, mode: str = "Gracefully") -> tuple[Simulation, str]:
    """Return a simulation whose workload has one copy, and where that is."""
    world = joined("member1", "member2", "member3", seed=seed, settings=LIVE)
    world.run(60)
    apply(world, POLICY % mode, NGINX % 1)
    wait(world, 60)
    (home,) = placed(world)
    return world, home


@pytest.mark.parametrize("seconds", [3, 12, 25])
@pytest.mark.parametrize("seed", range(3))
def test_a_copy_that_is_back_stays_if_the_cluster_of_its_replacement_fails_meanwhile(seed: int, seconds: int) -> None:
    world, home = on_one(seed)
    world.fault(home, "down")
    wait(world, 180)
    (refuge,) = placed(world)
    assert refuge != home
    assert running(world)[refuge] == 1

    world.fault(home, "none")
    wait(world, seconds)
    world.fault(refuge, "down")
    for _ in range(120):
        wait(world, 1)
        assert sum(running(world).values()) >= 1


ON_TWO = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: two}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  placement:
    clusterAffinity: {clusterNames: [member1, member2]}
    spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 2}]
"""


@pytest.mark.parametrize("seconds", [4, 8])
@pytest.mark.parametrize("seed", range(3))
def test_a_probe_that_fails_is_no_proof_that_the_other_copy_is_still_healthy(seed: int, seconds: int) -> None:
    world = joined("member1", "member2", "member3", seed=seed, settings=LIVE)
    world.run(60)
    apply(world, ON_TWO, NGINX % 1)
    wait(world, 60)
    assert running(world) == {"member1": 1, "member2": 1}

    wait(world, seconds)
    world.fault("member2", "down")
    taint(world, "member1")
    for _ in range(90):
        wait(world, 1)
        assert sum(running(world).values()) >= 1


@pytest.mark.parametrize("seed", range(3))
def test_a_removal_that_is_not_carried_out_yet_waits_if_the_cluster_of_the_new_copy_fails(seed: int) -> None:
    world, home = on_one(seed)
    taint(world, home)
    while len(running(world)) < 2:
        wait(world, 1)
    with without(world, "execution"):
        wait(world, 12)
        (refuge,) = placed(world)
        assert running(world) == {home: 1, refuge: 1}
        world.fault(refuge, "down")
        wait(world, 12)

    for _ in range(60):
        wait(world, 1)
        assert sum(running(world).values()) >= 1


@pytest.mark.parametrize("seconds", [12, 45], ids=["failing", "not ready"])
@pytest.mark.parametrize("seed", range(3))
def test_a_copy_that_leaves_directly_stays_if_the_cluster_that_replaces_it_fails(seed: int, seconds: int) -> None:
    world, home = on_one(seed, mode="Directly")
    world.fault(home, "down")
    wait_until_leaving(world)
    wait(world, 3)
    (refuge,) = placed(world)
    world.fault(refuge, "down")
    wait(world, seconds)

    world.fault(home, "none")
    for _ in range(90):
        wait(world, 1)
        assert running(world)[home] == 1
