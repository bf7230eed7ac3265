"""Copies in regions: a region that recovers may be preferred to the one that a workload went to."""

from __future__ import annotations

import pytest

from controlplane import kinds
from tests.simulation.features import REGIONAL, REGIONS
from tests.simulation.manifests import NGINX
from tests.simulation.outages import wait
from tests.simulation.stories import apply, joined, placed, running
from tests.simulation.world import Simulation

SEEDS = range(4)
DUPLICATED = REGIONAL[0]


def south_and_west(seed: int, *more: str) -> Simulation:
    """Return a simulation whose workload has a copy in the south and one in the west while the north is away. `more`:
    what is applied with it."""
    away = dict.fromkeys(("member1", "member2"), "down")
    world = joined(*REGIONS, seed=seed, faults=away)
    for old in world.store.list(kinds.CLUSTER):
        assert not world.store.put(old.with_spec(region=REGIONS[old.metadata.name]), old).lost
    apply(world, DUPLICATED, *more, NGINX % 3)
    world.run(40)
    assert {REGIONS[name] for name in placed(world)} == {"south", "west"}
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_the_copy_of_a_region_that_is_given_up_stays_until_the_new_one_is_healthy(seed: int) -> None:
    """The north is larger than the west, so the scheduler takes it when it is back."""
    world = south_and_west(seed)
    for name in ("member1", "member2"):
        world.fault(name, "notready")
    wait(world, 40)

    assert {REGIONS[name] for name in placed(world)} == {"north", "south"}
    assert running(world)["member5"] == 3, "it runs nowhere else yet"

    for name in ("member1", "member2"):
        world.fault(name, "none")
    wait(world, 60)
    assert running(world) == placed(world), "the old copy is gone"


SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: nginx}
spec: {selector: {app: nginx}, ports: [{port: 80}]}
"""
OF_SERVICES = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: services}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Service}]
  placement:
    spreadConstraints:
    - {spreadByField: region, minGroups: 2, maxGroups: 2}
    - {spreadByField: cluster, minGroups: 2, maxGroups: 2}
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_copy_needs_stays_with_it_if_its_region_is_given_up(seed: int) -> None:
    """Both have policies of their own. A Service is healthy at once."""
    world = south_and_west(seed, OF_SERVICES, SERVICE)
    place = ("v1", "Service", "default", "nginx")
    assert place in world.members["member5"].objects
    for name in ("member1", "member2"):
        world.fault(name, "notready")
    wait(world, 90)

    assert running(world)["member5"] == 3
    assert place in world.members["member5"].objects

    for name in ("member1", "member2"):
        world.fault(name, "none")
    wait(world, 90)
    assert running(world) == placed(world)
    assert place not in world.members["member5"].objects
