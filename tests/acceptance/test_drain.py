"""Drain on the running product: it says how far it is, stops and resumes at a word, and gives way to failures
[unjoin-and-drain]."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.live import BINDINGS, CLUSTERS, Live
from tests.acceptance.manifests import on, policy, taint_policy, workload

pytestmark = pytest.mark.slow

DRAINS = "/apis/failover.lifeboat.io/v1alpha1/drains"
NAMES = [f"app-{number}" for number in range(8)]
HOME = "member1"


def drain(rate: float) -> dict[str, Any]:
    return {
        "apiVersion": "failover.lifeboat.io/v1alpha1",
        "kind": "Drain",
        "metadata": {"name": "upgrade"},
        "spec": {"cluster": HOME, "rate": rate, "reason": "new network"},
    }


def status(fleet: Live) -> dict[str, Any]:
    found: dict[str, Any] = fleet.get(f"{DRAINS}/upgrade").get("status") or {}
    return found


def at_home(fleet: Live, ns: str) -> set[str]:
    """Return the bindings placed on the cluster that is emptied."""
    return {
        one["metadata"]["name"]
        for one in fleet.items(BINDINGS.format(ns))
        if any(target["name"] == HOME for target in one["spec"].get("clusters") or ())
    }


def test_a_drain_shows_its_progress_stops_and_resumes(fleet: Live, ns: str) -> None:
    two_terms = {"clusterAffinities": [{"affinityName": "home", "clusterNames": [HOME]}, {"affinityName": "away"}]}
    for name in NAMES:
        fleet.apply(policy(name, two_terms), workload(name), namespace=ns)
    bindings = [f"{name}-deployment" for name in NAMES]
    fleet.until(lambda: at_home(fleet, ns) == set(bindings) and fleet.settled(ns, *bindings))

    fleet.apply(drain(rate=0.5))
    fleet.until(lambda: status(fleet).get("moved", 0) >= 2)
    running = status(fleet)
    fleet.patch(f"{DRAINS}/upgrade", {"spec": {"stop": True}})
    fleet.until(lambda: status(fleet)["phase"] == "Stopped" and fleet.settled(ns, *bindings))
    stopped = at_home(fleet, ns)
    fleet.passes(seconds=3)
    still = at_home(fleet, ns)
    fleet.patch(f"{DRAINS}/upgrade", {"spec": {"stop": False, "rate": 10}})
    fleet.until(lambda: status(fleet)["phase"] == "Finished")

    assert running["phase"] == "Running"
    assert running["moved"] + running["remaining"] == len(NAMES)
    assert 0 < len(stopped) < len(NAMES)
    assert still == stopped
    assert at_home(fleet, ns) == set()
    assert (status(fleet)["moved"], status(fleet).get("remaining", 0)) == (len(NAMES), 0)
    assert status(fleet)["finishTime"]
    assert [one["key"] for one in fleet.taints(HOME)] == ["cluster.karmada.io/unschedulable"]


def test_a_drain_gives_way_while_most_of_the_fleet_is_not_well(fleet: Live, ns: str) -> None:
    fleet.apply(taint_policy(), policy("web", on(HOME, "member2")), workload("web"), namespace=ns)
    fleet.until(lambda: fleet.settled(ns, "web-deployment"))
    fleet.fail("member3", "member4", "member5")
    fleet.until(lambda: not any(fleet.is_ready(name) for name in ("member3", "member4", "member5")))

    fleet.apply(drain(rate=10))
    fleet.until(lambda: status(fleet).get("phase") == "Paused")

    assert "the eviction tier is" in status(fleet)["message"]
    assert HOME in fleet.placed(ns, "web-deployment")
    assert fleet.get(f"{CLUSTERS}/{HOME}")["spec"]["taints"][0]["key"] == "cluster.karmada.io/unschedulable"
