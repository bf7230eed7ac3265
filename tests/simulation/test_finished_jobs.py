"""A Job that has finished is not run a second time because its cluster is lost or emptied [member-drift]."""

from __future__ import annotations

import pytest

from controlplane.apimachinery.meta import Ref
from controlplane.kinds import RESOURCE_BINDING
from tests.simulation.outages import taint, wait
from tests.simulation.stories import apply, joined, placed
from tests.simulation.world import Simulation

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: migrate}
spec:
  completions: 4
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: migrate, image: migrate}]
"""
POLICY = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: migrate}
spec:
  resourceSelectors: [{apiVersion: batch/v1, kind: Job}]
  failover: {cluster: {purgeMode: %s}}
  placement:
    clusterTolerations: [{operator: Exists, tolerationSeconds: %d}]
    spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]
"""
BINDING = Ref(RESOURCE_BINDING, "default", "migrate-job")
PLACE = ("batch/v1", "Job", "default", "migrate")
MODES = ("Gracefully", "Directly")


def started(mode: str, *, seed: int, seconds: int = 0) -> tuple[Simulation, str]:
    """Return a simulation with a Job that runs for 20 s, and its member. It tolerates taints for so many seconds."""
    world = joined("member1", "member2", "member3", seed=seed)
    apply(world, POLICY % (mode, seconds), JOB)
    wait(world, 5)
    (home,) = placed(world, BINDING)
    assert runs(world) == [home]
    return world, home


def runs(world: Simulation) -> list[str]:
    """Return the members on which the Job was started, in order."""
    found = [
        (at, member.name) for member in world.members.values() for at, place, _ in member.created if place == PLACE
    ]
    return [name for _, name in sorted(found)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(3))
def test_a_job_that_has_finished_stays_on_a_lost_cluster(seed: int, mode: str) -> None:
    world, home = started(mode, seed=seed)
    wait(world, 30)

    world.fault(home, "down")
    wait(world, 120)

    assert runs(world) == [home]
    assert set(placed(world, BINDING)) == {home}
    world.fault(home, "none")
    wait(world, 120)
    assert runs(world) == [home]
    assert world.failures == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(3))
def test_a_job_that_finishes_while_its_eviction_waits_stays(seed: int, mode: str) -> None:
    world, home = started(mode, seed=seed, seconds=40)

    taint(world, home)
    wait(world, 120)

    assert runs(world) == [home]


@pytest.mark.parametrize("seed", range(3))
def test_a_job_that_runs_goes_on_elsewhere(seed: int) -> None:
    world, home = started("Gracefully", seed=seed)

    world.fault(home, "down")
    wait(world, 120)

    assert len(runs(world)) == 2
