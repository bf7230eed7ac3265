"""What the loss of one copy does to the other copies of its binding [no-healthy-copy-lost]."""

from __future__ import annotations

import pytest

from tests.simulation.manifests import TWO_OF_A_GROUP
from tests.simulation.outages import scale, serving, taint, wait
from tests.simulation.stories import binding, placed, running
from tests.simulation.world import START


@pytest.mark.parametrize("lost", ["tainted", "down"])
@pytest.mark.parametrize("division", ["Duplicated", "Divided"])
def test_a_healthy_copy_stays_until_the_group_that_replaces_its_own_is_healthy(division: str, lost: str) -> None:
    world = serving("member1", "member2", "member3", "member4", policy=TWO_OF_A_GROUP % division, replicas=4)
    served = running(world)["member2"]

    if lost == "tainted":
        taint(world, "member1")
    else:
        world.fault("member1", "down")
    for _ in range(120):
        world.run((world.now - START).total_seconds() + 1)
        if binding(world).spec.graceful_eviction_tasks:
            assert running(world)["member2"] == served

    assert set(placed(world)) == {"member3", "member4"}
    assert "member2" not in running(world)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", ["Directly", "Gracefully"])
def test_divided_copies_stay_until_the_group_that_is_chosen_again_is_healthy(mode: str, seed: int) -> None:
    """The second group has no room for a workload that is scaled up, and the first one is back."""
    failover = f"failover: {{cluster: {{purgeMode: {mode}}}}}"
    policy = (TWO_OF_A_GROUP % "Divided").replace("placement:", f"{failover}\n  placement:")
    world = serving("member1", "member2", "member3", "member4", policy=policy, replicas=4, seed=seed)
    world.fault("member1", "down")
    wait(world, 90)
    world.members["member3"].pods = world.members["member4"].pods = 2
    world.fault("member1", "none")
    wait(world, 60)
    assert running(world) == {"member3": 2, "member4": 2}

    scale(world, 10)
    for _ in range(60):
        wait(world, 1)
        assert sum(running(world).values()) >= 4

    assert set(placed(world)) == {"member1", "member2"}
    assert running(world) == placed(world), "the old copies are gone"
