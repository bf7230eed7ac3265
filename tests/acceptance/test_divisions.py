"""The failover guide's Deployment `foo` with 4 replicas under all division types, and what happens where no cluster can
take over."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.live import Live
from tests.acceptance.manifests import divided, on, policy, taint_policy, workload

pytestmark = pytest.mark.slow

FOO = "foo-deployment"
TWO = {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}]}
THREE = ("member1", "member2", "member3")
MEMBER1_FIRST = {
    "clusterAffinities": [
        {"affinityName": "home", "clusterNames": ["member1"]},
        {"affinityName": "away", "clusterNames": ["member2"]},
    ]
}
BY_ROOM = {"dynamicWeight": "AvailableReplicas"}
# What is asked for, how many replicas clusters have before, and where they are when member1 has failed.
DIVISIONS: dict[str, tuple[dict[str, Any], list[int], dict[str, int]]] = {
    "duplicated": (on(*THREE, **TWO), [4, 4], {"member2": 4, "member3": 4}),
    "static-weight": (on("member1", "member2", **divided("Weighted")), [2, 2], {"member2": 4}),
    "static-weight-of-three": (on(*THREE, **divided("Weighted")), [1, 1, 2], {"member2": 2, "member3": 2}),
    "dynamic-weight": (on("member1", "member2", **divided("Weighted", **BY_ROOM)), [2, 2], {"member2": 4}),
    "aggregated": ({**MEMBER1_FIRST, **divided("Aggregated")}, [4], {"member2": 4}),
}


def test_s002_foo_with_four_replicas_leaves_the_failed_cluster_under_every_division(fleet: Live) -> None:
    fleet.apply(taint_policy())
    for name, (placement, _, _) in DIVISIONS.items():
        fleet.apply(policy("foo", placement), workload("foo", 4), namespace=fleet.namespace(name))
    fleet.until(lambda: all(fleet.settled(name, FOO) for name in DIVISIONS))
    before = {name: fleet.placed(name, FOO) for name in DIVISIONS}

    fleet.fail("member1")
    fleet.until(lambda: all("member1" not in fleet.placed(name, FOO) for name in DIVISIONS))
    fleet.until(lambda: all(fleet.settled(name, FOO) for name in DIVISIONS))

    for name, (_, shares, after) in DIVISIONS.items():
        assert "member1" in before[name], name
        assert sorted(before[name].values()) == shares, name
        assert fleet.placed(name, FOO) == after, name
        assert fleet.ready(name, "foo") == after, name


def test_two_failed_clusters_and_one_candidate_move_nothing(fleet: Live, ns: str) -> None:
    fleet.apply(taint_policy(), policy("foo", on(*THREE, **TWO)), workload("foo", 4), namespace=ns)
    fleet.until(lambda: fleet.settled(ns, FOO))
    before = fleet.placed(ns, FOO)

    fleet.apply(HOLD)
    fleet.fail(*before)
    fleet.until(lambda: all(fleet.taints(name, "NoExecute") for name in before))
    assert fleet.ask("DELETE", f"{HOLDS}/until-both-are-seen").status == 200
    fleet.until(lambda: waiting(fleet, ns) == set(before))

    assert fleet.placed(ns, FOO) == before
    assert fleet.tasks(ns, FOO) == []
    fleet.until(lambda: pending(fleet, ns) == "Held")
    fleet.apply(HOLD)  # the first to come back would be a refuge for what is on the second
    fleet.heal()
    fleet.until(lambda: pending(fleet, ns) == "Abandoned")
    assert fleet.placed(ns, FOO) == before
    assert fleet.ask("DELETE", f"{HOLDS}/until-both-are-seen").status == 200


# Two probes never see two failures in the very same moment; a first one alone would find its refuge.
HOLD = {
    "apiVersion": "failover.lifeboat.io/v1alpha1",
    "kind": "EvictionHold",
    "metadata": {"name": "until-both-are-seen"},
    "spec": {"reason": "both shall count"},
}
HOLDS = "/apis/failover.lifeboat.io/v1alpha1/evictionholds"


def waiting(fleet: Live, ns: str) -> set[str]:
    """Return the clusters a namespace's workloads cannot leave for want of a place."""
    queue = fleet.items(f"/apis/failover.lifeboat.io/v1alpha1/namespaces/{ns}/evictions")
    return {one["spec"]["cluster"] for one in queue if one["status"].get("reason") == "NoRefuge"}


def pending(fleet: Live, ns: str) -> str:
    """Return the reason of foo's condition EvictionPending, "" where it has none."""
    reason: str = fleet.condition(fleet.binding(ns, FOO), "EvictionPending").get("reason", "")
    return reason
