"""Capacity from members over HTTP to placements, and that it is given away once, with real workers that are killed."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from msgspec import convert

from controlplane import kinds
from controlplane.apimachinery.meta import condition
from controlplane.engine.decision import Decision, Put
from controlplane.engine.state import Actor
from controlplane.kinds.binding import SCHEDULED
from controlplane.kinds.cluster import ResourceModel
from controlplane.kinds.rows import FleetNames, PlacementNote
from controlplane.scheduling.placement_explanation import explained
from tests.apps.stack import WITHIN, Stack, deployment, stack
from tests.guide_fleet import ANYWHERE, ON_ONE_CLUSTER, TABLES, THREE_GRADES, Row, Shown, node
from tests.processes import Process, family, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
ROOM = {"member1": 10, "member2": 5}
ONCE = "3600"  # seconds between two looks at a member: it reports when it joins, and not again


def stock(running: Stack, clusters: Mapping[str, Shown]) -> None:
    """Let members have these nodes and pods and no others."""
    for name, shown in clusters.items():
        for there in running.member(name, "GET", NODES)["items"]:
            running.member(name, "DELETE", f"{NODES}/{there['metadata']['name']}")
        for one in shown.nodes:
            made = running.member(name, "POST", NODES, {"apiVersion": "v1", "kind": "Node", **one})
            running.member(name, "PUT", f"{NODES}/{one['metadata']['name']}/status", {**made, "status": one["status"]})
        for one in shown.pods:
            running.member(name, "POST", PODS, {"apiVersion": "v1", "kind": "Pod", **one})


def asking(name: str, requests: dict[str, str]) -> str:
    """Return the manifest of a Deployment of one replica that asks for so much."""
    manifest = yaml.safe_load(deployment(name))
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": requests}
    return yaml.safe_dump(manifest)


def room(running: Stack, name: str) -> tuple[int | None, ...]:
    """Return the room per cluster that the decision about a Deployment kept."""
    ref = running.binding(name).ref
    note: PlacementNote = running.store.rows(PlacementNote, "key", [str(ref)])[str(ref)][0]
    names: FleetNames = running.store.rows(FleetNames, "key", [note.fleet])[note.fleet][0]
    return tuple(one.capacity for one in explained(ref, note, names, {}).clusters)


@pytest.mark.parametrize("row", TABLES[:2], ids=lambda row: "/".join(map(str, row.room)))
def test_the_guides_tables_from_nodes_over_http(row: Row, tmp_path: Path, redis_url: str, redis_client: object) -> None:
    gates = f"Failover=true,CustomizedClusterResourceModeling={json.dumps(row.graded)}"
    with stack(tmp_path, redis_url, *row.clusters, feature_gates=gates) as running:
        stock(running, row.clusters)
        running.up()
        running.join(*row.clusters)

        running.create(ON_ONE_CLUSTER)
        running.create(asking("web", row.requests))

        until(lambda: running.placed("web") == {row.preferred: 1}, within=WITHIN)
        assert room(running, "web") == row.room
        until(lambda: running.healthy("web") == {row.preferred}, within=WITHIN)


def test_nodes_are_graded_by_the_clusters_own_models(tmp_path: Path, redis_url: str, redis_client: object) -> None:
    sizes = {"member1": ("500m", "2Gi"), "member2": ("1500m", "10Gi")}
    with stack(tmp_path, redis_url, *sizes) as running:
        stock(running, {name: Shown([node("only", *size)], []) for name, size in sizes.items()})
        running.up()
        running.join(*sizes)
        models = convert(THREE_GRADES, tuple[ResourceModel, ...])
        for name in sizes:
            until(lambda name=name: _with_models(running, name, models), within=WITHIN)

        until(lambda: graded(running, "member1") == {0: 1}, within=WITHIN)
        until(lambda: graded(running, "member2") == {1: 1}, within=WITHIN)


def _with_models(running: Stack, name: str, models: tuple[ResourceModel, ...]) -> bool:
    """Give a cluster models as its owner does; False where another write was faster."""
    old = running.cluster(name)
    new = old.with_spec(resource_models=models)
    return not running.store.apply([(None, Decision(changes=(Put(new, old),)))], by=Actor("jane"))[0].lost


def graded(running: Stack, name: str) -> dict[int, int]:
    """Return how many nodes of a cluster are of which grade."""
    summary = running.cluster(name).status.resource_summary
    if summary is None:
        return {}
    return {one.grade: one.count for one in summary.allocatable_modelings if one.count}


# The ledger: fifteen workloads of one replica, 10 free on member1, 5 free on member2


@pytest.fixture
def ledger(request: pytest.FixtureRequest, tmp_path: Path, redis_url: str, redis_client: object) -> Iterator[Stack]:
    """Two small members that have reported; `request.param`: seconds between two reports."""
    with stack(tmp_path, redis_url, *ROOM, cluster_status_update_frequency=request.param) as running:
        stock(running, {name: Shown([node("only", "64", "256Gi", pods=pods)], []) for name, pods in ROOM.items()})
        with running.processes.at_once():
            running.processes.members()
            running.processes.beat()
            first = running.processes.worker("first")
        running.join(*ROOM)
        running.create(ANYWHERE)
        running.processes.end(first, by=signal.SIGKILL)
        yield running


@pytest.mark.parametrize(
    ("ledger", "workers"),
    [(ONCE, 1), (ONCE, 4), ("0.5", 4)],
    indirect=["ledger"],
    ids=["1 worker, no report", "4 workers, no report", "4 workers, reports twice a second"],
)
def test_workers_killed_at_any_moment_reserve_no_room_twice(ledger: Stack, workers: int) -> None:
    chance = random.Random(4711)
    with ledger.processes.at_once():
        crowd = {f"worker{number}": ledger.processes.worker(f"worker{number}") for number in range(workers)}
    names = [f"web-{number:02}" for number in range(1, 16)]

    for first in range(0, len(names), 3):
        ledger.create("\n---\n".join(deployment(name) for name in names[first : first + 3]))
        holder = until(lambda: _scheduling(ledger, crowd), within=WITHIN, every=0.01)
        _pass(chance.uniform(0.0, 0.3))
        os.killpg(crowd[holder].pid, signal.SIGKILL)
        crowd[holder].wait()
        crowd[holder] = ledger.processes.worker(holder)

    until(lambda: counted(ledger) == ROOM, within=WITHIN)
    ledger.create(deployment("web-16"))
    until(lambda: held(ledger) == ["web-16-deployment"], within=WITHIN)
    assert counted(ledger) == ROOM
    assert all(counts[name] <= ROOM[name] for counts in _history(ledger) for name in ROOM)


def _scheduling(running: Stack, crowd: Mapping[str, Process]) -> str:
    """Return which worker has the lease on scheduling; "" for none."""
    holder = running.holders().get("scheduling", "")
    return next((name for name, process in crowd.items() if any(f":{pid}:" in holder for pid in family(process))), "")


def counted(running: Stack) -> dict[str, int]:
    """Count the replicas that bindings have on each cluster."""
    bindings = running.store.list(kinds.RESOURCE_BINDING)
    return dict(sum((Counter({one.name: one.replicas for one in b.spec.clusters}) for b in bindings), Counter()))


def held(running: Stack) -> list[str]:
    """Return the bindings that wait for room."""
    said = {
        one.metadata.name: condition(one.status.conditions, SCHEDULED)
        for one in running.store.list(kinds.RESOURCE_BINDING)
    }
    return [name for name, one in said.items() if one is not None and one.reason == "Unschedulable"]


def _history(running: Stack) -> Iterator[Counter[str]]:
    """Yield how many replicas bindings had on each cluster, after each change there ever was."""
    placed: dict[str, Counter[str]] = {}
    for change in running.changes():
        if change.ref.kind == kinds.RESOURCE_BINDING:
            spec = json.loads(change.document)["spec"] if change.type != "DELETED" else {}
            placed[change.ref.name] = Counter({one["name"]: one["replicas"] for one in spec.get("clusters", ())})
            yield sum(placed.values(), Counter())


def _pass(seconds: float) -> None:
    ends = time.monotonic() + seconds
    until(lambda: time.monotonic() >= ends, within=WITHIN, every=0.01)
