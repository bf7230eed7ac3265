"""Copies that shall stay when their template is deleted (preserveResourcesOnDeletion): those that are wanted, and none
that has moved, unless it may be the only one that works. [member-writes]"""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.engine.decision import Decision, deleting
from controlplane.engine.state import Actor
from tests.simulation.outages import DEPLOYMENT, serving, wait, wait_until_leaving
from tests.simulation.stories import NGINX_BINDING, placed, running
from tests.simulation.world import Simulation

POLICY = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: nginx-propagation}
spec:
  preserveResourcesOnDeletion: true
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment, name: nginx}
  placement:
    spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]
"""
MEMBERS = ("member1", "member2", "member3")


def lost(seed: int) -> tuple[Simulation, str]:
    """Return a simulation whose only copy of nginx is on a member that is lost, and that member."""
    world = serving(*MEMBERS, seed=seed, policy=POLICY, replicas=2)
    (home,) = placed(world)
    world.fault(home, "down")
    return world, home


def delete_template(world: Simulation) -> None:
    world.excused["nginx"] = world.now + timedelta(days=1)
    live = world.store.objects[DEPLOYMENT]
    world.store.apply([(None, Decision(changes=(deleting(live, now=world.now),)))], by=Actor("ana"))


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_that_has_left_a_lost_cluster_does_not_run_on_there_beside_the_one_that_stays(seed: int) -> None:
    world, home = lost(seed)
    wait(world, 90)
    (refuge,) = placed(world)
    assert refuge != home

    delete_template(world)
    wait(world, 20)
    world.fault(home, "none")
    wait(world, 120)

    assert running(world) == {refuge: 2}
    assert NGINX_BINDING not in world.store.objects
    assert world.failures == []


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_whose_replacement_does_not_work_stays(seed: int) -> None:
    world, home = lost(seed)
    for name in MEMBERS:
        if name != home:
            world.fault(name, "notready")
    wait_until_leaving(world)
    wait(world, 10)

    delete_template(world)
    wait(world, 20)
    world.fault(home, "none")
    wait(world, 120)

    assert running(world)[home] == 2
    assert NGINX_BINDING not in world.store.objects
