"""What workloads take along (propagateDeps): where they are and no shorter, and nowhere else in the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from tests.simulation.manifests import HELD, NGINX
from tests.simulation.member import UP
from tests.simulation.outages import taint, wait
from tests.simulation.stories import apply, joined, placed
from tests.simulation.test_what_if import configure
from tests.simulation.world import Simulation

SETTINGS = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  colour: blue
"""
POLICY = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: nginx-propagation
spec:
  propagateDeps: true
  resourceSelectors:
  - apiVersion: apps/v1
    kind: Deployment
  placement:
    spreadConstraints:
    - maxGroups: 1
      minGroups: 1
  failover:
    cluster:
      purgeMode: %s
"""
ENVIRONMENT = "        name: nginx\n        envFrom:\n        - configMapRef:\n            name: settings\n"
CONFIG = ("v1", "ConfigMap", "default", "settings")
MODES = ("Gracefully", "Directly")


def web(name: str = "nginx") -> str:
    """A Deployment whose environment comes from the ConfigMap."""
    named = (NGINX % 2).replace("        name: nginx\n", ENVIRONMENT).replace("app: nginx", f"app: {name}")
    return named.replace("\n  name: nginx\n", f"\n  name: {name}\n")


def serving(mode: str, *, seed: int = 0, names: Iterable[str] = ("nginx",)) -> tuple[Simulation, str]:
    """Return a simulation of three members, and the one that runs the Deployments and what they need."""
    world = joined("member1", "member2", "member3", seed=seed)
    world.checks.append(never_without)
    apply(world, POLICY % mode, SETTINGS, *map(web, names))
    world.run(60)
    (home,) = placed(world)
    assert holders(world) == {home}
    return world, home


def holders(world: Simulation) -> set[str]:
    """Return the members that hold the ConfigMap."""
    return {one.name for one in world.members.values() if CONFIG in one.objects}


def never_without(world: Simulation) -> None:
    """No member that answers holds a Deployment longer than what it needs."""
    for member in world.members.values():
        runs = [place for place in member.objects if place[1] == "Deployment"]
        lost = runs and CONFIG not in member.objects and CONFIG in {place for _, place, _ in member.created}
        assert not lost, f"seed {world.seed}: {member.name} runs {runs} without what they need at {world.now}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(3))
def test_it_leaves_a_cluster_that_is_well_with_its_workload_and_not_before(mode: str, seed: int) -> None:
    world, home = serving(mode, seed=seed)

    taint(world, home)
    wait(world, 120)

    assert holders(world) == set(placed(world)) != {home}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(3))
def test_a_cluster_that_comes_back_is_rid_of_it_as_of_its_workload(mode: str, seed: int) -> None:
    world, home = serving(mode, seed=seed)

    world.fault(home, "down")
    wait(world, 120)
    assert CONFIG in world.members[home].objects, "nothing can remove it"
    world.fault(home, UP)
    wait(world, 120)

    assert holders(world) == set(placed(world)) != {home}
    assert {ref.namespace for ref in world.store.objects if ref.kind == kinds.WORK} == {
        f"karmada-es-{name}" for name in placed(world)
    }


def test_what_two_share_stays_for_the_one_that_stays() -> None:
    world, home = serving("Gracefully", names=("nginx", "other"))
    apply(world, HELD)

    world.fault(home, "down")
    wait(world, 120)
    world.fault(home, UP)
    wait(world, 120)

    other = Ref(kinds.RESOURCE_BINDING, "default", "other-deployment")
    assert placed(world) == {home: 2}, "it is held"
    assert holders(world) == {home, *placed(world, other)}
    assert len(holders(world)) == 2


def test_what_moved_while_the_gate_was_off_gets_what_it_needs_when_it_is_on_again() -> None:
    world, home = serving("Gracefully")
    configure(world, featureGates={"Failover": True, "PropagateDeps": False})
    taint(world, home)
    wait(world, 200)
    assert holders(world) == {home} != set(placed(world)), "nothing follows while the gate is off"

    configure(world, featureGates={"Failover": True, "PropagateDeps": True})
    wait(world, 60)

    assert holders(world) == set(placed(world)) != {home}


@pytest.mark.parametrize("later", [True, False])
def test_the_gate_may_be_switched_by_the_environment_and_a_restart(later: bool) -> None:
    """No object changes then. What had moved while the gate was off got what it needs when it changed the next time."""
    world, home = serving("Gracefully")
    gates, off = world.settings.feature_gates, {**world.settings.feature_gates, "PropagateDeps": False}
    restarted_with(world, off)
    taint(world, home)
    wait(world, 200)
    assert holders(world) == {home} != set(placed(world)), "nothing follows while the gate is off"

    restarted_with(world, gates if later else off)

    assert (holders(world) == set(placed(world)) != {home}) == later


def restarted_with(world: Simulation, gates: Mapping[str, bool]) -> None:
    """Let all workers begin again with these gates in their environment, and some time pass."""
    world.settings = replace(world.settings, feature_gates=gates)
    world.restart()
    wait(world, 60)
