"""The failover guide's FlinkDeployment on the running product: a kind the users bring, its state carried to the next
cluster."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests import flink
from tests.acceptance.live import BINDINGS, CLUSTERS, MEMBERS, Live
from tests.acceptance.manifests import taint_policy
from tests.acceptance.serving import Stream
from tests.processes import PROJECT

pytestmark = pytest.mark.slow

JOB = "fd72014d4c864993a2e5a9287b4a9c5d"
KIND = f"/apis/{flink.GROUP_VERSION}"
APPS = KIND + "/namespaces/{}/flinkdeployments"


def started(fleet: Live, ns: str) -> str:
    """Bring the kind, its example policy and a job; return the cluster it is placed on."""
    fleet.apply(flink.DEFINITION, flink.EVERYWHERE)
    fleet.until(lambda: all(fleet.member(name, "GET", KIND) for name in MEMBERS))
    example = yaml.safe_load((PROJECT / "docs" / "examples" / "flink.yaml").read_text())
    fleet.apply(taint_policy(), example, flink.APP, namespace=ns)
    fleet.until(lambda: fleet.placed(ns, flink.BINDING))
    (home,) = fleet.placed(ns, flink.BINDING)
    return home


def run_job(fleet: Live, ns: str, cluster: str) -> None:
    """Do what the Flink operator of a member does: run the job and report it."""
    path = f"{APPS.format(ns)}/flink-app"
    fleet.until(lambda: fleet.member(cluster, "GET", path))
    status = {"jobStatus": {"jobID": JOB, "state": "RUNNING"}, "jobManagerDeploymentStatus": "READY"}
    said = fleet.member(cluster, "PATCH", f"{path}/status", {"status": status}, type="application/merge-patch+json")
    assert said["status"]["jobStatus"]["jobID"] == JOB


def collected(fleet: Live, ns: str) -> dict[str, Any]:
    """Return the status that has come back from the member, by cluster."""
    items = fleet.binding(ns, flink.BINDING).get("status", {}).get("aggregatedStatus") or ()
    return {one["clusterName"]: one.get("status") or {} for one in items if one.get("health") == "Healthy"}


def test_s002_a_flink_job_goes_on_where_it_was_when_its_cluster_is_lost(fleet: Live, ns: str) -> None:
    home = started(fleet, ns)
    (away,) = {"member1", "member2"} - {home}
    run_job(fleet, ns, home)
    fleet.until(lambda: collected(fleet, ns).get(home, {}).get("jobStatus", {}).get("jobID") == JOB)
    reported = fleet.until(lambda: fleet.get(f"{APPS.format(ns)}/flink-app").get("status"))
    assert reported["jobStatus"]["state"] == "RUNNING"

    arrivals = Stream(fleet, away, APPS.format(ns))
    fleet.fail(home)
    fleet.until(lambda: fleet.condition(fleet.binding(ns, flink.BINDING), "DirectlyWaiting").get("status") == "True")
    (task,) = fleet.tasks(ns, flink.BINDING)
    assert (task["purgeMode"], task["preservedLabelState"]) == ("Directly", {flink.LABEL: JOB})
    assert fleet.member(away, "GET", f"{APPS.format(ns)}/flink-app") is None, "two of it might run"

    fenced = fleet.ask("POST", f"{CLUSTERS}/{home}/fence", {"reason": "its power is off", "expiresInSeconds": 600})
    assert fenced.status == 201, fenced.body
    fleet.until(lambda: fleet.member(away, "GET", f"{APPS.format(ns)}/flink-app"))
    run_job(fleet, ns, away)
    fleet.until(lambda: fleet.settled(ns, flink.BINDING))

    fleet.until(lambda: arrivals.drain() and arrivals.events)
    first = arrivals.events[0]
    assert first["type"] == "ADDED"
    assert first["object"]["metadata"]["labels"][flink.LABEL] == JOB
    (record,) = records(fleet, ns)
    assert record["status"]["preserved"] == {flink.LABEL: JOB}
    assert record["status"]["left"][0]["name"] == home
    fleet.heal(home)
    fleet.until(lambda: fleet.is_ready(home) and fleet.member(home, "GET", f"{APPS.format(ns)}/flink-app") is None)
    assert list(fleet.placed(ns, flink.BINDING)) == [away]


def records(fleet: Live, ns: str) -> list[dict[str, Any]]:
    """Return the failovers of the job."""
    found = fleet.items(f"/apis/failover.lifeboat.io/v1alpha1/namespaces/{ns}/failoverrecords")
    return [one for one in found if one["status"]["binding"].endswith(flink.BINDING)]


def test_readiness_says_beforehand_that_a_lost_cluster_has_to_be_fenced(fleet: Live, ns: str) -> None:
    home = started(fleet, ns)

    def named() -> dict[str, Any]:
        found = fleet.get(f"{BINDINGS.format(ns)}/{flink.BINDING}/readiness")["obstacles"]
        return {one["what"]: one for one in found}

    fleet.until(lambda: "NoRefuge" not in named())  # the other members serve the new kind as well by then

    before = named()
    assert set(before) == {"StateMissing", "DirectlyUnreachable"}
    assert (before["StateMissing"]["severity"], before["DirectlyUnreachable"]["severity"]) == ("Blocks", "Warns")
    assert "fence" in before["DirectlyUnreachable"]["remedy"]
    run_job(fleet, ns, home)
    fleet.until(lambda: fleet.get(f"{BINDINGS.format(ns)}/{flink.BINDING}/readiness")["ready"])
