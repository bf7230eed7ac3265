"""The user stories of the proposal and the scenarios of the failover guide, by name."""

from __future__ import annotations

import random

import pytest
import yaml

from controlplane import kinds
from controlplane.apimachinery.meta import Condition, Ref, with_condition
from controlplane.controllers.reads.fleet_state import fleet_state
from controlplane.engine.decision import Decision, deleting
from controlplane.engine.state import Actor
from controlplane.insight.failure_outlook import FailureOutlook, Situation
from controlplane.insight.readiness import readiness
from controlplane.kinds.cluster import Cluster, Taint
from tests.simulation.manifests import NGINX, NOT_READY_MEANS_LEAVE
from tests.simulation.stories import apply, binding, joined, placed, running
from tests.simulation.world import Simulation

SEEDS = range(2)
FIVE = tuple(f"member{number}" for number in range(1, 6))
TAINTING = Ref(kinds.CLUSTER_TAINT_POLICY, "", "detect-cluster-not-ready")

POLICY = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: %s
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: %s}]
  placement: %s
  failover: %s
"""
ONE = "{spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]}"
STAYS = "{clusterTolerations: [{key: cluster.karmada.io/not-ready, operator: Exists, effect: NoExecute}], "
STAYS += "spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]}"
MOVES = "{cluster: {tolerationSeconds: 0}}"


def deploy(world: Simulation, name: str, placement: str = ONE, failover: str = "null", replicas: int = 2) -> None:
    policy = yaml.safe_load(POLICY % (name, name, placement, failover))
    if policy["spec"]["failover"] is None:
        del policy["spec"]["failover"]
    apply(world, yaml.safe_dump(policy), (NGINX % replicas).replace("nginx", name))


def at(name: str) -> Ref:
    return Ref(kinds.RESOURCE_BINDING, "default", f"{name}-deployment")


def left(world: Simulation, names: list[str], home: str) -> set[str]:
    """Those of the workloads that are no longer placed on their cluster."""
    return {name for name in names if home not in placed(world, at(name))}


def prefer_no_execute(world: Simulation, condition_type: str) -> None:
    """Taint with PreferNoExecute on a condition instead of NoExecute on Ready."""
    old = world.store.get([TAINTING])[TAINTING]
    world.store.apply([(None, Decision(changes=(deleting(old, now=world.now),)))], by=Actor("test"))
    text = NOT_READY_MEANS_LEAVE.replace("Ready", condition_type).replace("NoExecute", "PreferNoExecute")
    apply(world, text.replace("detect-cluster-not-ready", "detect-partial-failure"))


def report(world: Simulation, name: str, type_: str, status: str) -> None:
    """Write a condition as a third party does."""
    ref = Ref(kinds.CLUSTER, "", name)
    old: Cluster = world.store.get([ref])[ref]
    conditions = with_condition(old.status.conditions, Condition(type_, status, "Test"), now=world.now)
    world.store.put(old.with_status(conditions=conditions), old)


def test_story_1_an_operator_sees_switch_rule_and_strategy_at_a_glance() -> None:
    world = joined(*FIVE)
    deploy(world, "patient", failover="{cluster: {tolerationSeconds: 100}}")
    deploy(world, "stays", STAYS)
    world.run(30)
    policies = world.store.list(kinds.CLUSTER_TAINT_POLICY)
    now = Situation(world.store.list(kinds.CLUSTER), policies, fleet_state(world.store))
    outlook = FailureOutlook(now, world.settings, now=world.now)

    patient = readiness(binding(world, at("patient")), outlook)
    stays = readiness(binding(world, at("stays")), outlook)

    assert patient.ready
    assert patient.prospects[0].after_seconds == 0.0
    assert [one.what for one in stays.obstacles] == ["Tolerated"]
    assert "not-ready" in stays.obstacles[0].message


@pytest.mark.parametrize("seed", SEEDS)
def test_story_2_a_hard_failure_moves_all_but_those_that_tolerate_it(seed: int) -> None:
    world = joined(*FIVE, seed=seed)
    names = [f"app{number}" for number in range(6)]
    for name in names:
        deploy(world, name, STAYS if name == "app0" else ONE)
    world.run(30)
    here = [name for name in names if "member1" in placed(world, at(name))] or names
    home = next(iter(placed(world, at(here[0]))))
    here = [name for name in names if home in placed(world, at(name))]

    world.fault(home, "down")
    world.run(120)

    assert left(world, here, home) == set(here) - {"app0"}
    assert world.failures == []


@pytest.mark.parametrize("seed", SEEDS)
def test_story_2_a_partial_failure_moves_only_those_that_ask_for_it(seed: int) -> None:
    world = joined(*FIVE, seed=seed)
    prefer_no_execute(world, "GPUHealthy")
    only = "{clusterAffinity: {clusterNames: [member1, member2]}, spreadConstraints: [{maxGroups: 1, minGroups: 1}]}"
    for name in ("gpu", "web", "db"):
        deploy(world, name, only, MOVES if name == "gpu" else "null")
    world.run(30)
    home = next(iter(placed(world, at("gpu"))))

    report(world, home, "GPUHealthy", "False")
    world.run(90)

    assert left(world, ["gpu", "web", "db"], home) & {"gpu"} == {"gpu"}
    for name in ("web", "db"):
        assert not binding(world, at(name)).spec.graceful_eviction_tasks


def test_story_3_of_a_hundred_workloads_95_stay_and_5_move() -> None:
    world = joined(*FIVE)
    prefer_no_execute(world, "Ready")
    pinned = "{clusterAffinity: {clusterNames: [member1]}}"
    elsewhere = "{clusterAffinities: [{affinityName: home, clusterNames: [member1]}, {affinityName: away}]}"
    names = [f"app{number:02}" for number in range(100)]
    moving = set(names[::20])
    for name in names:
        deploy(world, name, elsewhere if name in moving else pinned, MOVES if name in moving else "null", replicas=1)
    world.run(40)
    assert all("member1" in placed(world, at(name)) for name in names)

    world.fault("member1", "down")
    world.run(160)

    assert left(world, names, "member1") == moving
    assert world.failures == []


FOO = {
    "Duplicated": "{spreadConstraints: [{minGroups: 2, maxGroups: 2}], %s}",
    "StaticWeight": "{%s, replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}}",
    "DynamicWeight": "{%s, replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, "
    "weightPreference: {dynamicWeight: AvailableReplicas}}}",
    "Aggregated": "{%s, replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}}",
}
THREE = "clusterAffinity: {clusterNames: [member1, member2, member3]}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("division", FOO)
def test_s002_foo_with_four_replicas_leaves_the_failed_cluster(seed: int, division: str) -> None:
    world = joined(*FIVE, seed=seed)
    deploy(world, "foo", FOO[division] % THREE, replicas=4)
    world.run(30)
    before = placed(world, at("foo"))
    home = next(iter(before))

    world.fault(home, "down")
    world.run(120)

    after = placed(world, at("foo"))
    assert home not in after
    assert set(after) <= {"member1", "member2", "member3"}
    assert sum(after.values()) == (8 if division == "Duplicated" else 4)
    assert set(before) - {home} <= set(after)
    assert {name: count for name, count in running(world, "foo").items() if name in after} == after


@pytest.mark.parametrize("seed", SEEDS)
def test_two_failed_clusters_and_one_candidate_move_nothing(seed: int) -> None:
    world = joined(*FIVE, seed=seed)
    deploy(world, "foo", FOO["Duplicated"] % THREE, replicas=4)
    world.run(30)
    before = placed(world, at("foo"))

    for name in before:
        world.fault(name, "down")
    world.run(120)

    assert placed(world, at("foo")) == before
    assert binding(world, at("foo")).spec.graceful_eviction_tasks == ()
    assert world.tokens == []


@pytest.mark.parametrize("seed", SEEDS)
def test_s002_scenario_1_the_instances_of_an_offline_application_move_to_other_clusters(seed: int) -> None:
    world = joined(*FIVE, seed=seed)
    deploy(world, "batch", FOO["DynamicWeight"] % THREE, replicas=9)
    world.run(30)
    assert set(placed(world, at("batch"))) == {"member1", "member2", "member3"}

    world.fault("member1", "down")
    world.run(120)

    after = placed(world, at("batch"))
    assert set(after) == {"member2", "member3"}
    assert sum(after.values()) == 9


ONLINE = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: online
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment, name: server}
  - {apiVersion: apps/v1, kind: StatefulSet, name: database}
  - {apiVersion: v1, kind: ConfigMap, name: settings}
  - {apiVersion: v1, kind: Service, name: server}
  placement:
    spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]
"""
SETTINGS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {mode: online}
"""
SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: server}
spec: {selector: {app: server}, ports: [{port: 80}]}
"""
PARTS = {"server-deployment", "database-statefulset", "settings-configmap", "server-service"}


@pytest.mark.parametrize("how", ["tainted", "drained", "down"])
@pytest.mark.parametrize("seed", range(4))
def test_s002_scenarios_2_and_3_a_whole_application_moves_and_never_stops_serving(seed: int, how: str) -> None:
    """Whatever room there is and in whatever order the parts come; in every second seed workers die on the way.

    Each part for itself would go elsewhere: pods where there is most room, the others by name.
    """
    chance = random.Random(f"application {seed}")
    world = joined(*FIVE, seed=seed, kill_rate=0.02 * (seed % 2))
    rooms = chance.sample([3, 5, 1000, 2000, 3000], len(FIVE))
    for name, room in zip(FIVE, rooms, strict=True):
        world.members[name].pods = room
    world.run(60)
    parts = [ONLINE, SETTINGS, SERVICE, (NGINX % 2).replace("nginx", "server"), DATABASE]
    for number, part in enumerate(chance.sample(parts, len(parts))):
        apply(world, part)
        world.run(60 + number * chance.choice((0, 2)))
    world.run(120)
    (home,) = ends(world)

    if how == "down":
        world.fault(home, "down")
        world.after(150, lambda: world.fault(home, "none"))
    else:
        world.checks.append(serves)
        leave(world, home) if how == "tainted" else apply(world, UPGRADE % home)
    world.run(450)

    (refuge,) = ends(world)
    assert refuge != home
    assert running(world, "server") == {refuge: 2}
    assert not any(place[3] in ("server", "database", "settings") for place in world.members[home].objects)
    assert world.failures == []


DATABASE = (NGINX % 2).replace("nginx", "database").replace("Deployment", "StatefulSet")
DATABASE = DATABASE.replace("  replicas", "  serviceName: database\n  replicas", 1)


def leave(world: Simulation, name: str) -> None:
    """Taint a cluster by hand: what tolerates nothing has to leave it."""
    ref = Ref(kinds.CLUSTER, "", name)
    old: Cluster = world.store.get([ref])[ref]
    gone = Taint("failing", "NoExecute", time_added=world.now)
    world.store.put(old.with_spec(taints=(*old.spec.taints, gone)), old)


UPGRADE = """
apiVersion: failover.lifeboat.io/v1alpha1
kind: Drain
metadata: {name: upgrade}
spec: {cluster: %s, rate: 1, reason: new network}
"""


def ends(world: Simulation) -> set[str]:
    """Return the clusters the parts of the application are on."""
    return {name for part in PARTS for name in placed(world, Ref(kinds.RESOURCE_BINDING, "default", part))}


def serves(world: Simulation) -> None:
    """Ready endpoints never reach 0: somewhere the Service is and ready pods behind it."""
    service = ("v1", "Service", "default", "server")
    ready = {name: count for name, count in running(world, "server").items() if service in world.members[name].objects}
    assert sum(ready.values()) > 0, f"seed {world.seed}: nothing serves at {world.now}, pods {running(world, 'server')}"
