"""Outages: nginx runs where a policy put it, and then its members fail, are left, and come back too late."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.kinds.cluster import Taint
from tests.simulation.manifests import DIVIDED, NGINX
from tests.simulation.stories import apply, binding, joined, placed, running
from tests.simulation.world import START, Simulation

SERVING = 30  # seconds
PERSONS = "gone"  # the taint of a person
DEPLOYMENT = Ref("apps/Deployment", "default", "nginx")


def serving(*names: str, seed: int = 0, policy: str = DIVIDED, replicas: int = 3, **fields: Any) -> Simulation:
    """Return a simulation whose members (`stories.joined`) run so many replicas of nginx as the policy divides them."""
    world = joined(*names, seed=seed, **fields)
    apply(world, policy, NGINX % replicas)
    world.run(SERVING)
    return world


def left(*names: str, seed: int = 0, **fields: Any) -> Simulation:
    """Return a simulation whose member1 went down after it had served, and was left for good."""
    world = serving(*names, seed=seed, **fields)
    world.fault("member1", "down")
    world.run(90)
    assert "member1" not in placed(world)
    assert binding(world).spec.graceful_eviction_tasks == ()
    return world


def member2_fails_as_member1_is_back(world: Simulation, *, seconds: float) -> None:
    """Let member1 be reached again once member2 is known to be down, and some time pass."""
    world.fault("member2", "down")
    wait_until_not_ready(world, "member2")
    world.fault("member1", "none")
    wait(world, seconds)


@contextmanager
def without(world: Simulation, controller: str) -> Iterator[None]:
    """Let a controller's worker sleep."""
    everybody = world.controllers
    world.controllers = tuple(one for one in everybody if one.name != controller)
    yield
    world.controllers = everybody


@contextmanager
def without_workers(world: Simulation) -> Iterator[None]:
    """Let all workers sleep, while the process goes on that asks members."""
    everybody = world.controllers
    world.controllers = tuple(one for one in everybody if one.group == "members")
    yield
    world.controllers = everybody


def wait(world: Simulation, seconds: float) -> None:
    """Let time pass, counted from now."""
    world.run((world.now - START).total_seconds() + seconds)


def wait_until_not_ready(world: Simulation, name: str) -> None:
    """Let time pass until a member is published as not Ready."""
    while world.store.objects[Ref(kinds.CLUSTER, "", name)].ready == "True":
        wait(world, 0.5)


def wait_until_leaving(world: Simulation) -> None:
    """Let time pass until nginx leaves some member."""
    while not binding(world).spec.graceful_eviction_tasks:
        wait(world, 0.5)


def taint(world: Simulation, name: str, *, on: bool = True) -> None:
    """Let a person empty a member, or take that back."""
    old = world.store.objects[Ref(kinds.CLUSTER, "", name)]
    rest = tuple(one for one in old.spec.taints if one.key != PERSONS)
    mine = (Taint(PERSONS, "NoExecute", time_added=world.now.replace(microsecond=0)),) if on else ()
    assert not world.store.put(old.with_spec(taints=(*rest, *mine)), old).lost


def scale(world: Simulation, replicas: int) -> None:
    """Let a user ask for another number of replicas of nginx."""
    old = world.store.objects[DEPLOYMENT]
    new = old.with_content({**old.content, "spec": {**old.spec, "replicas": replicas}})
    assert not world.store.put(new, old).lost


def removal_hangs(world: Simulation, fault: str = "down") -> None:
    """Let member1 be left, and be out of reach when its old copy is to be removed, which is not known yet."""
    taint(world, "member1")
    wait_until_leaving(world)
    wait(world, 4)
    world.fault("member1", fault)
    wait(world, 2)
    assert binding(world).spec.graceful_eviction_tasks == ()
    assert running(world)["member2"] == 3
