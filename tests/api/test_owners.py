"""propagationPolicy: what becomes of what a deleted object owns."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.controllers import work
from tests.api.server import Answer, Client, Server
from tests.builders.documents import config_map, config_maps, deployment, deployments
from tests.processes import until

BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/{}/resourcebindings"


def family(api: Client, namespace: str) -> None:
    """A ConfigMap that owns two others."""
    uid = api.post(config_maps(namespace), config_map("top")).document["metadata"]["uid"]
    for name in ("one", "two"):
        owned = config_map(name)
        said = {"apiVersion": "v1", "kind": "ConfigMap", "name": "top", "uid": uid, "blockOwnerDeletion": True}
        owned["metadata"]["ownerReferences"] = [said]
        assert api.post(config_maps(namespace), owned).status == 201


def there(api: Client, namespace: str) -> list[str]:
    return [one["metadata"]["name"] for one in api.get(config_maps(namespace)).document["items"]]


def settled(server: Server, api: Client, namespace: str, expected: list[str]) -> None:
    def holds() -> bool:
        work(server, "owners")
        return there(api, namespace) == expected

    until(holds, within=120)


@pytest.mark.parametrize(
    ("options", "at_once"),
    [
        ({}, ["one", "two"]),
        ({"propagationPolicy": "Background"}, ["one", "two"]),
        ({"propagationPolicy": "Foreground"}, ["one", "top", "two"]),
        ({"orphanDependents": False}, ["one", "two"]),
    ],
)
def test_what_is_owned_goes_too(
    server: Server, api: Client, namespace: str, options: dict[str, Any], at_once: list[str]
) -> None:
    family(api, namespace)

    deleted = api.delete(config_maps(namespace, "top"), {"kind": "DeleteOptions", "apiVersion": "v1", **options})

    assert deleted.status == 200
    assert there(api, namespace) == at_once
    if "top" in at_once:
        assert deleted.document["metadata"]["finalizers"] == ["foregroundDeletion"]
    settled(server, api, namespace, [])


@pytest.mark.parametrize("query", [{"propagationPolicy": "Orphan"}, {"orphanDependents": "true"}])
def test_orphans_stay_without_their_owner(server: Server, api: Client, namespace: str, query: dict[str, str]) -> None:
    family(api, namespace)

    assert api.delete(config_maps(namespace, "top"), **query).status == 200

    settled(server, api, namespace, ["one", "two"])
    assert "ownerReferences" not in api.get(config_maps(namespace, "one")).document["metadata"]


@pytest.mark.parametrize(
    "options",
    [
        {"propagationPolicy": "Sideways"},
        {"propagationPolicy": "Orphan", "orphanDependents": True},
    ],
)
def test_impossible_requests_are_refused(api: Client, namespace: str, options: dict[str, Any]) -> None:
    api.post(config_maps(namespace), config_map("top"))

    refused = api.delete(config_maps(namespace, "top"), {"kind": "DeleteOptions", "apiVersion": "v1", **options})

    assert (refused.status, refused.document["reason"]) == (400, "BadRequest")
    assert there(api, namespace) == ["top"]


def bound(api: Client, namespace: str, **spec: Any) -> str:
    """A Deployment with its binding, as a policy would make it; where the binding is."""
    uid = api.post(deployments(namespace), deployment("web")).document["metadata"]["uid"]
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace, "name": "web", "uid": uid}
    made = api.post(
        BINDINGS.format(namespace), {"metadata": {"name": "web-deployment"}, "spec": {"resource": resource, **spec}}
    )
    assert made.status == 201, made.body
    return f"{BINDINGS.format(namespace)}/web-deployment"


@pytest.mark.parametrize("preserves", [False, True])
def test_a_propagated_workload_is_not_orphaned_where_its_copies_would_go(
    api: Client, namespace: str, preserves: bool
) -> None:
    bound(api, namespace, clusters=[{"name": "member1"}], preserveResourcesOnDeletion=preserves)

    answer = api.delete(deployments(namespace, "web"), propagationPolicy="Orphan")

    if preserves:
        assert answer.status == 200
        return
    assert answer.status == 409
    assert "member1" in answer.document["message"]
    assert "preserveResourcesOnDeletion: true" in answer.document["message"]
    assert api.delete(deployments(namespace, "web"), propagationPolicy="Background").status == 200


def test_in_the_foreground_a_workload_goes_after_its_binding(server: Server, api: Client, namespace: str) -> None:
    binding = bound(api, namespace)
    assert api.patch(binding, {"metadata": {"finalizers": ["example.io/hold"]}}).status == 200

    assert api.delete(deployments(namespace, "web"), propagationPolicy="Foreground").status == 200
    work(server, "policies", "owners")

    assert api.get(binding).document["metadata"]["deletionTimestamp"]
    assert api.get(deployments(namespace, "web")).status == 200
    assert api.patch(binding, {"metadata": {"finalizers": None}}).status == 200
    work(server, "owners")
    assert api.get(binding).status == 404
    assert api.get(deployments(namespace, "web")).status == 404


def test_only_one_owner_is_the_controller(api: Client, namespace: str) -> None:
    """An object that was stored with two of them can still be edited."""

    def owner(name: str, **more: Any) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": f"uid-{name}", **more}

    def made(name: str, *owners: dict[str, Any]) -> Answer:
        body = config_map(name)
        body["metadata"]["ownerReferences"] = list(owners)
        return api.post(config_maps(namespace), body, dryRun="All")

    refused = made("two", owner("one", controller=True), owner("other", controller=True))

    assert (refused.status, refused.document["details"]["causes"][0]["field"]) == (422, "metadata.ownerReferences")
    assert (
        "Only one reference can have Controller set to true. "
        'Found "true" in references for ConfigMap/one and ConfigMap/other'
    ) in refused.document["message"]
    assert made("one", owner("one", controller=True), owner("other", controller=False), owner("third")).status == 201


def test_an_event_owns_nothing(api: Client, namespace: str) -> None:
    body = config_map("one")
    body["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Event", "name": "seen", "uid": "u"}]

    refused = api.post(config_maps(namespace), body)

    assert refused.status == 422
    (cause,) = refused.document["details"]["causes"]
    assert cause["field"] == "metadata.ownerReferences[0]"
    assert cause["message"].endswith("/v1, Kind=Event is disallowed from being an owner")


def test_a_name_of_an_object_that_is_being_deleted_is_taken_for_a_while(api: Client, namespace: str) -> None:
    body = config_map("one")
    body["metadata"]["finalizers"] = ["example.io/hold"]
    assert api.post(config_maps(namespace), body).status == 201
    assert api.post(config_maps(namespace), body).document["message"] == 'configmaps "one" already exists'
    assert api.delete(config_maps(namespace, "one")).status == 200

    again = api.post(config_maps(namespace), config_map("one"))

    assert (again.status, again.document["reason"]) == (409, "AlreadyExists")
    assert again.document["message"] == 'object is being deleted: configmaps "one" already exists'
