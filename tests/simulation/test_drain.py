"""A cluster is emptied before its upgrade, and the workload never stops serving (the failover guide's third scenario;
[unjoin-and-drain])."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import product

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.drain import DRAIN, Drain
from tests.simulation.manifests import DIVIDED, DUPLICATED, HELD, NGINX
from tests.simulation.outages import serving, wait, wait_until_leaving
from tests.simulation.stories import QUICK, apply, binding, copies_on, joined, placed, running
from tests.simulation.world import Simulation

SEEDS = range(2)
UPGRADE = """
apiVersion: failover.lifeboat.io/v1alpha1
kind: Drain
metadata:
  name: upgrade
spec:
  cluster: %s
  rate: %s
  reason: new network
  stop: %s
"""


def drain(world: Simulation) -> Drain:
    ref = Ref(DRAIN, "", "upgrade")
    found: Drain = world.store.get([ref])[ref]
    return found


def edit(world: Simulation, **spec: object) -> None:
    old = drain(world)
    world.store.put(old.with_spec(**spec), old)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", [DIVIDED, DUPLICATED])
def test_everything_leaves_and_nothing_stops_serving(seed: int, policy: str) -> None:
    world = joined("member1", "member2", "member3", "member4", "member5", seed=seed)
    apply(world, policy, NGINX % 3)
    world.run(30)
    assert "member1" in placed(world)

    apply(world, UPGRADE % ("member1", "1", "false"))
    world.run(120)

    assert "member1" not in placed(world)
    assert "member1" not in running(world)
    assert binding(world).spec.graceful_eviction_tasks == ()
    assert (drain(world).status.phase, drain(world).status.moved) == ("Finished", 1)
    assert world.failures == []


@pytest.mark.parametrize("seed", SEEDS)
def test_it_keeps_to_its_rate_and_can_be_stopped_and_resumed(seed: int) -> None:
    world = joined("member1", "member2", "member3", seed=seed)
    for number in range(6):
        apply(world, *(text.replace("nginx", f"app{number}") for text in (DIVIDED, NGINX % 2)))
    world.run(40)
    assert copies_on(world, "member1") == 6

    apply(world, UPGRADE % ("member1", "0.1", "false"))
    world.run(75)
    edit(world, stop=True)
    world.run(90)
    stopped = copies_on(world, "member1")
    world.run(200)
    assert 2 <= stopped <= 4
    assert copies_on(world, "member1") == stopped
    assert drain(world).status.phase == "Stopped"

    edit(world, stop=False)
    world.run(320)
    assert copies_on(world, "member1") == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_stopped_it_still_counts_what_is_leaving(seed: int) -> None:
    world = joined("member1", "member2", "member3", seed=seed)
    apply(world, DIVIDED, NGINX % 2)
    world.run(40)
    for member in world.members.values():
        member.ready_after = timedelta(seconds=20)

    apply(world, UPGRADE % ("member1", "1", "false"))
    wait_until_leaving(world)
    edit(world, stop=True)
    wait(world, 3)
    amid = drain(world).status
    wait(world, 60)

    after = drain(world).status
    assert [(one.phase, one.moved, one.leaving) for one in (amid, after)] == [("Stopped", 1, 1), ("Stopped", 1, 0)]


NEAR = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: nginx-propagation
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment, name: nginx}
  placement:
    clusterAffinities:
    - {affinityName: home, clusterNames: [%s]}
    - {affinityName: away, clusterNames: [member3, member4, member5]}
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_it_gives_way_while_the_fleet_is_not_well(seed: int) -> None:
    """Nothing runs on the three of five that fail, so no eviction is due, and there is room on member5."""
    world = joined("member1", "member2", "member3", "member4", "member5", seed=seed)
    apply(world, NEAR % "member1", NGINX % 3)
    world.run(30)
    for name in ("member2", "member3", "member4"):
        world.fault(name, "down")
    world.run(60)

    apply(world, UPGRADE % ("member1", "1", "false"))
    world.run(120)

    assert drain(world).status.phase == "Paused"
    assert "the eviction tier is Stopped: 3 of 5 clusters are faulty" in drain(world).status.message
    assert placed(world) == {"member1": 3}

    world.fault("member2", "none")
    world.run(240)
    assert placed(world) == {"member5": 3}


@pytest.mark.parametrize("seed", SEEDS)
def test_what_leaves_a_cluster_that_fails_meanwhile_goes_first(seed: int) -> None:
    """Four workloads are on member1, which is being emptied, four on member2, which fails."""
    slow = replace(QUICK, resource_eviction_rate=0.1)
    world = joined("member1", "member2", "member3", "member4", "member5", seed=seed, settings=slow)
    for home, number in product(("member1", "member2"), range(4)):
        apply(world, *(text.replace("nginx", f"{home}-{number}") for text in (NEAR % home, NGINX % 1)))
    world.run(30)
    apply(world, UPGRADE % ("member1", "0.1", "false"))
    world.run(35)
    world.fault("member2", "down")
    world.run(300)

    left = {actor: [at for who, at in departures(world) if who == actor] for actor in ("evictions", "drains")}
    assert [len(moments) for moments in left.values()] == [4, 4]
    first, *_, last = left["evictions"]
    assert [at for at in left["drains"] if first <= at < last] == []
    assert left["drains"][0] < first
    assert drain(world).status.phase == "Finished"


def departures(world: Simulation) -> list[tuple[str, datetime]]:
    """Who let a binding leave, and when."""
    return [(one.actor, one.at) for one in world.store.log if one.ref.kind == RESOURCE_BINDING]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_has_nowhere_to_go_stays_and_is_named(seed: int) -> None:
    world = joined("member1", "member2", "member3", seed=seed)
    only = DIVIDED.replace("        - member2\n", "", 1)
    apply(world, only, NGINX % 3)
    world.run(30)
    assert placed(world) == {"member1": 3}

    apply(world, UPGRADE % ("member1", "1", "false"))
    world.run(120)

    assert placed(world) == {"member1": 3}
    (left,) = drain(world).status.cannot_leave
    assert left.binding.endswith("nginx-deployment")
    assert left.message


@pytest.mark.parametrize("seed", SEEDS)
def test_workloads_held_by_their_labels_stay_and_are_named(seed: int) -> None:
    world = serving("member1", "member2", seed=seed)

    apply(world, HELD, UPGRADE % ("member1", "1", "false"))
    world.run(90)

    assert "member1" in placed(world)
    assert [one.message for one in drain(world).status.cannot_leave] == ["EvictionHold release: we are releasing"]


MAINTAINED = """
apiVersion: failover.lifeboat.io/v1alpha1
kind: MaintenanceWindow
metadata:
  name: racks
spec:
  clusters: [member2, member3, member5]
  until: "2026-03-01T06:00:00Z"
  reason: new racks
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_clusters_that_are_being_worked_on_keep_no_other_from_being_emptied(seed: int) -> None:
    world = joined("member1", "member2", "member3", "member4", "member5", seed=seed)
    apply(world, DIVIDED.replace("member2", "member4"), NGINX % 3)
    world.run(30)
    apply(world, MAINTAINED)
    for name in ("member2", "member3", "member5"):
        world.fault(name, "down")
    world.run(60)

    apply(world, UPGRADE % ("member1", "1", "false"))
    world.run(120)

    assert (drain(world).status.phase, placed(world)) == ("Finished", {"member4": 3})


TOLERANT = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: nginx}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: nginx}]
  placement:
    clusterTolerations: [{operator: Exists}]
    spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_what_tolerates_a_cordon_does_not_go_to_another_cluster_that_is_emptied(seed: int) -> None:
    world = joined("member1", "member2", "member3", seed=seed)
    apply(world, TOLERANT, NGINX % 2)
    world.run(30)
    (home,) = placed(world)
    emptied = [home, next(name for name in ("member1", "member2") if name != home)]

    for name in emptied:
        apply(world, (UPGRADE % (name, "1", "false")).replace("upgrade", f"upgrade-{name}"))
    world.run(120)

    assert set(placed(world)).isdisjoint(emptied)
    assert {one.status.phase for one in world.store.list(DRAIN)} == {"Finished"}
