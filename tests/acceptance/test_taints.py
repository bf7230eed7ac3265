"""Taints on the running product: an outside client's, a policy's with its windows, and the gate that closes it all."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.acceptance.live import CLUSTERS, Live
from tests.acceptance.manifests import KEY, ONE, policy, taint_policy, workload
from tests.api.server import Client

pytestmark = pytest.mark.slow

WEB = "web-deployment"
HOME = "member1"
THEIRS = {"key": "monitoring.example.io/disk-full", "effect": "NoExecute"}


def web(fleet: Live, ns: str) -> None:
    """A Deployment that prefers member1."""
    terms = {"clusterAffinities": [{"affinityName": "home", "clusterNames": [HOME]}, {"affinityName": "away"}]}
    fleet.apply(policy("web", {**terms, **ONE}), workload("web", 2), namespace=ns)
    fleet.until(lambda: fleet.settled(ns, WEB))
    assert set(fleet.placed(ns, WEB)) == {HOME}


def edit_taints(by: Client, change: Any) -> None:
    """Write a cluster's taints as client-go does: get, change, update; again where another client was faster."""
    while True:
        cluster = by.get(f"{CLUSTERS}/{HOME}").document
        cluster["spec"]["taints"] = change(cluster["spec"].get("taints") or [])
        answer = by.put(f"{CLUSTERS}/{HOME}", cluster)
        if answer.status != 409:
            assert answer.status == 200, answer.body
            return


def history(fleet: Live, *, since: str) -> Iterator[dict[str, Any]]:
    """Yield every version member1 has had since then, up to now."""
    last = fleet.get(f"{CLUSTERS}/{HOME}")["metadata"]["resourceVersion"]
    if last == since:
        return
    query = {"resourceVersion": since, "fieldSelector": f"metadata.name={HOME}"}
    with fleet.api.watch(CLUSTERS, **query) as stream:
        while True:
            cluster = stream.next()["object"]
            yield cluster
            if cluster["metadata"]["resourceVersion"] == last:
                return


def has(cluster: dict[str, Any], taint: dict[str, Any]) -> bool:
    taints = cluster["spec"].get("taints") or ()
    return any((one["key"], one["effect"]) == (taint["key"], taint["effect"]) for one in taints)


def version(fleet: Live) -> str:
    found: str = fleet.get(f"{CLUSTERS}/{HOME}")["metadata"]["resourceVersion"]
    return found


def test_an_outside_client_taints_a_cluster_and_no_controller_removes_it(fleet: Live, ns: str) -> None:
    monitoring = fleet.user("monitoring")
    fleet.apply(taint_policy())
    web(fleet, ns)
    begin = version(fleet)

    edit_taints(monitoring, lambda taints: [*taints, THEIRS])
    fleet.until(lambda: HOME not in fleet.placed(ns, WEB) and fleet.settled(ns, WEB))
    fleet.until(lambda: HOME not in fleet.ready(ns, "web"))
    fleet.passes(seconds=3)
    (kept,) = fleet.taints(HOME)
    tainted = version(fleet)
    edit_taints(monitoring, lambda taints: [one for one in taints if one["key"] != THEIRS["key"]])
    removed = version(fleet)
    fleet.passes(seconds=3)

    assert (kept["key"], kept["effect"]) == (THEIRS["key"], THEIRS["effect"])
    assert kept["timeAdded"]
    versions = list(history(fleet, since=begin))
    while_on = [one for one in versions if int(one["metadata"]["resourceVersion"]) <= int(tainted)]
    afterwards = [one for one in versions if int(one["metadata"]["resourceVersion"]) >= int(removed)]
    assert while_on
    assert all(has(one, THEIRS) for one in while_on)
    assert afterwards
    assert not any(has(one, THEIRS) for one in afterwards)
    assert HOME not in fleet.placed(ns, WEB), "nothing goes back by itself"


def test_a_policys_windows_ignore_a_short_failure_and_time_a_long_one(fleet: Live, ns: str) -> None:
    fleet.apply(taint_policy(add=4, remove=3))
    web(fleet, ns)
    ours = {"key": KEY, "effect": "NoExecute"}

    short = fleet.until(lambda: short_trouble(fleet, seconds=4))

    fleet.fail(HOME)
    fleet.until(lambda: fleet.taints(HOME, "NoExecute"))
    down = fleet.condition(fleet.get(f"{CLUSTERS}/{HOME}"), "Ready")
    (taint,) = fleet.taints(HOME, "NoExecute")
    fleet.until(lambda: HOME not in fleet.placed(ns, WEB))
    begin = version(fleet)
    fleet.heal(HOME)
    fleet.until(lambda: not fleet.taints(HOME))
    long = list(history(fleet, since=begin))

    assert not any(has(one, ours) for one in short)
    assert moment(taint["timeAdded"]) - moment(down["lastTransitionTime"]) >= timedelta(seconds=4)
    assert taint["key"] == KEY
    ready_and_tainted = [one for one in long if has(one, ours) and is_ready(one)]
    assert ready_and_tainted, "the taint went with the trouble, before its window was over"
    assert not has(long[-1], ours)


def short_trouble(fleet: Live, *, seconds: int) -> list[dict[str, Any]]:
    """Let the cluster fail for less than so many seconds; return every version it has had until they are over. Empty
    where it took this machine longer to see that it was well again."""
    begin = version(fleet)
    fleet.fail(HOME)
    fleet.until(lambda: not fleet.is_ready(HOME))
    down = fleet.condition(fleet.get(f"{CLUSTERS}/{HOME}"), "Ready")
    fleet.heal(HOME)
    fleet.until(lambda: fleet.is_ready(HOME) and not fleet.taints(HOME))
    well = fleet.condition(fleet.get(f"{CLUSTERS}/{HOME}"), "Ready")
    fleet.passes(seconds=seconds)
    lasted = moment(well["lastTransitionTime"]) - moment(down["lastTransitionTime"])
    return list(history(fleet, since=begin)) if lasted < timedelta(seconds=seconds) else []


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def is_ready(cluster: dict[str, Any]) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in cluster["status"]["conditions"])


def test_with_the_gate_closed_nothing_moves_and_opened_again_it_does(fleet: Live, ns: str) -> None:
    fleet.apply(taint_policy())
    web(fleet, ns)
    fleet.apply(HOLD)
    fleet.fail(HOME)
    fleet.until(lambda: fleet.taints(HOME, "NoExecute") and evictions(fleet, ns))
    fleet.until(lambda: fleet.condition(fleet.binding(ns, WEB), "EvictionPending").get("reason") == "Held")

    fleet.configure(featureGates={"Failover": False})
    fleet.until(lambda: not fleet.taints(HOME, "NoExecute") and not evictions(fleet, ns))
    fleet.until(lambda: fleet.condition(fleet.binding(ns, WEB), "EvictionPending")["reason"] == "Abandoned")
    assert fleet.ask("DELETE", f"{EVICTION_HOLDS}/until-the-gate").status == 200
    fleet.patch(f"{CLUSTERS}/{HOME}", {"spec": {"taints": [*fleet.taints(HOME), THEIRS]}})
    begin = fleet.binding(ns, WEB)["metadata"]["generation"]
    fleet.passes(seconds=3)
    closed = fleet.binding(ns, WEB)
    schedules = [one["effect"] for one in fleet.taints(HOME) if one["key"].startswith("cluster.karmada.io/")]
    fleet.patch(CONFIGURATION, {"spec": {"featureGates": {"Failover": True}}})
    fleet.until(lambda: HOME not in fleet.placed(ns, WEB) and fleet.settled(ns, WEB))

    assert closed["metadata"]["generation"] == begin
    assert [one["name"] for one in closed["spec"]["clusters"]] == [HOME]
    assert schedules == ["NoSchedule"]
    assert fleet.taints(HOME, "NoExecute")


CONFIGURATION = "/apis/failover.lifeboat.io/v1alpha1/failoverconfigurations/default"
EVICTION_HOLDS = "/apis/failover.lifeboat.io/v1alpha1/evictionholds"
HOLD = {
    "apiVersion": "failover.lifeboat.io/v1alpha1",
    "kind": "EvictionHold",
    "metadata": {"name": "until-the-gate"},
    "spec": {"reason": "the gate is closed meanwhile"},
}


def evictions(fleet: Live, ns: str) -> list[dict[str, Any]]:
    """Return the evictions of a namespace that have not happened yet."""
    queue = fleet.items(f"/apis/failover.lifeboat.io/v1alpha1/namespaces/{ns}/evictions")
    return [one for one in queue if one["status"]["state"] in ("Queued", "Held", "Recovering")]
