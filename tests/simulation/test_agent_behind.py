"""The agent of a Pull cluster that does not hear of its Works for a while, although its heartbeats arrive
[returning-copies]."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from tests.simulation.edits import hold, named, put
from tests.simulation.manifests import DIVIDED, NGINX, admitted
from tests.simulation.outages import taint, wait, wait_until_leaving, wait_until_not_ready
from tests.simulation.pulled import HEARTBEATS
from tests.simulation.stories import apply, joined, placed, running
from tests.simulation.world import Simulation

POLICY = Ref(kinds.PROPAGATION_POLICY, "default", "nginx-propagation")
MOST_ON_MEMBER2 = DIVIDED
MOST_ON_MEMBER1 = DIVIDED.replace("weight: 2", "weight: 0.5").replace("weight: 1", "weight: 2").replace("0.5", "1")


def serving(policy: str, replicas: int) -> Simulation:
    """Return a simulation with nginx on member1, which has an agent, and on member2. The agent is behind from now."""
    world = joined("member1", "member2", "member3", settings=HEARTBEATS, pull=("member1",))
    apply(world, policy, NGINX % replicas)
    world.run(30)
    world.agents["member1"].behind_until = world.now + timedelta(seconds=60)
    return world


def member2_fails(world: Simulation, *, held: bool = False) -> None:
    """Let member2 fail, and the agent hear of its Works afterwards. `held`: a user holds all evictions."""
    if held:
        world.create(hold(named(world, "stop")))
    world.fault("member2", "down")
    wait_until_not_ready(world, "member2")
    world.run(130)


@pytest.mark.parametrize("held", [False, True])
def test_a_copy_is_not_removed_late_while_no_other_one_works(*, held: bool) -> None:
    world = serving(MOST_ON_MEMBER1, 1)
    assert placed(world) == {"member1": 1}
    taint(world, "member1")
    wait_until_leaving(world)
    wait(world, 15)
    taint(world, "member1", on=False)
    assert placed(world) == {"member2": 1}
    assert running(world) == {"member1": 1, "member2": 1}, "the agent has not heard of it"

    member2_fails(world, held=held)

    assert running(world)["member1"] == 1
    assert placed(world) == ({"member2": 1} if held else {"member1": 1})


def test_replicas_are_not_taken_late_while_the_others_do_not_work() -> None:
    world = serving(MOST_ON_MEMBER1, 3)
    assert placed(world) == {"member1": 2, "member2": 1}
    old: Any = world.store.object(POLICY)
    other: Any = admitted(MOST_ON_MEMBER2, world.settings, now=world.now)
    put(world, old.with_spec(placement=other.spec.placement), old)
    wait(world, 15)
    assert placed(world) == {"member1": 1, "member2": 2}
    assert running(world) == {"member1": 2, "member2": 2}, "the agent has not heard of it"

    member2_fails(world, held=True)

    assert running(world)["member1"] == 2
    world.fault("member2", "none")
    world.run(190)
    assert running(world) == {"member1": 1, "member2": 2}
