"""A member's API over real HTTP: what a Kubernetes client relies on."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from tests.simulator.cluster import (
    APPLY,
    CONFIGMAPS,
    DEPLOYMENTS,
    MERGE,
    STRATEGIC,
    TABLE,
    Cluster,
    configmap,
    names,
    simulated,
    workload,
)


@simulated()
async def test_an_object_is_created_read_replaced_and_deleted(cluster: Cluster) -> None:
    made = await cluster.make(CONFIGMAPS, configmap("settings", a="1"))
    assert made["metadata"]["uid"]
    assert made["metadata"]["creationTimestamp"].endswith("Z")
    assert await cluster.get(f"{CONFIGMAPS}/settings") == made

    made["data"] = {"a": "2"}
    replaced = await cluster.ask("PUT", f"{CONFIGMAPS}/settings", made)
    assert replaced.status == 200
    assert int(replaced.body["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])

    deleted = await cluster.ask("DELETE", f"{CONFIGMAPS}/settings")
    assert (deleted.status, deleted.body["status"]) == (200, "Success")
    missing = await cluster.ask("GET", f"{CONFIGMAPS}/settings")
    assert (missing.status, missing.body["message"]) == (404, 'configmaps "settings" not found')


@simulated()
async def test_creating_twice_is_refused(cluster: Cluster) -> None:
    await cluster.make(CONFIGMAPS, configmap("settings"))

    again = await cluster.ask("POST", CONFIGMAPS, configmap("settings"))

    assert (again.status, again.body["reason"]) == (409, "AlreadyExists")


@simulated()
async def test_a_namespace_has_to_exist_first(cluster: Cluster) -> None:
    path = "/api/v1/namespaces/shop/configmaps"

    refused = await cluster.ask("POST", path, configmap("settings"))
    assert (refused.status, refused.body["message"]) == (404, 'namespaces "shop" not found')

    await cluster.make("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    await cluster.make(path, configmap("settings"))


@simulated()
async def test_writing_on_an_old_version_is_a_conflict(cluster: Cluster) -> None:
    old = await cluster.make(CONFIGMAPS, configmap("settings", a="1"))
    await cluster.ask("PATCH", f"{CONFIGMAPS}/settings", {"data": {"a": "2"}}, kind=MERGE)

    put = await cluster.ask("PUT", f"{CONFIGMAPS}/settings", {**old, "data": {"a": "3"}})
    patch = await cluster.ask("PATCH", f"{CONFIGMAPS}/settings", {"metadata": {"resourceVersion": "1"}}, kind=MERGE)
    delete = await cluster.ask("DELETE", f"{CONFIGMAPS}/settings", {"preconditions": {"uid": "another"}})

    assert [reply.body["reason"] for reply in (put, patch, delete)] == ["Conflict"] * 3
    assert (await cluster.get(f"{CONFIGMAPS}/settings"))["data"] == {"a": "2"}


@simulated()
async def test_two_field_managers_conflict_until_one_forces(cluster: Cluster) -> None:
    path = f"{CONFIGMAPS}/settings"
    assert (await cluster.apply(path, configmap("settings", a="1"))).status == 201

    refused = await cluster.apply(path, configmap("settings", a="2"), manager="bob")
    assert refused.status == 409
    assert refused.body["details"]["causes"][0] == {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "alice"',
        "field": ".data.a",
    }

    forced = await cluster.apply(path, configmap("settings", a="2"), manager="bob", force=True)
    assert (forced.status, forced.body["data"]) == (200, {"a": "2"})


@simulated()
async def test_applying_the_same_again_keeps_the_version(cluster: Cluster) -> None:
    first = await cluster.apply(f"{DEPLOYMENTS}/web", workload("Deployment", replicas=0))
    settled = await cluster.until(DEPLOYMENTS, lambda one: "status" in one, name="web")

    again = await cluster.apply(f"{DEPLOYMENTS}/web", workload("Deployment", replicas=0))

    assert first.status == 201
    assert again.body["metadata"]["resourceVersion"] == settled["metadata"]["resourceVersion"]
    assert again.body["metadata"]["generation"] == 1


@simulated()
async def test_applying_without_saying_who_is_refused(cluster: Cluster) -> None:
    reply = await cluster.ask("PATCH", f"{CONFIGMAPS}/settings", configmap("settings"), kind=APPLY)

    assert (reply.status, "fieldManager" in reply.body["message"]) == (422, True)


@simulated()
async def test_unknown_fields_are_refused_warned_of_or_dropped_as_asked(cluster: Cluster) -> None:
    body = {**workload("Deployment"), "spec": {**workload("Deployment")["spec"], "replica": 3}}

    strict = await cluster.ask("POST", f"{DEPLOYMENTS}?fieldValidation=Strict", body)
    assert strict.status == 400
    assert 'strict decoding error: unknown field "spec.replica"' in strict.body["message"]

    warned = await cluster.ask("POST", f"{DEPLOYMENTS}?fieldValidation=Warn&dryRun=All", body)
    assert warned.status == 201
    assert warned.headers["Warning"] == '299 - "unknown field \\"spec.replica\\""'

    ignored = await cluster.ask("POST", f"{DEPLOYMENTS}?fieldValidation=Ignore", body)
    assert "Warning" not in ignored.headers
    assert "replica" not in ignored.body["spec"]


@simulated()
async def test_a_dry_run_answers_and_stores_nothing(cluster: Cluster) -> None:
    created = await cluster.ask("POST", f"{CONFIGMAPS}?dryRun=All", configmap("settings"))
    applied = await cluster.ask(
        "PATCH", f"{CONFIGMAPS}/other?dryRun=All&fieldManager=x", configmap("other"), kind=APPLY
    )

    assert (created.status, applied.status) == (201, 201)
    assert names(await cluster.get(CONFIGMAPS)) == []


@simulated()
async def test_lists_are_chosen_by_labels_and_fields(cluster: Cluster) -> None:
    for number in range(4):
        await cluster.make(CONFIGMAPS, configmap(f"c{number}", labels={"tier": "odd" if number % 2 else "even"}))

    assert names(await cluster.get(f"{CONFIGMAPS}?labelSelector=tier%3Dodd")) == ["c1", "c3"]
    assert names(await cluster.get(f"{CONFIGMAPS}?labelSelector=tier+notin+(odd)")) == ["c0", "c2"]
    assert names(await cluster.get(f"{CONFIGMAPS}?fieldSelector=metadata.name%3Dc2")) == ["c2"]
    assert names(await cluster.get("/api/v1/configmaps?fieldSelector=metadata.namespace!%3Ddefault")) == []
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    event = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "regarding": about}
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    await cluster.make(events, {**event, "eventTime": "2026-01-01T00:00:00.000000Z"})
    assert names(await cluster.get(f"{events}?fieldSelector=regarding.name%3Dp")) == ["e"]
    unreadable = await cluster.ask("GET", f"{CONFIGMAPS}?labelSelector=tier+in")
    assert unreadable.status == 400


@simulated()
async def test_a_long_list_comes_in_pages_that_add_up(cluster: Cluster) -> None:
    for number in range(7):
        await cluster.make(CONFIGMAPS, configmap(f"c{number}"))

    pages, token = [], ""
    while True:
        listed = await cluster.get(f"{CONFIGMAPS}?limit=3&continue={token}")
        pages.append(names(listed))
        token = listed["metadata"].get("continue", "")
        if not token:
            break

    assert pages == [["c0", "c1", "c2"], ["c3", "c4", "c5"], ["c6"]]


@simulated()
async def test_kubectl_gets_tables(cluster: Cluster) -> None:
    await cluster.make(CONFIGMAPS, configmap("settings", a="1"))

    shown = await cluster.get(CONFIGMAPS, accept=f"{TABLE},application/json")

    assert [column["name"] for column in shown["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert shown["rows"][0]["cells"][:2] == ["settings", 1]


@simulated()
async def test_yaml_is_read_and_written(cluster: Cluster) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '1'}\n"

    made = await cluster.ask("POST", CONFIGMAPS, text, kind="application/yaml", accept="application/yaml")

    assert made.status == 201
    assert "name: settings" in made.body


@pytest.mark.parametrize(
    ("method", "path", "more", "status"),
    [
        ("GET", "/nothing/here", {}, 404),
        ("GET", "/apis/example.io/v1/things", {}, 404),
        ("GET", "/api/v1/configmaps/settings", {}, 404),
        ("POST", f"{CONFIGMAPS}/settings", {}, 405),
        ("GET", CONFIGMAPS, {"accept": "text/csv"}, 406),
        ("POST", CONFIGMAPS, {"kind": "text/plain", "body": b"x"}, 415),
        ("POST", CONFIGMAPS, {"body": b"{"}, 400),
        ("POST", CONFIGMAPS, {"body": b"[1]"}, 400),
        ("POST", CONFIGMAPS, {"body": b'{"data": {"a": "' + b"x" * 3_200_000 + b'"}}'}, 413),
        ("POST", CONFIGMAPS, {"body": {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "x"}}}, 400),
        ("POST", CONFIGMAPS, {"body": {"metadata": {"name": "x", "namespace": "other"}}}, 400),
        ("POST", CONFIGMAPS, {"body": {"metadata": {"name": "Not A Name"}}}, 422),
        ("POST", CONFIGMAPS, {"body": {"metadata": {}}}, 422),
        ("POST", DEPLOYMENTS, {"body": {"metadata": {"name": "web"}, "spec": {}}}, 422),
        ("GET", f"{CONFIGMAPS}?watch=perhaps", {}, 400),
        ("GET", f"{CONFIGMAPS}?limit=many", {}, 400),
    ],
)
@simulated()
async def test_every_refusal_is_a_status_document(
    cluster: Cluster, method: str, path: str, more: dict[str, Any], status: int
) -> None:
    reply = await cluster.ask(method, path, **more)

    assert (reply.status, reply.body["kind"], reply.body["code"]) == (status, "Status", status)
    assert reply.body["message"]


@simulated()
async def test_a_wrong_token_is_refused(cluster: Cluster) -> None:
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer wrong"}) as stranger:
        async with stranger.get(cluster.member.url + "/api/v1/nodes") as response:
            assert (response.status, (await response.json())["reason"]) == (401, "Unauthorized")
        async with stranger.get(cluster.member.url + "/readyz") as response:
            assert response.status == 200


@simulated(tls=True)
async def test_with_tls_the_certificate_is_checked_and_a_token_needed(cluster: Cluster) -> None:
    import ssl

    trusting = ssl.create_default_context(cadata=cluster.fleet.authority.decode())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as nobody:
        async with nobody.get(cluster.member.url + "/api/v1/nodes") as response:
            assert response.status == 401
        token = {"Authorization": f"Bearer {cluster.member.config.token}"}
        async with nobody.get(cluster.member.url + "/api/v1/nodes", headers=token) as response:
            assert response.status == 200
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await cluster.ask("GET", "/readyz")


@simulated()
async def test_generation_counts_intents_and_nothing_else(cluster: Cluster) -> None:
    path = f"{DEPLOYMENTS}/web"
    made = await cluster.make(DEPLOYMENTS, workload("Deployment", replicas=0))

    async def generation_after(patch: dict[str, Any], subresource: str = "") -> int:
        reply = await cluster.ask("PATCH", path + subresource, patch, kind=MERGE)
        assert reply.status == 200, reply
        return int(reply.body["metadata"]["generation"])

    assert made["metadata"]["generation"] == 1
    assert await generation_after({"metadata": {"labels": {"a": "b"}}}) == 1
    assert await generation_after({"status": {"replicas": 7}}) == 1
    assert await generation_after({"status": {"collisionCount": 7}}, "/status") == 1
    assert await generation_after({"spec": {"paused": True}}) == 2
    assert await generation_after({"spec": {"paused": True}}) == 2


@simulated()
async def test_the_status_endpoint_writes_status_and_the_main_one_does_not(cluster: Cluster) -> None:
    path = "/api/v1/nodes/member1-node-1"
    patch = {"metadata": {"labels": {"new": "label"}}, "status": {"phase": "Running"}}

    by_status = await cluster.ask("PATCH", f"{path}/status", patch, kind=MERGE)
    assert (by_status.body["status"]["phase"], "new" in by_status.body["metadata"]["labels"]) == ("Running", False)

    by_main = await cluster.ask("PATCH", path, {**patch, "status": {"phase": "Pending"}}, kind=MERGE)
    assert (by_main.body["status"]["phase"], "new" in by_main.body["metadata"]["labels"]) == ("Running", True)


@simulated()
async def test_what_the_server_set_cannot_be_changed(cluster: Cluster) -> None:
    made = await cluster.make(CONFIGMAPS, configmap("settings"))
    patch = {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9}}

    after = await cluster.ask("PATCH", f"{CONFIGMAPS}/settings", patch, kind=MERGE)

    assert after.body["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert "generation" not in after.body["metadata"]


@simulated()
async def test_scale_reads_and_writes_replicas(cluster: Cluster) -> None:
    await cluster.make(DEPLOYMENTS, workload("Deployment", replicas=2))
    path = f"{DEPLOYMENTS}/web/scale"

    shown = await cluster.get(path)
    assert (shown["kind"], shown["apiVersion"], shown["spec"]["replicas"]) == ("Scale", "autoscaling/v1", 2)

    await cluster.ask("PUT", path, {**shown, "metadata": {"name": "web"}, "spec": {"replicas": 5}})
    assert (await cluster.get(f"{DEPLOYMENTS}/web"))["spec"]["replicas"] == 5

    await cluster.ask("PATCH", path, {"spec": {"replicas": 1}}, kind=MERGE)
    assert (await cluster.get(f"{DEPLOYMENTS}/web"))["spec"]["replicas"] == 1


@simulated()
async def test_a_strategic_patch_changes_one_container(cluster: Cluster) -> None:
    await cluster.make(DEPLOYMENTS, workload("Deployment", replicas=0))
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "web:2"}]}}}}

    after = await cluster.ask("PATCH", f"{DEPLOYMENTS}/web", patch, kind=STRATEGIC)

    [container] = after.body["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["resources"]) == ("web:2", {"requests": {"cpu": "0"}})


@simulated()
async def test_a_collection_is_deleted_by_label(cluster: Cluster) -> None:
    for name in ("a", "b", "c"):
        await cluster.make(CONFIGMAPS, configmap(name, labels={"keep": str(name == "b").lower()}))

    await cluster.ask("DELETE", f"{CONFIGMAPS}?labelSelector=keep%3Dfalse")

    assert names(await cluster.get(CONFIGMAPS)) == ["b"]


@simulated()
async def test_a_token_made_for_a_service_account_is_taken(cluster: Cluster) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await cluster.make(accounts, {"metadata": {"name": "robot"}})

    made = await cluster.make(f"{accounts}/robot/token", {"spec": {}})

    headers = {"Authorization": f"Bearer {made['status']['token']}"}
    async with cluster.session.get(cluster.member.url + "/api/v1/nodes", headers=headers) as response:
        assert response.status == 200


@simulated()
async def test_discovery_names_what_is_served(cluster: Cluster) -> None:
    listed = await cluster.get("/apis/apps/v1")
    assert {"deployments", "deployments/scale", "statefulsets"} <= {one["name"] for one in listed["resources"]}

    kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    aggregated = await cluster.ask("GET", "/apis", accept=kind)
    assert aggregated.headers["Content-Type"] == kind

    index = await cluster.get("/openapi/v3")
    described = await cluster.get(index["paths"]["apis/apps/v1"]["serverRelativeURL"])
    assert described["openapi"].startswith("3.")
    assert (await cluster.get("/version"))["major"] == "1"


@simulated()
async def test_many_writers_at_once_get_every_version_once(cluster: Cluster) -> None:
    replies = await asyncio.gather(*(cluster.make(CONFIGMAPS, configmap(f"c{number}")) for number in range(50)))

    assert len({reply["metadata"]["resourceVersion"] for reply in replies}) == 50


@simulated()
async def test_applying_what_has_no_field_ownership_is_refused_as_kube_apiserver_does(cluster: Cluster) -> None:
    twice = workload("Deployment")
    twice["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A"}, {"name": "A"}]
    unknown = {**workload("Deployment"), "spec": {**workload("Deployment")["spec"], "replica": 3}}

    refused = await cluster.apply(f"{DEPLOYMENTS}/web", twice)
    unheard_of = await cluster.apply(f"{DEPLOYMENTS}/web", unknown)

    where = "failed to create typed patch object (default/web; apps/v1, Kind=Deployment): .spec"
    env = '.template.spec.containers[name="main"].env: duplicate entries for key [name="A"]'
    assert (refused.status, refused.body["message"]) == (500, where + env)
    assert (unheard_of.status, unheard_of.body["message"]) == (500, f"{where}.replica: field not declared in schema")
    assert "reason" not in refused.body
    assert (await cluster.ask("POST", DEPLOYMENTS, twice)).status == 201
