"""The user stories of the proposal on the running product: who sees what, and who leaves a failed cluster."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.live import BINDINGS, CLUSTERS, FLEET_READINESS, Live
from tests.acceptance.manifests import AT_ONCE, BEARS_IT, ONE, on, policy, taint_policy, workload

pytestmark = pytest.mark.slow

HOME, AWAY = "member1", "member2"
PREFERS_HOME = {"clusterAffinities": [{"affinityName": "home", "clusterNames": [HOME]}, {"affinityName": "away"}]}


def deploy(fleet: Live, ns: str, name: str, placement: dict[str, Any], failover: dict[str, Any] | None = None) -> None:
    fleet.apply(policy(name, placement, failover=failover), workload(name), namespace=ns)


def placements(fleet: Live, ns: str) -> dict[str, set[str]]:
    """Return the clusters of every Deployment of a namespace."""
    return {
        one["metadata"]["name"].removesuffix("-deployment"): {
            target["name"] for target in one["spec"].get("clusters") or ()
        }
        for one in fleet.items(BINDINGS.format(ns))
    }


def moving(fleet: Live, ns: str) -> set[str]:
    """Return the Deployments with a copy that is leaving."""
    found = fleet.items(BINDINGS.format(ns))
    leaving = (one["metadata"]["name"] for one in found if one["spec"].get("gracefulEvictionTasks"))
    return {name.removesuffix("-deployment") for name in leaving}


def at_home(fleet: Live, ns: str, names: set[str]) -> bool:
    """Test whether all of these run at home and nowhere else, and are known to be healthy there."""
    found = placements(fleet, ns)
    bindings = [f"{name}-deployment" for name in names]
    return found == {name: {HOME} for name in names} and fleet.settled(ns, *bindings)


def judged(fleet: Live, effect: str) -> bool:
    """Test whether the failed cluster's taint is there and every eviction it asks for is over or under way."""
    if not fleet.taints(HOME, effect):
        return False
    queue = fleet.items("/apis/failover.lifeboat.io/v1alpha1/evictions")
    return all(one["status"]["state"] not in ("Queued", "Held") for one in queue)


def gate_off(fleet: Live, *, bindings: int) -> dict[str, Any]:
    """Return what the answer about the fleet says of the gate, once the bindings are checked; {}: not yet."""
    obstacles = fleet.get(FLEET_READINESS)["status"].get("obstacles", ())
    return next((one for one in obstacles if (one["what"], one.get("bindings")) == ("GateOff", bindings)), {})


def test_story_1_an_operator_sees_switch_rule_and_strategy(fleet: Live, ns: str) -> None:
    fleet.apply(taint_policy(effect="PreferNoExecute"))
    deploy(fleet, ns, "patient", PREFERS_HOME, {"cluster": {"tolerationSeconds": 100}})
    deploy(fleet, ns, "stays", on(HOME))
    fleet.until(lambda: at_home(fleet, ns, {"patient", "stays"}))

    patient = fleet.get(f"{BINDINGS.format(ns)}/patient-deployment/readiness")
    stays = fleet.get(f"{BINDINGS.format(ns)}/stays-deployment/readiness")
    fleet.configure(featureGates={"Failover": False})
    closed = fleet.until(lambda: gate_off(fleet, bindings=2))

    assert patient["ready"], patient
    assert patient["prospects"][0]["afterSeconds"] == 100.0
    assert {one["what"] for one in stays["obstacles"]} == {"StaysByDefault", "NoRefuge"}
    assert (closed["bindings"], "featureGates.Failover" in closed["remedy"]) == (2, True)


def test_story_2_a_hard_failure_moves_all_but_those_that_tolerate_it(fleet: Live, ns: str) -> None:
    names = {f"app-{number}" for number in range(6)}
    fleet.apply(taint_policy(effect="NoExecute"))
    for name in names:
        deploy(fleet, ns, name, {**PREFERS_HOME, **(BEARS_IT if name == "app-0" else {}), **ONE})
    fleet.until(lambda: at_home(fleet, ns, names))

    fleet.fail(HOME)
    fleet.until(lambda: all(HOME not in placements(fleet, ns)[name] for name in names - {"app-0"}))
    fleet.until(lambda: fleet.settled(ns, *(f"{name}-deployment" for name in names - {"app-0"})))

    assert placements(fleet, ns)["app-0"] == {HOME}
    last_known = fleet.get(f"{BINDINGS.format(ns)}/app-0-deployment")["status"]["aggregatedStatus"]
    assert [(one["health"], one["lastKnownHealth"]) for one in last_known] == [("Unknown", "Healthy")]
    assert fleet.ready(ns, "app-1") == {next(iter(placements(fleet, ns)["app-1"])): 1}


def test_story_2_a_partial_failure_moves_only_those_that_ask_for_it(fleet: Live, ns: str) -> None:
    """A third party reports the partial failure as a condition of its own, through the cluster's /status."""
    broken = [{"conditionType": "GPUHealthy", "operator": "In", "statusValues": ["False"]}]
    fleet.apply(taint_policy(effect="PreferNoExecute", on=broken))
    for name in ("gpu", "web", "db"):
        deploy(fleet, ns, name, {**PREFERS_HOME, **ONE}, AT_ONCE if name == "gpu" else None)
    fleet.until(lambda: at_home(fleet, ns, {"gpu", "web", "db"}))

    report(fleet, "GPUHealthy", "False")
    fleet.until(lambda: placements(fleet, ns)["gpu"] == {"member2"} and fleet.settled(ns, "gpu-deployment"))

    assert judged(fleet, "PreferNoExecute")
    assert {name: found for name, found in placements(fleet, ns).items() if name != "gpu"} == {
        "web": {HOME},
        "db": {HOME},
    }
    assert fleet.ready(ns, "web") == {HOME: 1}
    report(fleet, "GPUHealthy", "True")


def report(fleet: Live, kind: str, status: str) -> None:
    """Write a condition of the home cluster as its own monitoring would."""
    while True:
        cluster = fleet.get(f"{CLUSTERS}/{HOME}")
        now = cluster["status"]["conditions"][0]["lastTransitionTime"]
        others = [one for one in cluster["status"]["conditions"] if one["type"] != kind]
        reported = {"type": kind, "status": status, "reason": "Test", "message": "", "lastTransitionTime": now}
        cluster["status"]["conditions"] = [*others, reported]
        answer = fleet.ask("PUT", f"{CLUSTERS}/{HOME}/status", cluster)
        if answer.status != 409:  # Lifeboat writes what it sees there as well
            assert answer.status == 200, answer.body
            return


def test_story_3_of_a_hundred_workloads_95_stay_and_5_move(fleet: Live, ns: str) -> None:
    fleet.apply(taint_policy(effect="PreferNoExecute"))
    names = [f"app-{number:02}" for number in range(100)]
    asked = set(names[::20])
    for name in names:
        deploy(fleet, ns, name, PREFERS_HOME, AT_ONCE if name in asked else None)
    fleet.until(lambda: at_home(fleet, ns, set(names)))

    fleet.fail(HOME)
    fleet.until(lambda: all(HOME not in placements(fleet, ns)[name] for name in asked))
    fleet.until(lambda: judged(fleet, "PreferNoExecute") and not moving(fleet, ns))

    stayed = {name for name, found in placements(fleet, ns).items() if found == {HOME}}
    assert (len(stayed), len(asked)) == (95, 5)
    assert stayed == set(names) - asked
    assert all(sum(fleet.ready(ns, name).values()) >= 1 for name in asked)
