"""S002's FlinkDeployment on the running product: a kind the users bring, its state carried to the next cluster."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.acceptance.live import BINDINGS, CLUSTERS, MEMBERS, Live
from tests.acceptance.manifests import taint_policy
from tests.acceptance.serving import Stream
from tests.processes import PROJECT

pytestmark = pytest.mark.slow

LABEL = "application.karmada.io/cluster-failover-jobid"
JOB = "fd72014d4c864993a2e5a9287b4a9c5d"
BINDING = "flink-app-flinkdeployment"
APPS = "/apis/flink.apache.org/v1beta1/namespaces/{}/flinkdeployments"
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: flinkdeployments.flink.apache.org
spec:
  group: flink.apache.org
  scope: Namespaced
  names: {kind: FlinkDeployment, listKind: FlinkDeploymentList, plural: flinkdeployments, singular: flinkdeployment}
  versions:
  - name: v1beta1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
EVERYWHERE = """
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata:
  name: definitions
spec:
  resourceSelectors:
  - {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: flinkdeployments.flink.apache.org}
  placement: {}
"""
APP = """
apiVersion: flink.apache.org/v1beta1
kind: FlinkDeployment
metadata:
  name: flink-app
spec:
  image: flink:1.17
  flinkVersion: v1_17
  jobManager: {resource: {cpu: 1, memory: 2048m}}
  taskManager: {resource: {cpu: 1, memory: 2048m}}
  job: {jarURI: "local:///opt/flink/examples/streaming/StateMachineExample.jar", parallelism: 2, upgradeMode: savepoint}
"""


def run_job(fleet: Live, ns: str, cluster: str) -> None:
    """Do what the Flink operator of a member does: run the job and say so."""
    path = f"{APPS.format(ns)}/flink-app"
    fleet.until(lambda: fleet.member(cluster, "GET", path))
    status = {"jobStatus": {"jobID": JOB, "state": "RUNNING"}, "jobManagerDeploymentStatus": "READY"}
    said = fleet.member(cluster, "PATCH", f"{path}/status", {"status": status}, type="application/merge-patch+json")
    assert said["status"]["jobStatus"]["jobID"] == JOB


def collected(fleet: Live, ns: str) -> dict[str, Any]:
    """Return the status that has come back from the member, by cluster."""
    items = fleet.binding(ns, BINDING).get("status", {}).get("aggregatedStatus") or ()
    return {one["clusterName"]: one.get("status") or {} for one in items if one.get("health") == "Healthy"}


def test_s002_a_flink_job_goes_on_where_it_was_when_its_cluster_is_lost(fleet: Live, ns: str) -> None:
    fleet.apply(DEFINITION, EVERYWHERE)
    kind = "/apis/flink.apache.org/v1beta1"
    fleet.until(lambda: all(fleet.member(name, "GET", kind) for name in MEMBERS))
    example = yaml.safe_load((PROJECT / "docs" / "examples" / "flink.yaml").read_text())
    fleet.apply(taint_policy(), example, APP, namespace=ns)
    fleet.until(lambda: fleet.placed(ns, BINDING))
    (home,) = fleet.placed(ns, BINDING)
    (away,) = {"member1", "member2"} - {home}
    run_job(fleet, ns, home)
    fleet.until(lambda: collected(fleet, ns).get(home, {}).get("jobStatus", {}).get("jobID") == JOB)
    told = fleet.until(lambda: fleet.get(f"{APPS.format(ns)}/flink-app").get("status"))
    assert told["jobStatus"]["state"] == "RUNNING"

    arrivals = Stream(fleet, away, APPS.format(ns))
    fleet.fail(home)
    fleet.until(lambda: fleet.condition(fleet.binding(ns, BINDING), "DirectlyWaiting").get("status") == "True")
    (task,) = fleet.tasks(ns, BINDING)
    assert (task["purgeMode"], task["preservedLabelState"]) == ("Directly", {LABEL: JOB})
    assert fleet.member(away, "GET", f"{APPS.format(ns)}/flink-app") is None, "two of it might run"

    fenced = fleet.ask("POST", f"{CLUSTERS}/{home}/fence", {"reason": "its power is off", "expiresInSeconds": 600})
    assert fenced.status == 201, fenced.body
    fleet.until(lambda: fleet.member(away, "GET", f"{APPS.format(ns)}/flink-app"))
    run_job(fleet, ns, away)
    fleet.until(lambda: fleet.settled(ns, BINDING))

    fleet.until(lambda: arrivals.drain() and arrivals.events)
    first = arrivals.events[0]
    assert first["type"] == "ADDED"
    assert first["object"]["metadata"]["labels"][LABEL] == JOB
    (record,) = records(fleet, ns)
    assert record["status"]["preserved"] == {LABEL: JOB}
    assert record["status"]["left"][0]["name"] == home
    fleet.heal(home)
    fleet.until(lambda: fleet.is_ready(home) and fleet.member(home, "GET", f"{APPS.format(ns)}/flink-app") is None)
    assert list(fleet.placed(ns, BINDING)) == [away]


def records(fleet: Live, ns: str) -> list[dict[str, Any]]:
    """Return the failovers of the job."""
    found = fleet.items(f"/apis/failover.lifeboat.io/v1alpha1/namespaces/{ns}/failoverrecords")
    return [one for one in found if one["status"]["binding"].endswith(BINDING)]


def test_readiness_says_beforehand_that_a_lost_cluster_has_to_be_fenced(fleet: Live, ns: str) -> None:
    fleet.apply(DEFINITION, EVERYWHERE)
    kind = "/apis/flink.apache.org/v1beta1"
    fleet.until(lambda: all(fleet.member(name, "GET", kind) for name in MEMBERS))
    example = yaml.safe_load((PROJECT / "docs" / "examples" / "flink.yaml").read_text())
    fleet.apply(taint_policy(), example, APP, namespace=ns)
    fleet.until(lambda: fleet.placed(ns, BINDING))

    before = fleet.get(f"{BINDINGS.format(ns)}/{BINDING}/readiness")

    named = {one["what"]: one for one in before["obstacles"]}
    assert set(named) == {"StateMissing", "DirectlyUnreachable"}
    assert (named["StateMissing"]["severity"], named["DirectlyUnreachable"]["severity"]) == ("Blocks", "Warns")
    assert "fence" in named["DirectlyUnreachable"]["remedy"]
    (home,) = fleet.placed(ns, BINDING)
    run_job(fleet, ns, home)
    fleet.until(lambda: fleet.get(f"{BINDINGS.format(ns)}/{BINDING}/readiness")["ready"])
