"""S003 and the ledger as whole stories: nodes and pods of members are collected, estimated and scheduled by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane import kinds
from controlplane.decision import Decision, deleting
from controlplane.kinds.binding import SCHEDULED
from controlplane.kinds.rows import FleetNames, PlacementNote
from controlplane.meta import Ref, condition
from controlplane.scheduling.account import explained
from controlplane.settings import GATES, Settings
from controlplane.state import Actor
from tests.simulation.manifests import NGINX, admitted, cluster
from tests.simulation.member import Member
from tests.simulation.stories import NGINX_BINDING, QUICK, apply, placed
from tests.simulation.world import Simulation

WITHOUT_MODELS = replace(QUICK, feature_gates={**GATES, "CustomizedClusterResourceModeling": False})
SILENT = replace(QUICK, cluster_status_update_frequency=100_000)
"""Members report once, when they join."""

POLICY = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: by-room
spec:
  resourceSelectors:
    - apiVersion: apps/v1
      kind: Deployment
  placement:
    spreadConstraints: %s
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference:
        dynamicWeight: AvailableReplicas
"""
ONE_CLUSTER = "[{spreadByField: cluster, minGroups: 1, maxGroups: 1}]"


def node(name: str, cpu: str, memory: str) -> dict[str, Any]:
    ready = [{"type": "Ready", "status": "True"}]
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110"}
    return {"metadata": {"name": name}, "status": {"allocatable": allocatable, "conditions": ready}}


def pod(on: str, requests: dict[str, str]) -> dict[str, Any]:
    containers = [{"name": "main", "resources": {"requests": requests}}]
    return {"metadata": {"name": "p"}, "spec": {"nodeName": on, "containers": containers}, "status": {}}


@dataclass
class Stocked(Member):
    """A member with nodes of its own and pods that are there already; its Deployments' pods run on the first node."""

    nodes: Sequence[dict[str, Any]] = field(default_factory=tuple)
    there: Sequence[dict[str, Any]] = field(default_factory=tuple)

    def _summary(self, *, resources: bool) -> dict[str, Any]:
        body = super()._summary(resources=resources)
        if resources:
            nodes = list(self.nodes) or body["nodes"]
            home = nodes[0]["metadata"]["name"]
            mine = [pod(home, {}) for held in self.objects.values() for _ in range(self._replicas(held.manifest))]
            body |= {"nodes": nodes, "pods": [*self.there, *mine]}
        return body

    @staticmethod
    def _replicas(manifest: dict[str, Any]) -> int:
        replicas: int = manifest["spec"]["replicas"] if manifest["kind"] == "Deployment" else 0
        return replicas


def world_of(*members: Member, settings: Settings, **how: Any) -> Simulation:
    """Return a world whose members have joined and reported."""
    world = Simulation(settings=settings, **how)
    world.members = {member.name: member for member in members}
    world.create(*(admitted(cluster(member.name), settings, now=world.now) for member in members))
    world.run(90 if world.kill_rate else 10)
    return world


def nodes(**by_size: int) -> list[dict[str, Any]]:
    """Return as many nodes of each size, written cpu_memory: c2_16=1 is one node with 2 cpu and 16Gi free."""
    found = []
    for size, many in by_size.items():
        cpu, memory = size[1:].split("_")
        found += [node(f"{size}-{number}", cpu, f"{memory}Gi") for number in range(many)]
    return found


def busy(pods: int, cpu: str) -> list[dict[str, Any]]:
    """Return so many pods on the first node, the first of which asks for that much."""
    return [pod("only", {"cpu": cpu}), *(pod("only", {}) for _ in range(pods - 1))]


def plain() -> list[Member]:
    """Return the guide's three clusters of one node: 3.05 cpu free, 2 cpu free, and no pod slot free."""
    one = [node("only", "4", "16265856Ki")]
    taken = {"member1": busy(11, "950m"), "member2": busy(11, "2"), "member3": busy(110, "2")}
    return [Stocked(name, nodes=one, there=pods) for name, pods in taken.items()]


def modelled() -> list[Member]:
    """Return the guide's three clusters of many nodes."""
    sizes = {"member1": {"c2_16": 1, "c4_32": 6}, "member2": {"c2_16": 4, "c4_32": 4}, "member3": {"c32_256": 1}}
    return [Stocked(name, nodes=nodes(**counts)) for name, counts in sizes.items()]


@pytest.mark.parametrize(
    ("members", "settings", "requests", "room", "preferred"),
    [
        (plain, WITHOUT_MODELS, "resources: {requests: {cpu: 500m}}", (6, 4, 0), "member1"),
        (modelled, QUICK, "resources: {requests: {cpu: 3, memory: 20Gi}}", (7, 8, 10), "member3"),
        (modelled, QUICK, "resources: {requests: {cpu: 3, memory: 60Gi}}", (6, 4, 4), "member1"),
    ],
)
def test_from_nodes_and_pods_to_the_cluster_the_guide_prefers(
    members: Any, settings: Settings, requests: str, room: tuple[int, ...], preferred: str
) -> None:
    world = world_of(*members(), settings=settings)

    apply(world, POLICY % ONE_CLUSTER, (NGINX % 1).replace("image: nginx", f"image: nginx\n        {requests}"))
    world.run(30)

    assert placed(world) == {preferred: 1}
    assert seen(world) == room


def seen(world: Simulation) -> tuple[int | None, ...]:
    """Return the room per cluster that the decision about nginx kept."""
    note: PlacementNote = world.store.rows(PlacementNote, "key", [str(NGINX_BINDING)])[str(NGINX_BINDING)][0]
    names: FleetNames = world.store.rows(FleetNames, "key", [note.fleet])[note.fleet][0]
    return tuple(one.capacity for one in explained(NGINX_BINDING, note, names, {}).clusters)


# The ledger: fifteen workloads of one replica, 10 free on b, 5 free on c


def deployments(first: int, last: int) -> list[str]:
    return [(NGINX % 1).replace("  name: nginx", f"  name: web{number:02}", 1) for number in range(first, last + 1)]


def counted(world: Simulation) -> dict[str, int]:
    """Count the replicas that bindings have on each cluster."""
    counts = dict.fromkeys(sorted(world.members), 0)
    for binding in world.store.list(kinds.RESOURCE_BINDING):
        for target in binding.spec.clusters:
            counts[target.name] += target.replicas
    return counts


def held(world: Simulation) -> list[str]:
    """Return the bindings that wait for room."""
    said = {one.metadata.name: condition(one.status.conditions, SCHEDULED) for one in bindings(world)}
    return [name for name, one in said.items() if one is not None and one.reason == "Unschedulable"]


def bindings(world: Simulation) -> list[Any]:
    return list(world.store.list(kinds.RESOURCE_BINDING))


def never_too_many(world: Simulation) -> None:
    counts = counted(world)
    assert counts["b"] <= 10, f"seed {world.seed}: {counts} at {world.now}"
    assert counts["c"] <= 5, f"seed {world.seed}: {counts} at {world.now}"


def small_fleet(**how: Any) -> Simulation:
    world = world_of(Stocked("b", pods=10), Stocked("c", pods=5), **how)
    world.checks.append(never_too_many)
    apply(world, POLICY % "[]")
    return world


def test_fifteen_workloads_fill_two_clusters_exactly_and_the_sixteenth_is_held() -> None:
    world = small_fleet(settings=SILENT)
    apply(world, *deployments(1, 15))
    world.run(40)
    assert counted(world) == {"b": 10, "c": 5}
    assert held(world) == []

    apply(world, *deployments(16, 16))
    world.run(80)

    assert counted(world) == {"b": 10, "c": 5}
    assert held(world) == ["web16-deployment"]


@pytest.mark.parametrize("settings", [SILENT, QUICK], ids=["no report between", "reports every second"])
@pytest.mark.parametrize("seed", range(12))
def test_four_workers_that_die_at_any_write_promise_no_room_twice(seed: int, settings: Settings) -> None:
    world = small_fleet(settings=settings, seed=seed, workers=4, kill_rate=0.05)

    apply(world, *deployments(1, 16))
    world.run(900 if settings is QUICK else 330)

    assert world.kills > 0
    assert counted(world) == {"b": 10, "c": 5}
    assert len(held(world)) == 1


def test_room_that_is_reported_free_goes_to_the_one_that_waits() -> None:
    world = small_fleet(settings=QUICK)
    apply(world, *deployments(1, 16))
    world.run(60)
    waiting = held(world)
    gone = next(one for one in bindings(world) if one.metadata.name not in waiting)

    ref = Ref("apps/Deployment", "default", gone.spec.resource.name)
    template = world.store.get([ref])[ref]
    world.store.apply([(None, Decision(changes=(deleting(template, now=world.now),)))], by=Actor("jane"))
    world.run(500)

    assert len(waiting) == 1
    assert held(world) == []
    assert sum(counted(world).values()) == 15
