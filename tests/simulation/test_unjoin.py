"""A cluster is unjoined: what runs there leaves first, and the Cluster stays until nothing of ours is on it
[unjoin-and-drain]."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Decision, deleting
from controlplane.engine.state import Actor
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import HELD, Eviction
from controlplane.settings import Compat, Settings
from tests.simulation.manifests import DIVIDED, DUPLICATED, NGINX
from tests.simulation.outages import taint
from tests.simulation.stories import QUICK, apply, binding, joined, placed, running
from tests.simulation.world import START, Simulation

SEEDS = range(4)
FIVE = ("member1", "member2", "member3", "member4", "member5")
EMPTIED = replace(QUICK, compat=Compat(terminating_taint=True))
IN_TEAM = Ref(kinds.RESOURCE_BINDING, "team", "nginx-deployment")
TEAM = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n"
ONE = DUPLICATED.replace("maxGroups: 2", "maxGroups: 1").replace("minGroups: 2", "minGroups: 1")


def serving(policy: str, *members: str, seed: int, settings: Settings = QUICK, kill_rate: float = 0.0) -> Simulation:
    world = joined(*members, seed=seed, settings=settings, kill_rate=kill_rate)
    apply(world, TEAM, policy, NGINX % 3)
    world.run(30)
    return world


def cluster(world: Simulation, name: str = "member1") -> Cluster | None:
    ref = Ref(kinds.CLUSTER, "", name)
    found: Cluster | None = world.store.get([ref]).get(ref)
    return found


def delete(world: Simulation, wish: str = "", name: str = "member1") -> None:
    """Delete a cluster, as kubectl does after `kubectl annotate`; the guard is the API's."""
    live = cluster(world, name)
    assert live is not None
    if wish:
        world.store.put(live.with_meta(annotations={"failover.lifeboat.io/unjoin": wish}), live)
        live = cluster(world, name)
        assert live is not None
    world.store.apply([(None, Decision(changes=(deleting(live, now=world.now),)))], by=Actor("jane"))


def works(world: Simulation, name: str = "member1") -> list[Any]:
    return list(world.store.list(kinds.WORK, namespace=f"karmada-es-{name}"))


def go_on(world: Simulation, seconds: float) -> None:
    world.run((world.now - START).total_seconds() + seconds)


def go_on_until(world: Simulation, holds: Callable[[], bool]) -> None:
    """Let the world go on, second by second, until something holds."""
    for _ in range(300):
        if holds():
            return
        go_on(world, 1)
    raise AssertionError("not within 300 s")


def copies_in_team(world: Simulation) -> list[int]:
    """Return the replicas of team's nginx that serve, by member."""
    place = ("apps/v1", "Deployment", "team", "nginx")
    return [member.ready_replicas(place, now=world.now) for member in world.members.values()]


def waits(world: Simulation) -> str:
    reported = [one.message for one in world.store.list(kinds.EVENT) if one.reason == "UnjoinWaiting"]
    return reported[-1] if reported else ""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", [DIVIDED, DUPLICATED, ONE])
@pytest.mark.parametrize("kill_rate", [0.0, 0.02])
def test_a_deleted_cluster_is_emptied_through_the_queue_and_then_goes(seed: int, policy: str, kill_rate: float) -> None:
    world = serving(policy, *FIVE, seed=seed, settings=EMPTIED, kill_rate=kill_rate)
    name = next(iter(placed(world)))

    delete(world, name=name)
    world.run(200)

    assert cluster(world, name) is None
    assert works(world, name) == []
    assert {place[1] for place in world.members[name].objects} == set()
    assert name not in placed(world)
    assert sum(running(world).values()) >= 3
    assert binding(world).spec.graceful_eviction_tasks == ()
    assert world.tokens, "it left through the queue, at its rate"
    assert world.failures == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_deleted_cluster_is_gone_as_soon_as_it_is_empty(seed: int) -> None:
    """Each step follows from the one before: none waits until a process looks again anyway."""
    world = serving(ONE, *FIVE, seed=seed, settings=EMPTIED)
    name = next(iter(placed(world)))
    for member in world.members.values():
        member.ready_after = timedelta(seconds=15)

    delete(world, name=name)
    go_on_until(world, lambda: name not in binding(world).clusters_kept())
    go_on(world, 3)

    assert cluster(world, name) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_a_namespace_leaves_a_deleted_cluster_after_the_copies_in_it(seed: int) -> None:
    """Its own deletion on the member would take them along while their replacement still starts
    [no-healthy-copy-lost]."""
    world = joined(*FIVE, seed=seed)
    apply(world, TEAM, *(text.replace("metadata:\n", "metadata:\n  namespace: team\n", 1) for text in (ONE, NGINX % 3)))
    go_on(world, 30)
    (name,) = placed(world, IN_TEAM)
    for member in world.members.values():
        member.ready_after = timedelta(seconds=25)
    served: list[int] = []

    delete(world, name=name)
    world.checks.append(lambda one: served.append(sum(copies_in_team(one))))
    go_on(world, 90)

    assert cluster(world, name) is None
    assert placed(world, IN_TEAM) != {}
    assert min(served) == 3


@pytest.mark.parametrize("seed", SEEDS)
def test_while_there_is_no_refuge_the_copy_and_the_cluster_stay(seed: int) -> None:
    world = serving(ONE.replace("member2", "nobody"), "member1", seed=seed, settings=EMPTIED)

    delete(world)
    world.run(300)

    assert cluster(world) is not None
    assert placed(world) == {"member1": 3}
    assert running(world) == {"member1": 3}
    assert "nginx-deployment" in waits(world)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("wish", "left"), [("keep", {"member1": 3}), ("delete", {})])
def test_by_force_it_goes_at_once_and_its_user_says_what_becomes_of_the_copies(
    seed: int, wish: str, left: dict[str, int]
) -> None:
    world = serving(ONE.replace("member2", "nobody"), "member1", seed=seed)
    world.excused["nginx"] = world.now.replace(year=2027)

    delete(world, wish)
    world.run(90)

    assert cluster(world) is None
    assert works(world) == []
    assert running(world) == left


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("moving", [True, False], ids=["moving", "held without a refuge"])
def test_a_cluster_that_is_unjoined_takes_its_tasks_and_its_queue_along(seed: int, moving: bool) -> None:
    world = serving(ONE if moving else ONE.replace("member2", "nobody"), "member1", "member2", seed=seed)
    (home,) = placed(world)
    world.fault("member1" if home == "member2" else "member2", "notready")
    taint(world, home)
    go_on(world, 30)
    assert bool(binding(world).spec.graceful_eviction_tasks) is moving
    assert moving or [row.cluster for row in world.store.all_rows(Eviction) if row.state == HELD] == [home]

    world.excused["nginx"] = world.now.replace(year=2027)
    delete(world, "delete", home)
    go_on(world, 90)

    assert cluster(world, home) is None
    assert binding(world).spec.graceful_eviction_tasks == ()
    assert [row for row in world.store.all_rows(Eviction) if row.cluster == home] == []
    assert world.failures == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_that_waits_can_still_be_forced(seed: int) -> None:
    world = serving(ONE.replace("member2", "nobody"), "member1", seed=seed, settings=EMPTIED)
    delete(world)
    world.run(60)
    assert cluster(world) is not None

    delete(world, "keep")
    world.run(120)

    assert cluster(world) is None
    assert running(world) == {"member1": 3}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", [DIVIDED, ONE])
def test_what_was_placed_while_it_was_being_deleted_leaves_once_the_replacement_is_healthy(
    seed: int, policy: str
) -> None:
    """The guard saw an empty cluster; a moment later there was something on it. [no-healthy-copy-lost] holds in every
    step."""
    world = serving(policy, *FIVE, seed=seed)
    name = next(iter(placed(world)))
    for member in world.members.values():
        if member.name != name:
            member.ready_after = timedelta(seconds=25)  # longer than we wait between two looks

    delete(world, name=name)
    world.run(200)

    assert cluster(world, name) is None
    assert sum(running(world).values()) == 3
    assert name not in running(world)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_that_will_never_answer_again_goes_without_an_answer(seed: int) -> None:
    world = serving(ONE, *FIVE, seed=seed)
    name = next(iter(placed(world)))
    world.fault(name, "down")
    world.run(150)
    assert name not in placed(world)

    delete(world, name=name)
    world.run(250)

    assert cluster(world, name) is None
    assert works(world, name) == []
    assert sum(running(world).values()) >= 3


@pytest.mark.parametrize("seed", SEEDS)
def test_an_empty_cluster_goes_with_the_namespaces_that_were_brought_there(seed: int) -> None:
    world = serving(ONE.replace("member1", "member9"), *FIVE, seed=seed)
    assert ("v1", "Namespace", "", "team") in world.members["member4"].objects

    delete(world, name="member4")
    world.run(60)

    assert cluster(world, "member4") is None
    assert world.members["member4"].objects == {}
    assert waits(world) == ""
