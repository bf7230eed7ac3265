"""What happens inside a member: pods, nodes, readiness."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apps.simulator.nodes import NodeShape
from tests.simulator.cluster import DEPLOYMENTS, MERGE, PODS, Cluster, names, simulated, workload

NODES = "/api/v1/nodes"


def ready(count: int) -> Any:
    """Return the test for a workload with that many ready replicas that has seen its newest spec."""

    def holds(one: dict[str, Any]) -> bool:
        status = one.get("status", {})
        seen = status.get("observedGeneration") == one["metadata"]["generation"]
        found = status.get("readyReplicas", status.get("numberReady", 0))
        return seen and found == count and status.get("replicas", count) == count

    return holds


@pytest.mark.parametrize(
    ("kind", "plural", "spec", "count"),
    [
        ("Deployment", "deployments", {"replicas": 3}, 3),
        ("ReplicaSet", "replicasets", {"replicas": 2}, 2),
        ("StatefulSet", "statefulsets", {"replicas": 2, "serviceName": "web"}, 2),
        ("DaemonSet", "daemonsets", {}, 3),
    ],
)
@simulated(shape=NodeShape(count=3))
async def test_a_workload_gets_its_pods_and_becomes_ready(
    cluster: Cluster, kind: str, plural: str, spec: dict[str, Any], count: int
) -> None:
    path = f"/apis/apps/v1/namespaces/default/{plural}"
    await cluster.make(path, workload(kind, **spec))

    await cluster.until(path, ready(count), name="web")

    pods = (await cluster.get(PODS))["items"]
    assert len(pods) == count
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    assert all(pod["spec"]["nodeName"] and pod["metadata"]["ownerReferences"][0]["kind"] == kind for pod in pods)


@simulated()
async def test_pods_of_a_stateful_set_are_numbered(cluster: Cluster) -> None:
    path = "/apis/apps/v1/namespaces/default/statefulsets"
    await cluster.make(path, workload("StatefulSet", replicas=3))
    await cluster.until(path, ready(3), name="web")

    await cluster.ask("PATCH", f"{path}/web/scale", {"spec": {"replicas": 1}}, kind=MERGE)
    await cluster.until(path, ready(1), name="web")

    assert names(await cluster.get(PODS)) == ["web-0"]


@simulated()
async def test_a_job_runs_to_its_completions(cluster: Cluster) -> None:
    path = "/apis/batch/v1/namespaces/default/jobs"
    await cluster.make(path, workload("Job", "task", completions=3, parallelism=2))

    done = await cluster.until(path, lambda one: "completionTime" in one.get("status", {}), name="task")

    assert done["status"]["succeeded"] == 3
    assert done["status"]["conditions"][0]["type"] == "Complete"


@simulated(ready_after=60.0)
async def test_readiness_takes_as_long_as_the_member_is_ordered_even_while_it_runs(cluster: Cluster) -> None:
    await cluster.make(DEPLOYMENTS, workload("Deployment", replicas=2))
    waiting = await cluster.until(DEPLOYMENTS, lambda one: one.get("status", {}).get("replicas") == 2, name="web")
    assert "readyReplicas" not in waiting["status"]

    cluster.member.workloads.set_ready_after(0.0)

    await cluster.until(DEPLOYMENTS, ready(2), name="web")


@simulated(ready_after=0.2)
async def test_readiness_does_not_come_early(cluster: Cluster) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await cluster.make(DEPLOYMENTS, workload("Deployment", replicas=1))

    await cluster.until(DEPLOYMENTS, ready(1), name="web")

    assert loop.time() - began >= 0.2


@simulated(shape=NodeShape(count=2, cpu="1", pods=10))
async def test_pods_without_room_stay_pending_until_there_is_some(cluster: Cluster) -> None:
    await cluster.make(DEPLOYMENTS, workload("Deployment", "large", cpu="400m", replicas=4))
    await cluster.until(DEPLOYMENTS, ready(4), name="large")
    await cluster.make(DEPLOYMENTS, workload("Deployment", "late", cpu="500m", replicas=1))
    await cluster.until(DEPLOYMENTS, lambda one: one.get("status", {}).get("replicas") == 1, name="late")

    [late] = (await cluster.get(f"{PODS}?labelSelector=app%3Dlate"))["items"]
    assert "nodeName" not in late["spec"]
    assert (late["status"]["phase"], late["status"]["conditions"][0]["reason"]) == ("Pending", "Unschedulable")

    await cluster.ask("PATCH", f"{DEPLOYMENTS}/large/scale", {"spec": {"replicas": 1}}, kind=MERGE)
    await cluster.until(DEPLOYMENTS, ready(1), name="late")


@pytest.mark.parametrize(
    ("shape", "request_of_each", "expected"),
    [
        (NodeShape(count=3, cpu="2"), {"cpu": "500m"}, 12),
        (NodeShape(count=1, cpu="64", pods=5), {"cpu": "10m"}, 5),
    ],
)
def test_as_many_pods_run_as_the_nodes_hold(shape: NodeShape, request_of_each: dict[str, str], expected: int) -> None:
    @simulated(shape=shape)
    async def fill(cluster: Cluster) -> None:
        await cluster.make(DEPLOYMENTS, workload("Deployment", cpu=request_of_each["cpu"], replicas=20))
        holds = lambda one: one.get("status", {}).get("readyReplicas") == expected  # noqa: E731
        full = await cluster.until(DEPLOYMENTS, holds, name="web")

        pods = (await cluster.get(PODS))["items"]
        assert full["status"]["unavailableReplicas"] == 20 - expected
        assert sum("nodeName" in pod["spec"] for pod in pods) == expected

    fill()


@simulated(shape=NodeShape(count=3, labels={"zone": "a"}))
async def test_nodes_offer_what_the_member_was_given(cluster: Cluster) -> None:
    nodes = (await cluster.get(NODES))["items"]

    assert len(nodes) == 3
    for node in nodes:
        assert node["status"]["allocatable"]["cpu"] == "8"
        assert node["metadata"]["labels"]["zone"] == "a"
        assert {one["type"]: one["status"] for one in node["status"]["conditions"]} == {"Ready": "True"}


@simulated(shape=NodeShape(count=2))
async def test_no_pod_goes_to_a_node_that_is_not_ready_or_cordoned(cluster: Cluster) -> None:
    cluster.member.set_node("member1-node-1", is_ready=False)
    await cluster.make(DEPLOYMENTS, workload("Deployment", replicas=2))
    await cluster.until(DEPLOYMENTS, ready(2), name="web")
    assert {pod["spec"]["nodeName"] for pod in (await cluster.get(PODS))["items"]} == {"member1-node-2"}

    await cluster.ask("PATCH", f"{NODES}/member1-node-2", {"spec": {"unschedulable": True}}, kind=MERGE)
    await cluster.make(DEPLOYMENTS, workload("Deployment", "late", replicas=1))
    await cluster.until(DEPLOYMENTS, lambda one: one.get("status", {}).get("replicas") == 1, name="late")
    [late] = (await cluster.get(f"{PODS}?labelSelector=app%3Dlate"))["items"]
    assert "nodeName" not in late["spec"]


@simulated(ready_after=0.05)
async def test_a_new_version_takes_over_without_a_gap(cluster: Cluster) -> None:
    await cluster.make(DEPLOYMENTS, workload("Deployment", replicas=3))
    before = await cluster.until(DEPLOYMENTS, ready(3), name="web")
    lows: list[int] = []

    def finished(one: dict[str, Any]) -> bool:
        if one["metadata"]["generation"] == 2:
            lows.append(one["status"].get("readyReplicas", 0))
        return ready(3)(one) and one["metadata"]["generation"] == 2 and one["status"].get("updatedReplicas") == 3

    await cluster.apply(f"{DEPLOYMENTS}/web", workload("Deployment", image="web:2", replicas=3), force=True)
    await cluster.until(DEPLOYMENTS, finished, name="web")

    assert before["metadata"]["generation"] == 1
    assert min(lows) >= 3
    images = {pod["spec"]["containers"][0]["image"] for pod in (await cluster.get(PODS))["items"]}
    assert images == {"web:2"}


@simulated()
async def test_a_deleted_pod_is_replaced(cluster: Cluster) -> None:
    await cluster.make(DEPLOYMENTS, workload("Deployment", replicas=1))
    await cluster.until(DEPLOYMENTS, ready(1), name="web")
    [name] = names(await cluster.get(PODS))

    evicted = await cluster.ask("POST", f"{PODS}/{name}/eviction", {})
    assert evicted.status == 201

    new = await cluster.until(PODS, lambda pod: pod["metadata"]["name"] != name and pod["status"]["phase"] == "Running")
    assert new["metadata"]["labels"]["app"] == "web"


@simulated()
async def test_deleting_a_workload_deletes_its_pods(cluster: Cluster) -> None:
    await cluster.make(DEPLOYMENTS, workload("Deployment", replicas=1))
    await cluster.until(DEPLOYMENTS, ready(1), name="web")
    [name] = names(await cluster.get(PODS))

    await cluster.ask("DELETE", f"{DEPLOYMENTS}/web")

    await cluster.gone(PODS, name)


@pytest.mark.parametrize(
    ("path", "document", "holds"),
    [
        (
            "/api/v1/namespaces/default/services",
            {"metadata": {"name": "x"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}},
            lambda one: one["status"]["loadBalancer"]["ingress"][0]["ip"],
        ),
        (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            {
                "metadata": {"name": "x"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            },
            lambda one: one["status"]["phase"] == "Bound",
        ),
    ],
)
@simulated()
async def test_what_others_provide_is_provided_at_once(
    cluster: Cluster, path: str, document: dict[str, Any], holds: Any
) -> None:
    await cluster.make(path, document)

    await cluster.until(path, lambda one: bool(one.get("status")) and bool(holds(one)), name="x")
