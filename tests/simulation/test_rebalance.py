"""After a failover nothing moves back by itself; a WorkloadRebalancer brings it back [workload-rebalancer]
[recovered-clusters]."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from controlplane.kinds.workload_rebalancer import WORKLOAD_REBALANCER, RebalancedWorkload
from tests.simulation.manifests import ANYWHERE
from tests.simulation.outages import serving, wait, wait_until_not_ready
from tests.simulation.stories import QUICK, apply, placed, running

AGAIN = """
apiVersion: apps.karmada.io/v1alpha1
kind: WorkloadRebalancer
metadata:
  name: back-home
spec:
  %s
"""
LISTED = "workloads: [{apiVersion: apps/v1, kind: Deployment, namespace: default, name: nginx}]"
SELECTED = "workloadSelector: {apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {app: nginx}}}"


@pytest.mark.parametrize("chosen", [LISTED, SELECTED])
@pytest.mark.parametrize("seed", range(6))
def test_replicas_that_failed_over_go_back_when_asked(seed: int, chosen: str) -> None:
    world = serving("member1", "member2", seed=seed)
    world.fault("member1", "down")
    world.run(90)
    world.excused["nginx"] = world.now + timedelta(days=1)  # a user asks for what follows
    world.fault("member1", "none")
    world.run(180)
    assert placed(world) == {"member2": 3}

    apply(world, AGAIN % chosen)
    world.run(240)

    assert placed(world) == {"member1": 1, "member2": 2}
    assert running(world) == {"member1": 1, "member2": 2}
    assert world.failures == []


@pytest.mark.parametrize("seed", range(3))
def test_replicas_that_run_are_not_moved_to_a_cluster_that_is_down(seed: int) -> None:
    evicting_nothing = replace(QUICK, feature_gates={**QUICK.feature_gates, "Failover": False})
    members = "member1", "member2", "member3"
    world = serving(*members, seed=seed, policy=ANYWHERE, replicas=6, settings=evicting_nothing)
    for name in ("member2", "member3"):
        world.members[name].pods = 400
    wait(world, 90)  # the clusters report that member1 has most room
    assert placed(world) == dict.fromkeys(members, 2)
    world.fault("member1", "down")
    wait_until_not_ready(world, "member1")

    apply(world, AGAIN % LISTED)
    wait(world, 60)

    assert placed(world) == dict.fromkeys(members, 2)
    assert running(world) == {"member1": 0, "member2": 2, "member3": 2}
    assert world.failures == []


@pytest.mark.parametrize("seed", range(2))
def test_a_workload_that_is_added_later_to_a_rebalancer_is_rescheduled_although_it_was_placed_since(seed: int) -> None:
    world = serving("member1", "member2", seed=seed)
    apply(world, AGAIN % LISTED.replace("name: nginx", "name: other"))
    world.fault("member1", "down")
    world.run(90)
    world.excused["nginx"] = world.now + timedelta(days=1)  # a user asks for what follows
    world.fault("member1", "none")
    world.run(180)
    assert placed(world) == {"member2": 3}

    (old,) = world.store.list(WORKLOAD_REBALANCER)
    nginx = RebalancedWorkload("apps/v1", "Deployment", "nginx", "default")
    assert not world.store.put(old.with_spec(workloads=(*old.spec.workloads, nginx)), old).lost
    world.run(240)

    assert placed(world) == {"member1": 1, "member2": 2}
    assert running(world) == {"member1": 1, "member2": 2}
