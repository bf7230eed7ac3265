"""What `what_if` answers then happens: a question about a seeded fleet, and the same change in the simulator."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from controlplane import kinds
from controlplane.admission.admit import admit_update
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import UNJOIN_ANNOTATION
from controlplane.controllers.reads.supposed_snapshot import supposed_snapshot
from controlplane.engine.decision import Decision, deleting
from controlplane.engine.state import Actor
from controlplane.insight.changes import (
    Change,
    ClusterRemoved,
    ClustersDrained,
    ClustersLost,
    Failback,
    ObjectsDeleted,
    PolicyEdited,
    TaintAdded,
)
from controlplane.insight.effects import Affected, Effects
from controlplane.insight.what_if import what_if
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import Policy
from controlplane.kinds.rows import HELD, Eviction
from tests.simulation.manifests import HELD as HOLD
from tests.simulation.outages import wait
from tests.simulation.stories import apply, joined, ready_for_an_hour
from tests.simulation.world import Simulation

MEMBERS = tuple(f"member{number}" for number in range(1, 7))
LONG_ENOUGH = 150  # seconds: every eviction has had its token, and every new copy is healthy
SETTLED = 400  # seconds: no reservation of capacity is left that expires in the middle of a story
GONE = Taint("example.com/gone", "NoExecute")
Placed = dict[str, int]


def workload(name: str, replicas: int, namespace: str, labels: dict[str, str]) -> dict[str, Any]:
    container = {"name": "app", "image": "nginx"}
    selector = {"matchLabels": {"app": name}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


def placement(chance: random.Random) -> dict[str, Any]:
    """Return a placement of any kind on some of the members."""
    names = chance.sample(MEMBERS, chance.randint(2, len(MEMBERS)))
    division: dict[str, Any] = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
    how = chance.choice(["duplicated", "everywhere", "static", "dynamic", "aggregated", "spread"])
    made: dict[str, Any] = {"clusterAffinity": {"clusterNames": names}}
    if how == "duplicated":
        most = chance.randint(1, len(names))
        made["spreadConstraints"] = [{"minGroups": chance.randint(1, most), "maxGroups": most}]
    elif how == "static":
        rules = [{"targetCluster": {"clusterNames": [one]}, "weight": chance.randint(1, 3)} for one in names]
        made["replicaScheduling"] = {**division, "weightPreference": {"staticWeightList": rules}}
    elif how == "dynamic":
        made["replicaScheduling"] = {**division, "weightPreference": {"dynamicWeight": "AvailableReplicas"}}
    elif how in ("aggregated", "spread"):
        made["replicaScheduling"] = {**division, "replicaDivisionPreference": "Aggregated"}
        if how == "spread":
            made["spreadConstraints"] = [{"minGroups": 1, "maxGroups": 2}]
    if chance.random() < 0.3:
        toleration: dict[str, Any] = {"operator": "Exists", "effect": "NoExecute"}
        toleration |= {} if chance.random() < 0.5 else {"tolerationSeconds": chance.randint(0, 20)}
        made["clusterTolerations"] = [toleration]
    return made


def policy(name: str, namespace: str, chance: random.Random) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}],
        "placement": placement(chance),
    }
    if chance.random() < 0.3:
        spec["failover"] = {"cluster": {"purgeMode": chance.choice(["Directly", "Gracefully"]), "tolerationSeconds": 3}}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def fleet(seed: int) -> Simulation:
    """Return a simulation with random workloads, placements, holds and room, in which nothing is going on."""
    chance = random.Random(seed)
    world = joined(*MEMBERS, seed=seed, pods=chance.choice([12, 20, 1000]))
    for member in world.members.values():
        member.reports_pods = True
    apply(world, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    for number in range(8):
        name, namespace = f"app{number}", chance.choice(["default", "shop"])
        labels = {"app": "nginx" if chance.random() < 0.15 else name}
        apply(world, policy(name, namespace, chance), workload(name, chance.randint(1, 6), namespace, labels))
    if chance.random() < 0.5:
        apply(world, HOLD)
    wait(world, SETTLED)
    return world


class Case(NamedTuple):
    """A change: as `what_if` reads it, and how it is made in the simulator."""

    change: Change
    make: Callable[[Simulation], None]


def lost(world: Simulation, *names: str) -> Case:
    def make(world: Simulation) -> None:
        for name in names:
            world.fault(name, "down")

    return Case(ClustersLost(names), make)


def drained(world: Simulation, name: str) -> Case:
    drain = {
        "apiVersion": "failover.lifeboat.io/v1alpha1",
        "kind": "Drain",
        "metadata": {"name": "upgrade"},
        "spec": {"cluster": name, "rate": 0.5},
    }
    return Case(ClustersDrained((name,)), lambda world: apply(world, drain))


def tainted(world: Simulation, name: str) -> Case:
    def make(world: Simulation) -> None:
        old = world.store.objects[Ref(kinds.CLUSTER, "", name)]
        assert not world.store.put(old.with_spec(taints=(*old.spec.taints, GONE)), old).lost

    return Case(TaintAdded(name, GONE), make)


def removed(world: Simulation, name: str) -> Case:
    def make(world: Simulation) -> None:
        old = world.store.objects[Ref(kinds.CLUSTER, "", name)]
        kept = old.with_meta(annotations={**old.metadata.annotations, UNJOIN_ANNOTATION: "keep"})
        assert not world.store.put(kept.with_meta(deletion_timestamp=world.now), old).lost

    return Case(ClusterRemoved(name, "keep"), make)


def edited(world: Simulation) -> Case:
    """The policy of a workload gets another placement."""
    old: Policy = min(world.store.list(kinds.PROPAGATION_POLICY), key=lambda one: one.metadata.name)
    chance = random.Random(world.seed + 1)
    document = policy(old.metadata.name, old.metadata.namespace, chance)

    def make(world: Simulation) -> None:
        world.excused[old.metadata.name] = world.now + timedelta(hours=1)
        new = admit_update(kinds.KINDS[kinds.PROPAGATION_POLICY], document, old, settings=world.settings, now=world.now)
        assert not world.store.put(new.object, old).lost

    return Case(PolicyEdited(document), make)


def returned(world: Simulation) -> Case:
    """What has left a cluster that failed returns to it."""
    world.fault("member1", "down")
    wait(world, 60)
    world.fault("member1", "none")
    wait(world, 60)
    ready_for_an_hour(world)
    failback = {
        "apiVersion": "failover.lifeboat.io/v1alpha1",
        "kind": "Failback",
        "metadata": {"name": "home"},
        "spec": {"cluster": "member1", "rate": 0.5},
    }
    return Case(Failback("member1"), lambda world: apply(world, failback))


def deleted(world: Simulation) -> Case:
    """A workload is deleted."""
    template = world.store.list("apps/Deployment")[0]

    def make(world: Simulation) -> None:
        world.excused[template.metadata.name] = world.now + timedelta(hours=1)
        decision = Decision(changes=(deleting(template, now=world.now),))
        assert not world.store.apply([(None, decision)], by=Actor("jane"))[0].lost

    return Case(ObjectsDeleted((str(template.ref),)), make)


def bindings(world: Simulation) -> dict[str, Binding]:
    return {str(one.ref): one for one in world.store.list(kinds.RESOURCE_BINDING)}


def placed(binding: Binding) -> Placed:
    return {target.name: target.replicas for target in binding.spec.clusters}


def foreseen(before: Placed, move: Affected | None) -> Placed:
    """Return where a binding is after a move."""
    if move is None:
        return before
    after = {name: count - move.from_.get(name, 0) for name, count in before.items()}
    after |= {name: after.get(name, 0) + count for name, count in move.to.items()}
    return {name: count for name, count in after.items() if count}


def ask(world: Simulation, change: Change) -> Effects:
    snapshot = supposed_snapshot(world.store, [change], settings=world.settings, base=world.settings, now=world.now)
    return what_if(snapshot, [change], world.settings, now=world.now)


def compare(world: Simulation, answer: Effects, before: dict[str, Placed]) -> None:
    """Assert that every binding is where the answer places it, and that those without a place are held for that."""
    moves, gone = {one.binding: one for one in (*answer.moves, *answer.placed)}, {one.binding for one in answer.removed}
    after = {name: placed(one) for name, one in bindings(world).items()}
    expected = {name: foreseen(where, moves.get(name)) for name, where in before.items()}
    expected = {name: where for name, where in expected.items() if name not in gone}
    differing = [name for name in {*after, *expected} if after.get(name) != expected.get(name)]
    assert {name: after.get(name) for name in differing} == {name: expected.get(name) for name in differing}


CASES: dict[str, Callable[[Simulation], Case]] = {
    "one cluster lost": lambda world: lost(world, "member1"),
    "two clusters lost": lambda world: lost(world, "member2", "member3"),
    "a drain": lambda world: drained(world, "member1"),
    "a taint": lambda world: tainted(world, "member4"),
    "a cluster removed": lambda world: removed(world, "member5"),
    "a policy edited": edited,
    "a failback": returned,
    "a workload deleted": deleted,
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(2))
def test_what_is_answered_is_what_then_happens(seed: int, case: str) -> None:
    world = fleet(seed)
    asked = CASES[case](world)
    before = {name: placed(one) for name, one in bindings(world).items()}

    answer = ask(world, asked.change)
    asked.make(world)
    wait(world, LONG_ENOUGH)

    compare(world, answer, before)
    if isinstance(asked.change, ClustersLost | TaintAdded):
        rows = [row for rows in world.store.rows(Eviction, "state", [HELD]).values() for row in rows]
        stuck = {(one.binding, name) for one in (*answer.without_place, *answer.held) for name in one.from_}
        assert {(row.binding, row.cluster) for row in rows} == stuck
