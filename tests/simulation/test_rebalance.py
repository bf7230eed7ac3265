"""After a failover nothing moves back by itself; a WorkloadRebalancer brings it back [workload-rebalancer]
[recovered-clusters]."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.simulation.outages import serving
from tests.simulation.stories import apply, placed, running

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
