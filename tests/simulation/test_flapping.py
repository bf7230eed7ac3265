"""Fault 3: a cluster that comes and goes is counted, reported, moves no copy, and is like any other once calm."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Condition, Ref, condition
from controlplane.engine.decision import Decision, deleting
from controlplane.engine.state import Actor
from controlplane.kinds.cluster import NO_EXECUTE, Cluster, Taint
from controlplane.kinds.rows import HELD, Eviction, Observation
from controlplane.settings import GATES, Compat, Settings
from tests.simulation.manifests import NGINX
from tests.simulation.member import DOWN, UP
from tests.simulation.stories import apply, binding, joined, placed
from tests.simulation.test_acceptance import ONE, POLICY
from tests.simulation.world import START, Simulation

HOUR = 3600
FLAPS = Ref(kinds.CLUSTER, "", "member1")
PRODUCTION = replace(Settings(), feature_gates={**GATES, "Failover": True})
PRODUCTION = replace(PRODUCTION, resource_eviction_rate=10.0)


def fleet(seed: int = 0, settings: Settings = PRODUCTION) -> Simulation:
    """Five members and one workload on member1, with the defaults of production."""
    world = joined("member1", "member2", "member3", "member4", "member5", seed=seed, settings=settings)
    home = ONE.replace(
        "{spread", "{clusterAffinities: [{affinityName: home, clusterNames: [member1]}, {affinityName: away}], spread"
    )
    apply(world, POLICY % ("nginx", "nginx", home, "null"), NGINX % 2)
    world.run(60)
    assert placed(world) == {"member1": 2}
    return world


def flaps(world: Simulation, *, until: int, down: int = 20, up: int = 20, start: int = 60) -> None:
    """Order that member1 is down and up in turns, from a second on; it stays up afterwards."""
    for second in range(start, until, down + up):
        world.at(second, lambda: world.fault("member1", DOWN))
        world.at(second + down, lambda: world.fault("member1", UP))


def gets_worse(world: Simulation) -> None:
    """Order that member1 flaps for five minutes, and from then on is down for so long each time that Ready follows."""
    flaps(world, until=360)
    flaps(world, until=60 + HOUR, down=40, start=360)


def member1(world: Simulation) -> Cluster:
    found: Cluster = world.store.get([FLAPS])[FLAPS]
    return found


def reported(world: Simulation, type_: str = "Flapping") -> Condition | None:
    return condition(member1(world).status.conditions, type_)


def events(world: Simulation, reason: str) -> list[Any]:
    return [one for one in world.store.list(kinds.EVENT) if one.reason == reason]


def seen(world: Simulation) -> Observation:
    found: Observation = world.store.row(Observation, "member1")
    return found


def queued(world: Simulation) -> list[Eviction]:
    return [row for row in world.store.all_rows(Eviction) if row.due_at is not None]


@pytest.mark.parametrize("seed", range(3))
def test_a_cluster_that_flaps_every_20_s_for_an_hour_is_counted_and_moves_no_workload(seed: int) -> None:
    world = fleet(seed)
    published: list[str] = []
    world.checks.append(lambda one: published.append(member1(one).ready))
    written = member1(world).metadata.resource_version
    flaps(world, until=60 + HOUR)

    world.run(60 + HOUR)

    flips = sum(before != after for before, after in pairwise(published))
    assert flips <= 1
    assert seen(world).turns in (179, 180)
    assert len(seen(world).turned_at) == 60
    during = reported(world)
    assert during is not None
    assert (during.status, during.reason) == ("True", "AnswersChange")
    assert "24 times or more within 600 s" in during.message
    assert [one.count for one in events(world, "ClusterFlapping")] == [1]
    assert (world.tokens, queued(world), placed(world)) == ([], [], {"member1": 2})
    writes = [one for one in world.store.log if one.ref == FLAPS and one.version > int(written)]
    assert len([one for one in writes if one.actor == "cluster_status"]) <= 10, "it is not written at each turn"

    world.run(60 + HOUR + 330)

    after = reported(world)
    assert after is not None
    assert (after.status, after.reason) == ("False", "Calm")
    assert [one.count for one in events(world, "ClusterCalm")] == [1]


def test_what_a_policy_would_evict_from_a_flapping_cluster_is_held_until_it_is_calm() -> None:
    """After a while it is down for 40 s of each minute: Ready follows that once, and a policy taints it."""
    world = fleet()
    gets_worse(world)
    world.at(1800, world.restart)

    world.run(HOUR)

    assert member1(world).has_taint(NO_EXECUTE)
    (row,) = queued(world)
    assert (row.state, row.reason) == (HELD, "Flapping")
    pending = condition(binding(world).status.conditions, "EvictionPending")
    assert pending is not None
    assert (pending.status, pending.reason) == ("True", "Held")
    assert "cluster member1 is flapping" in pending.message
    assert (world.tokens, placed(world)) == ([], {"member1": 2})

    world.at(60 + HOUR + 60, lambda: world.fault("member1", DOWN))
    world.run(60 + HOUR + 60 + 400)

    assert "member1" not in placed(world)
    assert len(world.tokens) == 1


def test_a_person_may_empty_a_flapping_cluster() -> None:
    world = fleet()
    gets_worse(world)
    world.run(HOUR)
    assert [row.reason for row in queued(world)] == ["Flapping"]
    old = member1(world)
    taint = Taint("leave", NO_EXECUTE, time_added=world.now)
    assert not world.store.put(old.with_spec(taints=(*old.spec.taints, taint)), old).lost

    world.run(HOUR + 10)

    assert "member1" not in placed(world)


@pytest.mark.parametrize("seed", range(3))
def test_a_flapping_cluster_that_is_deleted_is_emptied_all_the_same(seed: int) -> None:
    """Its deletion is the word of a person, though the taint that follows from it is ours."""
    world = fleet(seed, replace(PRODUCTION, compat=Compat(terminating_taint=True)))
    flaps(world, until=60 + HOUR)
    world.run(600)
    assert member1(world).flapping

    world.store.apply([(None, Decision(changes=(deleting(member1(world), now=world.now),)))], by=Actor("jane"))
    world.run(600 + 120)

    assert "member1" not in placed(world)
    assert world.store.get([FLAPS]) == {}


def test_unobserved_time_calms_nothing() -> None:
    world = fleet()
    flaps(world, until=60 + 600)
    world.run(60 + 600)
    assert member1(world).flapping
    before = seen(world)

    world.stall(HOUR)
    world.run(60 + 600 + HOUR + 10)

    assert member1(world).flapping
    assert seen(world).turns == before.turns
    assert max(seen(world).turned_at) > START + timedelta(seconds=HOUR)


LEAVE_WHAT_FLAPS = """
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterTaintPolicy
metadata:
  name: leave-what-flaps
spec:
  matchConditions:
  - conditionType: Flapping
    operator: %s
    statusValues: ["%s"]
  taintsToAdd:
  - key: example.io/flaps
    effect: NoExecute
    addOnMatchSeconds: 120
"""


def test_a_policy_about_flapping_empties_a_cluster_that_flaps() -> None:
    world = fleet()
    apply(world, LEAVE_WHAT_FLAPS % ("In", "True"))
    flaps(world, until=60 + HOUR)
    world.run(60 + 300)

    began = reported(world)
    assert began is not None
    assert began.last_transition_time is not None
    (tainted,) = [one for one in member1(world).spec.taints if one.effect == NO_EXECUTE]
    assert tainted.key == "example.io/flaps"
    assert tainted.time_added is not None
    assert (
        timedelta(0) <= tainted.time_added - began.last_transition_time - timedelta(seconds=120) < timedelta(seconds=2)
    )
    assert "member1" not in placed(world)
    assert len(world.tokens) == 1


def test_a_policy_about_flapping_lets_go_what_was_held_for_it() -> None:
    """Two policies want the same taint: the one that is about Ready came first, and what it moves is held."""
    world = fleet()
    gets_worse(world)
    world.run(HOUR)
    assert [row.reason for row in queued(world)] == ["Flapping"]
    same = LEAVE_WHAT_FLAPS.replace("example.io/flaps", "cluster.karmada.io/not-ready")

    apply(world, same % ("In", "True"))
    world.run(HOUR + 140)

    assert member1(world).flapping
    assert "member1" not in placed(world)


def test_a_policy_about_what_does_not_flap_is_held_like_any_other() -> None:
    world = fleet()
    apply(world, (LEAVE_WHAT_FLAPS % ("NotIn", "True")).replace("120", "1"))
    gets_worse(world)
    world.run(HOUR)

    assert [row.reason for row in queued(world)] == ["Flapping"]
    assert placed(world) == {"member1": 2}
