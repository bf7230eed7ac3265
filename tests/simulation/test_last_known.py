"""What comes from a cluster out of reach is its last known state: marked with its age, and counted nowhere."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controlplane.apimachinery.meta import Ref
from controlplane.eviction.state_preservation import read_state
from controlplane.kind import KINDS, to_wire
from controlplane.kinds import CLUSTER, RESOURCE_BINDING
from controlplane.kinds.binding import AggregatedStatusItem
from controlplane.kinds.policy import StatePreservationRule
from tests.simulation.member import DOWN, UNAUTHORIZED
from tests.simulation.outages import DEPLOYMENT, serving, wait
from tests.simulation.stories import binding
from tests.simulation.world import Simulation


def item(world: Simulation) -> AggregatedStatusItem:
    (found,) = binding(world).status.aggregated_status
    return found


def ready(world: Simulation) -> int:
    return int(world.store.objects[DEPLOYMENT].status.get("readyReplicas", 0))


def cells(world: Simulation) -> dict[str, Any]:
    """Return what `kubectl get -o wide` shows of the binding."""
    doc = msgspec.json.decode(msgspec.json.encode(to_wire(binding(world))))
    columns = KINDS[RESOURCE_BINDING].resource.columns
    return {column.name: column.cell(doc, world.now) for column in columns}


@pytest.mark.parametrize("fault", [DOWN, UNAUTHORIZED])
def test_copies_of_a_lost_cluster_are_last_known_until_it_answers_again(fault: str) -> None:
    world = serving("member1")
    assert (ready(world), cells(world)["Healthy"]) == (3, "1/1")
    said = item(world).status

    world.fault("member1", fault)
    wait(world, 60)

    assert ready(world) == 0
    assert (item(world).health, item(world).last_known_health, item(world).status) == ("Unknown", "Healthy", said)
    assert item(world).out_of_reach_since == world.store.objects[Ref(CLUSTER, "", "member1")].out_of_reach_since
    shown = cells(world)
    assert shown["Healthy"] == "0/1"
    assert "member1: out of reach for 5" in shown["Message"]
    assert "last known Healthy" in shown["Message"]

    world.fault("member1", "none")
    wait(world, 60)

    assert (ready(world), cells(world)["Healthy"], cells(world)["Message"]) == (3, "1/1", "")
    assert item(world).out_of_reach_since is None
    assert world.failures == []


def test_state_is_still_read_from_what_a_lost_cluster_said_last() -> None:
    world = serving("member1")
    world.fault("member1", DOWN)
    wait(world, 60)

    kept = read_state(binding(world), "member1", [StatePreservationRule("ready", "{.readyReplicas}")])

    assert (kept.labels, kept.problem) == ({"ready": "3"}, "")
