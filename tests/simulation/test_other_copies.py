"""What the loss of one copy does to the other copies of its binding [no-healthy-copy-lost]."""

from __future__ import annotations

import pytest

from tests.simulation.manifests import TWO_OF_A_GROUP
from tests.simulation.outages import serving, taint
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
