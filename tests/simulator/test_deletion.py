"""What a member takes along when something is deleted, and what it waits for: finalizers, owners, namespaces."""

from __future__ import annotations

from typing import Any

from tests.simulator.cluster import CONFIGMAPS, MERGE, Cluster, configmap, names, simulated, workload


@simulated()
async def test_finalizers_hold_an_object_until_they_are_taken_off(cluster: Cluster) -> None:
    held = {**configmap("settings"), "metadata": {"name": "settings", "finalizers": ["example.io/keep"]}}
    await cluster.make(CONFIGMAPS, held)

    deleting = await cluster.ask("DELETE", f"{CONFIGMAPS}/settings")
    assert deleting.body["metadata"]["deletionTimestamp"]
    assert (await cluster.ask("GET", f"{CONFIGMAPS}/settings")).status == 200

    await cluster.ask("PATCH", f"{CONFIGMAPS}/settings", {"metadata": {"finalizers": None}}, kind=MERGE)
    assert (await cluster.ask("GET", f"{CONFIGMAPS}/settings")).status == 404


def owned_by(owner: dict[str, Any], name: str, **metadata: Any) -> dict[str, Any]:
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    return {"metadata": {"name": name, "ownerReferences": [reference], **metadata}}


@simulated()
async def test_deleting_in_the_background_takes_dependents_afterwards(cluster: Cluster) -> None:
    owner = await cluster.make(CONFIGMAPS, configmap("owner"))
    await cluster.make(CONFIGMAPS, owned_by(owner, "child"))

    reply = await cluster.ask("DELETE", f"{CONFIGMAPS}/owner", {"propagationPolicy": "Background"})

    assert reply.body["status"] == "Success"
    await cluster.gone(CONFIGMAPS, "child")


@simulated()
async def test_deleting_in_the_foreground_waits_for_dependents(cluster: Cluster) -> None:
    owner = await cluster.make(CONFIGMAPS, configmap("owner"))
    await cluster.make(CONFIGMAPS, owned_by(owner, "child", finalizers=["example.io/keep"]))

    await cluster.ask("DELETE", f"{CONFIGMAPS}/owner", {"propagationPolicy": "Foreground"})
    await cluster.until(CONFIGMAPS, lambda one: "deletionTimestamp" in one["metadata"], name="child")
    waiting = await cluster.get(f"{CONFIGMAPS}/owner")
    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]

    await cluster.ask("PATCH", f"{CONFIGMAPS}/child", {"metadata": {"finalizers": None}}, kind=MERGE)
    await cluster.gone(CONFIGMAPS, "owner")


@simulated()
async def test_deleting_as_orphan_lets_dependents_live(cluster: Cluster) -> None:
    owner = await cluster.make(CONFIGMAPS, configmap("owner"))
    await cluster.make(CONFIGMAPS, owned_by(owner, "child"))

    await cluster.ask("DELETE", f"{CONFIGMAPS}/owner", {"propagationPolicy": "Orphan"})

    await cluster.gone(CONFIGMAPS, "owner")
    assert "ownerReferences" not in (await cluster.get(f"{CONFIGMAPS}/child"))["metadata"]


@simulated()
async def test_a_deleted_namespace_takes_everything_in_it_along(cluster: Cluster) -> None:
    await cluster.make("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    await cluster.make("/apis/apps/v1/namespaces/shop/deployments", workload("Deployment", replicas=2))

    await cluster.ask("DELETE", "/api/v1/namespaces/shop")
    refused = await cluster.ask("POST", "/api/v1/namespaces/shop/configmaps", configmap("late"))

    assert (refused.status, refused.body["reason"]) in ((403, "Forbidden"), (404, "NotFound"))
    await cluster.gone("/api/v1/namespaces", "shop")
    assert names(await cluster.get("/apis/apps/v1/deployments")) == []
