"""After a failover: the record a person reads, the way back, and what readiness had predicted."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest
import yaml

from tests.acceptance.live import BINDINGS, FLEET_READINESS, RECORDS, Live
from tests.acceptance.manifests import on, policy, taint_policy, workload
from tests.processes import PROJECT

pytestmark = pytest.mark.slow

NGINX = "nginx-deployment"
STEPS = ["Seen", "Tainted", "Decided", "Scheduled", "Healthy", "Cleared", "Removed"]


def divided(fleet: Live, ns: str) -> None:
    """The overview's Divided example: member1 has one of three replicas, member2 the others."""
    manifests = list(yaml.safe_load_all((PROJECT / "docs" / "examples" / "divided.yaml").read_text()))
    fleet.apply(taint_policy(add=2), *manifests, namespace=ns)
    fleet.until(lambda: fleet.settled(ns, NGINX))
    assert fleet.placed(ns, NGINX) == {"member1": 1, "member2": 2}


def records(fleet: Live, ns: str) -> list[dict[str, Any]]:
    return fleet.items(RECORDS.format(ns))


def test_a_record_reports_a_failover_with_seconds_and_without_events(fleet: Live, ns: str) -> None:
    divided(fleet, ns)
    fleet.fail("member1")
    fleet.until(lambda: fleet.placed(ns, NGINX) == {"member2": 3})
    fleet.until(lambda: fleet.settled(ns, NGINX))
    fleet.heal("member1")
    fleet.until(lambda: records(fleet, ns)[0]["status"]["steps"][-1]["what"] == "Removed")
    (before,) = records(fleet, ns)
    name = before["metadata"]["name"]

    events = f"/api/v1/namespaces/{ns}/events"
    everywhere = [f"/api/v1/namespaces/{one['metadata']['name']}/events" for one in fleet.items("/api/v1/namespaces")]
    assert fleet.items(events)
    for path in everywhere:
        assert fleet.ask("DELETE", path).status == 200
    after = fleet.get(f"{RECORDS.format(ns)}/{name}")

    reported = before["status"]
    assert reported == after["status"]
    assert [one["name"] for one in reported["left"]] == ["member1"]
    assert reported["after"] == [{"name": "member2", "replicas": 3}]
    whats = [step["what"] for step in reported["steps"]]
    assert [one for one in dict.fromkeys(whats) if one != "WaitedFor"] == STEPS
    assert all(sooner["seconds"] <= later["seconds"] for sooner, later in pairwise(reported["steps"]))
    first, last = (datetime.fromisoformat(reported["steps"][place]["at"]) for place in (0, -1))
    assert reported["steps"][-1]["seconds"] == pytest.approx((last - first).total_seconds(), abs=0.01)
    durations = reported["durations"]
    assert (
        durations["detected"] >= 1.0
    )  # the policy's window of two seconds, as far as Kubernetes' whole seconds can say
    assert durations["total"] >= durations["detected"] + durations["scheduled"] + durations["started"]
    assert all(step["by"] and step["version"] for step in reported["steps"])


def test_revert_takes_a_binding_back_to_where_it_was(fleet: Live, ns: str) -> None:
    divided(fleet, ns)
    path = f"{BINDINGS.format(ns)}/{NGINX}/revert"
    nothing = fleet.ask("POST", path, {})
    fleet.fail("member1")
    fleet.until(lambda: fleet.placed(ns, NGINX) == {"member2": 3} and fleet.settled(ns, NGINX))

    too_soon = fleet.ask("POST", path, {})
    fleet.heal()
    fleet.until(lambda: fleet.is_ready("member1") and not fleet.taints("member1"))
    fleet.until(lambda: fleet.ready(ns, "nginx") == {"member2": 3})
    reverted = fleet.ask("POST", path, {})
    fleet.until(lambda: fleet.settled(ns, NGINX))

    assert (nothing.status, too_soon.status) == (409, 409)
    assert "no failover" in nothing.document["message"]
    assert "member1 is not Ready" in too_soon.document["message"]
    assert reverted.status == 201, reverted.body
    assert fleet.placed(ns, NGINX) == {"member1": 1, "member2": 2}
    fleet.until(lambda: fleet.ready(ns, "nginx") == {"member1": 1, "member2": 2})


def checked(fleet: Live, *, bindings: int) -> dict[str, Any]:
    """Return the status of the answer about the fleet once it covers the bindings as they are now; {}: not yet."""
    status = fleet.get(FLEET_READINESS)["status"]
    return status if status.get("bindings") == bindings and not status.get("bindingsOutdated") else {}


def test_readiness_foretells_what_a_failure_then_does(fleet: Live, ns: str) -> None:
    preferring = {
        "clusterAffinities": [{"affinityName": "home", "clusterNames": ["member1"]}, {"affinityName": "away"}]
    }
    held = workload("held")
    held["metadata"]["labels"] = {"release": "running"}
    fleet.apply(
        taint_policy(),
        *(policy("moves", preferring), workload("moves")),
        *(policy("trapped", on("member1")), workload("trapped")),
        *(policy("held", preferring), held, HOLD),
        namespace=ns,
    )
    bindings = [f"{name}-deployment" for name in ("moves", "trapped", "held")]
    fleet.until(lambda: fleet.settled(ns, *bindings))
    assert all(set(fleet.placed(ns, name)) == {"member1"} for name in bindings)

    predicted = {name: fleet.get(f"{BINDINGS.format(ns)}/{name}/readiness") for name in bindings}
    summary = fleet.until(lambda: checked(fleet, bindings=3))
    fleet.fail("member1")
    fleet.until(lambda: "member1" not in fleet.placed(ns, "moves-deployment") and fleet.settled(ns, "moves-deployment"))
    waiting = fleet.until(lambda: len(found := held_for(fleet, ns)) == 2 and found)

    assert [predicted[name]["ready"] for name in bindings] == [True, False, False]
    assert [(one["cluster"], one["moves"]) for one in predicted["moves-deployment"]["prospects"]] == [("member1", True)]
    assert obstacles(predicted["trapped-deployment"]) == ["NoRefuge"]
    assert obstacles(predicted["held-deployment"]) == ["OnHold"]
    assert all(one["remedy"] for found in predicted.values() for one in found.get("obstacles") or ())
    assert (summary["bindings"], summary["ready"]) == (3, 1)
    assert {one["what"]: one["bindings"] for one in summary["obstacles"]} == {"NoRefuge": 1, "OnHold": 1}
    assert waiting == {"trapped-deployment": "NoRefuge", "held-deployment": "OnHold"}


def obstacles(readiness: dict[str, Any]) -> list[str]:
    """Return the obstacles of a binding. Other tests let clusters of this stack fail too, so that some are flapping."""
    return [one["what"] for one in readiness["obstacles"] if one["what"] != "Flapping"]


HOLD = {
    "apiVersion": "failover.lifeboat.io/v1alpha1",
    "kind": "EvictionHold",
    "metadata": {"name": "release"},
    "spec": {"reason": "a release is going on", "selector": {"matchLabels": {"release": "running"}}},
}


def held_for(fleet: Live, ns: str) -> dict[str, str]:
    """Return why bindings wait that are to leave a cluster, by name."""
    queue = fleet.items(f"/apis/failover.lifeboat.io/v1alpha1/namespaces/{ns}/evictions")
    return {one["spec"]["binding"]: one["status"]["reason"] for one in queue if one["status"]["state"] == "Held"}
