"""The page on resource models and the ledger as whole stories: nodes and pods of members are collected, estimated and
scheduled by."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, condition
from controlplane.engine.decision import Decision, deleting
from controlplane.engine.state import Actor
from controlplane.kinds.binding import SCHEDULED
from controlplane.kinds.rows import FleetNames, PlacementNote
from controlplane.scheduling.placement_explanation import explained
from controlplane.settings import GATES, Settings
from tests.guide_fleet import ANYWHERE, ON_ONE_CLUSTER, TABLES, Row, pod
from tests.simulation.manifests import NGINX
from tests.simulation.member import Member
from tests.simulation.stories import NGINX_BINDING, QUICK, apply, placed, with_members
from tests.simulation.world import Simulation

WITHOUT_MODELS = replace(QUICK, feature_gates={**GATES, "CustomizedClusterResourceModeling": False})
SILENT = replace(QUICK, cluster_status_update_frequency=100_000)
"""Members report once, when they join."""


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
    world = with_members(*members, settings=settings, **how)
    world.run(90 if world.kill_rate else 10)
    return world


@pytest.mark.parametrize("row", TABLES)
def test_from_nodes_and_pods_to_the_cluster_the_guide_prefers(row: Row) -> None:
    members = [Stocked(name, nodes=shown.nodes, there=shown.pods) for name, shown in row.clusters.items()]
    world = world_of(*members, settings=QUICK if row.graded else WITHOUT_MODELS)
    asked = f"image: nginx\n        resources: {{requests: {json.dumps(row.requests)}}}"

    apply(world, ON_ONE_CLUSTER, (NGINX % 1).replace("image: nginx", asked))
    world.run(30)

    assert placed(world) == {row.preferred: 1}
    assert seen(world) == row.room


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
    apply(world, ANYWHERE)
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
def test_four_workers_that_die_at_any_write_reserve_no_room_twice(seed: int, settings: Settings) -> None:
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
