"""An application whose pods are unhealthy leaves its cluster with all it needs: dependencies, and its other parts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.kinds.rows import UnhealthyCopies
from tests.simulation.manifests import NGINX
from tests.simulation.member import UP
from tests.simulation.outages import wait, without
from tests.simulation.stories import apply, joined, placed, running
from tests.simulation.test_acceptance import DATABASE, FIVE, ONE, SERVICE
from tests.simulation.test_last_copy import cordon
from tests.simulation.world import Simulation

POLICY = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: online
  annotations: {%s}
spec:
  propagateDeps: true
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment, name: server}
  - {apiVersion: apps/v1, kind: StatefulSet, name: database}
  - {apiVersion: v1, kind: Service, name: server}
  - {apiVersion: v1, kind: ConfigMap, name: notes}
  failover:
    application: {decisionConditions: {tolerationSeconds: 20}, purgeMode: Gracefully, gracePeriodSeconds: 600}
  placement: %s
"""
GRACEFULLY = "Gracefully, gracePeriodSeconds: 600"
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {a: b}\n"
SERVER = (
    (NGINX % 2)
    .replace("nginx", "server")
    .replace("        name: server\n", "        name: server\n        envFrom: [{configMapRef: {name: needed}}]\n")
)
PODS = {"server-deployment", "database-statefulset"}
BESIDE = {"server-service", "notes-configmap"}
WORKLOAD = ("apps/v1", "Deployment", "default", "server")
NEEDED = ("v1", "ConfigMap", "default", "needed")


def part(name: str) -> Ref:
    return Ref(kinds.RESOURCE_BINDING, "default", name)


def where(world: Simulation, names: set[str]) -> dict[str, set[str]]:
    return {name: set(placed(world, part(name))) for name in names}


def online(seed: int, *parts: str, annotations: str = "", mode: str = GRACEFULLY) -> tuple[Simulation, str]:
    world = joined(*FIVE, seed=seed, kill_rate=0.02 * (seed % 2))
    world.excused["server"] = world.now + timedelta(days=1)  # its pods are unhealthy for a reason of their own
    policy = (POLICY % (annotations, ONE)).replace(GRACEFULLY, mode)
    apply(world, CONFIG % "needed", CONFIG % "notes", policy, *parts)
    world.run(60)
    (home,) = placed(world, part("server-deployment"))
    return world, home


def becomes_unhealthy(world: Simulation, home: str) -> None:
    """From now on the server's pods are not ready there, and the member reports it."""
    held = world.members[home].objects[WORKLOAD]
    held.since, held.before = world.now + timedelta(days=1), 0
    world.fault(home, UP)


def becomes_healthy(world: Simulation, home: str) -> None:
    """From now on its pods are ready again, and the member reports it."""
    world.members[home].objects[WORKLOAD].since = world.now - timedelta(days=1)
    world.fault(home, UP)


@pytest.mark.parametrize("seed", range(4))
def test_what_an_unhealthy_workload_needs_and_what_stands_beside_it_leave_with_it(seed: int) -> None:
    world, home = online(seed, SERVER, SERVICE)
    assert all(places == {home} for places in where(world, {"server-deployment", *BESIDE}).values())
    assert NEEDED in world.members[home].objects
    stayed: list[bool] = []

    def note(one: Simulation) -> None:
        held = one.members[home].objects
        if WORKLOAD in held:
            stayed.append(NEEDED in held and ("v1", "Service", "default", "server") in held)

    world.checks.append(note)
    becomes_unhealthy(world, home)
    world.run(300)

    (refuge,) = placed(world, part("server-deployment"))
    assert refuge != home
    assert where(world, BESIDE) == {name: {refuge} for name in BESIDE}
    assert running(world, "server") == {refuge: 2}
    assert NEEDED in world.members[refuge].objects
    assert NEEDED not in world.members[home].objects
    assert all(stayed), "what the pods need stays on the old cluster as long as they do"
    assert world.failures == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("annotations", "follows"), [("", False), ('"failover.lifeboat.io/together": "true"', True)])
def test_a_healthy_part_with_pods_follows_only_where_the_policy_says_so(
    seed: int, annotations: str, follows: bool
) -> None:
    world, home = online(seed, SERVER, SERVICE, DATABASE, annotations=annotations)
    assert where(world, PODS) == {name: {home} for name in PODS}

    becomes_unhealthy(world, home)
    world.run(300)

    (refuge,) = placed(world, part("server-deployment"))
    assert refuge != home
    others = {"database-statefulset", *BESIDE}
    assert where(world, others) == {name: {refuge if follows else home} for name in others}
    assert world.failures == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mode", [GRACEFULLY, "Directly"])
def test_a_copy_that_is_healthy_again_stays_if_the_scheduler_has_found_no_other_cluster(seed: int, mode: str) -> None:
    """The clusters that the dry run found are closed before the scheduler decides, and open again later."""
    world, home = online(seed, SERVER, mode=mode)
    others = [name for name in FIVE if name != home]
    with without(world, "scheduler"):
        becomes_unhealthy(world, home)
        wait(world, 60)
        assert placed(world, part("server-deployment")) == {}
        cordon(world, *others)
    wait(world, 20)

    becomes_healthy(world, home)
    wait(world, 20)
    cordon(world, *others, on=False)
    wait(world, 120)

    assert placed(world, part("server-deployment")) == {home: 2}
    assert running(world, "server") == {home: 2}
    assert world.failures == []


@pytest.mark.parametrize("seed", range(6))
def test_a_copy_that_became_healthy_during_an_outage_of_ours_stays(seed: int) -> None:
    """What it reported before the outage is all that is known when the workers are back."""
    world, home = online(seed, SERVER)
    becomes_unhealthy(world, home)
    world.run(70)
    assert world.store.rows(UnhealthyCopies, "key", [str(part("server-deployment"))])

    world.stall(300)
    world.at(80, lambda: becomes_healthy(world, home))
    world.run(500)

    assert set(placed(world, part("server-deployment"))) == {home}
    assert running(world, "server") == {home: 2}
    assert world.failures == []


@pytest.mark.parametrize("seed", range(4))
def test_a_copy_that_stays_unhealthy_leaves_after_an_outage_of_ours(seed: int) -> None:
    world, home = online(seed, SERVER)
    becomes_unhealthy(world, home)
    world.run(70)

    world.stall(300)
    world.run(420)

    assert home not in placed(world, part("server-deployment"))
