"""What `what_if` answers then happens: a question about a seeded fleet, and the same change in the simulator."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
import yaml
from msgspec.structs import replace

from controlplane import kinds
from controlplane.admission.admit import admit_update
from controlplane.apimachinery.meta import ObjectMeta, Ref
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
    GateOrRateChanged,
    HoldEdited,
    ObjectsDeleted,
    PolicyEdited,
    Rescheduled,
    TaintAdded,
)
from controlplane.insight.effects import Affected, Effects
from controlplane.insight.what_if import what_if
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Taint
from controlplane.kinds.configuration import FailoverConfiguration
from controlplane.kinds.policy import Policy
from controlplane.kinds.rows import HELD, QUEUED, Eviction
from controlplane.kinds.workload_rebalancer import WorkloadSelector
from controlplane.settings.checks import with_overrides
from tests.simulation.manifests import HELD as HOLD
from tests.simulation.manifests import NOT_READY_MEANS_LEAVE
from tests.simulation.outages import wait
from tests.simulation.stories import QUICK, apply, joined, ready_for_an_hour
from tests.simulation.world import Simulation

MEMBERS = tuple(f"member{number}" for number in range(1, 7))
LONG_ENOUGH = 150  # seconds: every eviction has had its token, and every new copy is healthy
SETTLED = 400  # seconds: no reservation of capacity is left that expires in the middle of a story
STOPPED: dict[str, float] = {"resourceEvictionRate": 0.0, "secondaryResourceEvictionRate": 0.0}
RATES: dict[str, float] = {"resourceEvictionRate": 0.5, "secondaryResourceEvictionRate": 0.2}
SOON = 10  # seconds between the last token and the last new placement
OURS = "failover.lifeboat.io/v1alpha1"
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
    """Changes: as `what_if` reads them, and how they are made in the simulator."""

    changes: Change | tuple[Change, ...]
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


def rebalanced(world: Simulation) -> Case:
    """A cluster was lost and is back. The scheduler then chooses again for every Deployment."""
    world.fault("member1", "down")
    wait(world, 120)
    world.fault("member1", "none")
    wait(world, 120)
    document = {
        "apiVersion": "apps.karmada.io/v1alpha1",
        "kind": "WorkloadRebalancer",
        "metadata": {"name": "again"},
        "spec": {"workloadSelector": {"apiVersion": "apps/v1", "kind": "Deployment"}},
    }
    change = Rescheduled(workload_selector=WorkloadSelector("apps/v1", "Deployment"))

    def make(world: Simulation) -> None:
        for one in bindings(world).values():
            world.excused[one.spec.resource.name] = world.now + timedelta(hours=1)
        apply(world, document)

    return Case(change, make)


def deleted(world: Simulation) -> Case:
    """A workload is deleted."""
    template = world.store.list("apps/Deployment")[0]

    def make(world: Simulation) -> None:
        world.excused[template.metadata.name] = world.now + timedelta(hours=1)
        decision = Decision(changes=(deleting(template, now=world.now),))
        assert not world.store.apply([(None, decision)], by=Actor("jane"))[0].lost

    return Case(ObjectsDeleted((str(template.ref),)), make)


def configure(world: Simulation, **spec: Any) -> None:
    """Give FailoverConfiguration/default this spec, as a user does."""
    ref = Ref(kinds.FAILOVER_CONFIGURATION, "", "default")
    old = world.store.get([ref]).get(ref)
    meta = ObjectMeta(name=ref.name, uid="uid-settings") if old is None else old.metadata
    new = FailoverConfiguration(OURS, "FailoverConfiguration", replace(meta, generation=meta.generation + 1), spec)
    world.settings = with_overrides(QUICK, spec)
    assert not world.store.put(new, old).lost


def configured(world: Simulation, **spec: Any) -> Case:
    return Case(GateOrRateChanged(spec), lambda world: configure(world, **spec))


def gate(*, on: bool) -> dict[str, Any]:
    return {"featureGates": {"Failover": on}}


def opened(world: Simulation) -> Case:
    """The gate is opened while a cluster is down."""
    configure(world, **gate(on=False))
    world.fault("member1", "down")
    wait(world, 60)
    return configured(world, **gate(on=True))


def closed(world: Simulation) -> Case:
    """The gate is closed while evictions wait for tokens."""
    _queue_up(world, **gate(on=True))
    return configured(world, **gate(on=False), **STOPPED)


def faster(world: Simulation) -> Case:
    """The rates are raised while evictions wait for tokens."""
    _queue_up(world)
    return configured(world, **RATES)


def slower(world: Simulation) -> Case:
    """A cluster is lost at once with a change of the rates that stops evictions."""
    world.fault("member1", "down")
    wait(world, 6)  # it is not Ready, and has no taint that evicts yet
    return configured(world, **STOPPED)


def tightened(world: Simulation) -> Case:
    """A ClusterTaintPolicy evicts after 5 s instead of an hour, while a cluster is down."""
    document = taint_policy(after=3600)
    edit(world, document)
    world.fault("member1", "down")
    wait(world, 60)
    return policy_edit(taint_policy(after=5))


def loosened(world: Simulation) -> Case:
    """A ClusterTaintPolicy demands another condition, while evictions because of its taint wait for tokens."""
    _queue_up(world)
    return policy_edit(taint_policy(after=5, condition="SomethingElse"))


def held(world: Simulation) -> Case:
    """A hold of a namespace is made, and the rates are raised, while evictions wait for tokens."""
    _queue_up(world)
    document = {
        "apiVersion": OURS,
        "kind": "EvictionHold",
        "metadata": {"name": "freeze"},
        "spec": {"reason": "change freeze", "namespaces": ["shop"]},
    }

    def make(world: Simulation) -> None:
        apply(world, document)
        configure(world, **RATES)

    return Case((HoldEdited(document), GateOrRateChanged(RATES)), make)


def _queue_up(world: Simulation, **spec: Any) -> None:
    """Lose a cluster while no evictions take place, so that they wait."""
    configure(world, **spec, **STOPPED)
    world.fault("member1", "down")
    wait(world, 60)


def taint_policy(*, after: int, condition: str = "Ready") -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(NOT_READY_MEANS_LEAVE)
    document["spec"]["matchConditions"][0]["conditionType"] = condition
    document["spec"]["taintsToAdd"][0]["addOnMatchSeconds"] = after
    return document


def edit(world: Simulation, document: dict[str, Any]) -> None:
    """Store an edit of a ClusterTaintPolicy."""
    old = world.store.objects[Ref(kinds.CLUSTER_TAINT_POLICY, "", document["metadata"]["name"])]
    new = admit_update(kinds.KINDS[kinds.CLUSTER_TAINT_POLICY], document, old, settings=world.settings, now=world.now)
    assert not world.store.put(new.object, old).lost


def policy_edit(document: dict[str, Any]) -> Case:
    return Case(PolicyEdited(document), lambda world: edit(world, document))


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


def ask(world: Simulation, asked: Case) -> Effects:
    changes = asked.changes if isinstance(asked.changes, tuple) else (asked.changes,)
    snapshot = supposed_snapshot(world.store, changes, settings=world.settings, base=world.settings, now=world.now)
    return what_if(snapshot, changes, world.settings, now=world.now)


def compare(world: Simulation, answer: Effects, before: dict[str, Placed]) -> None:
    """Assert that every binding is where the answer places it, and that those without a place are held for that."""
    moves, gone = {one.binding: one for one in (*answer.moves, *answer.placed)}, {one.binding for one in answer.removed}
    after = {name: placed(one) for name, one in bindings(world).items()}
    expected = {name: foreseen(where, moves.get(name)) for name, where in before.items()}
    expected = {name: where for name, where in expected.items() if name not in gone}
    differing = [name for name in {*after, *expected} if after.get(name) != expected.get(name)]
    assert {name: after.get(name) for name in differing} == {name: expected.get(name) for name in differing}


CASES: dict[str, Callable[[Simulation], Case]] = {
    "everything is scheduled again": rebalanced,
    "one cluster lost": lambda world: lost(world, "member1"),
    "two clusters lost": lambda world: lost(world, "member2", "member3"),
    "a drain": lambda world: drained(world, "member1"),
    "a taint": lambda world: tainted(world, "member4"),
    "a cluster removed": lambda world: removed(world, "member5"),
    "a policy edited": edited,
    "a failback": returned,
    "a workload deleted": deleted,
    "the gate opened": opened,
    "the gate closed": closed,
    "the rates raised": faster,
    "the rates set to nothing": slower,
    "a taint policy tightened": tightened,
    "a taint policy loosened": loosened,
    "a hold made": held,
}


MOVING = ("the gate opened", "the rates raised", "a taint policy tightened", "a hold made")
ENDING = ("the gate closed", "a taint policy loosened")
STICKING = ("one cluster lost", "two clusters lost", "a taint", *MOVING)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_answered_is_what_then_happens(seed: int, case: str) -> None:
    world = fleet(seed)
    asked = CASES[case](world)
    before = {name: placed(one) for name, one in bindings(world).items()}

    answer = ask(world, asked)
    asked.make(world)
    if case in MOVING:  # the estimate holds as well
        assert answer.moves or answer.held, "the question is about something"
        wait(world, (answer.eta_seconds or 0.0) + SOON)
        compare(world, answer, before)
    wait(world, LONG_ENOUGH)

    compare(world, answer, before)
    if case in ENDING:
        queued = [row for rows in world.store.rows(Eviction, "state", [QUEUED]).values() for row in rows]
        assert answer.cancelled
        assert not [row for row in queued if row.due_at is not None]
    if case in STICKING:
        rows = [row for rows in world.store.rows(Eviction, "state", [HELD]).values() for row in rows]
        stuck = {(one.binding, name) for one in (*answer.without_place, *answer.held) for name in one.from_}
        assert {(row.binding, row.cluster) for row in rows} == stuck
