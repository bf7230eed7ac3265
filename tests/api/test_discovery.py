"""What is served, in the forms clients ask for."""

from __future__ import annotations

import pytest

from tests.api.server import Client

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
KUBECTL = f"{AGGREGATED.format('v2')},{AGGREGATED.format('v2beta1')},application/json"


@pytest.mark.parametrize(
    ("accept", "version"), [(KUBECTL, "v2"), (f"{AGGREGATED.format('v2beta1')},application/json", "v2beta1")]
)
@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_aggregated_discovery_is_answered_with_its_own_type(api: Client, path: str, accept: str, version: str) -> None:
    answer = api.get(path, accept=accept)

    assert answer.type == AGGREGATED.format(version)
    assert answer.document["kind"] == "APIGroupDiscoveryList"


def test_the_old_ladder_leads_to_every_kind(api: Client) -> None:
    assert api.get("/api").document["versions"] == ["v1"]
    groups = {group["name"] for group in api.get("/apis/").document["groups"]}
    resources = {one["name"]: one for one in api.get("/apis/cluster.karmada.io/v1alpha1").document["resources"]}

    assert {"apps", "policy.karmada.io", "work.karmada.io", "authorization.k8s.io"} <= groups
    assert api.get("/apis/apps").document["preferredVersion"]["groupVersion"] == "apps/v1"
    assert resources["clusters"]["namespaced"] is False
    assert "watch" in resources["clusters"]["verbs"]
    assert "clusters/status" in resources


def test_every_listed_kind_can_be_listed(api: Client) -> None:
    groups = [f"/apis/{one['preferredVersion']['groupVersion']}" for one in api.get("/apis").document["groups"]]
    for path in ["/api/v1", *groups]:
        for resource in api.get(path).document["resources"]:
            if "list" in resource["verbs"]:
                assert api.get(f"{path}/{resource['name']}").status == 200, resource


def test_the_version_is_one_kubectl_compares_with_its_own(api: Client) -> None:
    version = api.get("/version").document

    assert (version["major"], version["minor"]) == ("1", "32")
    assert "lifeboat" in version["gitVersion"]


def test_openapi_is_found_by_its_hash_and_may_be_kept(api: Client) -> None:
    index = api.get("/openapi/v3").document["paths"]
    url = index["apis/policy.karmada.io/v1alpha1"]["serverRelativeURL"]

    answer = api.get(url)
    again = api.send(
        "GET", url, None, {"Authorization": f"Bearer {api.token}", "If-None-Match": answer.headers["etag"]}
    )

    assert "immutable" in answer.headers["cache-control"]
    assert "max-age" not in api.get(url.partition("?")[0]).headers.get("cache-control", "")
    assert again.status == 304
    patch = answer.document["paths"][
        "/apis/policy.karmada.io/v1alpha1/namespaces/{namespace}/propagationpolicies/{name}"
    ]["patch"]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3/api/v1"])
@pytest.mark.parametrize("known", ["{}", "W/{}", '"other", {}', "*"])
def test_a_document_that_a_client_has_is_not_sent_again_and_keeps_its_type(api: Client, path: str, known: str) -> None:
    """Clients copy the headers of a 304 to what they have kept. A proxy that compresses answers makes ETags weak."""
    first = api.get(path)
    headers = {"Authorization": f"Bearer {api.token}", "If-None-Match": known.format(first.headers["etag"])}

    again, other = (api.send("GET", path, None, {**headers, **more}) for more in ({}, {"If-None-Match": '"other"'}))

    assert (again.status, again.body, other.status) == (304, b"", 200)
    assert "content-type" not in again.headers
    assert [again.headers.get(name) for name in ("etag", "vary")] == [first.headers[name] for name in ("etag", "vary")]


def test_a_browser_gets_a_page_of_the_same_urls(api: Client) -> None:
    firefox = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    for path in ("/", "/api", "/apis/apps/v1/deployments", "/api/v1/namespaces/default", "/debug/controllers"):
        page = api.get(path, accept=firefox)
        assert (page.status, page.type) == (200, "text/html; charset=utf-8")
        assert b"<html" in page.body
    assert b"application/yaml" in api.get("/api/v1/namespaces", accept=firefox).body


def test_a_page_names_the_user_as_whom_it_was_asked_for(api: Client) -> None:
    headers = {"Impersonate-User": "grace", "Impersonate-Group": "system:masters", "Accept": "text/html"}

    page = api.send("GET", "/api/v1/namespaces", None, {"Authorization": f"Bearer {api.token}", **headers})

    assert page.status == 200
    assert b"grace" in page.body
    assert b"Identity object" not in page.body


def test_metrics_and_controllers(api: Client) -> None:
    metrics = api.get("/metrics", accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    controllers = api.get("/debug/controllers").document["controllers"]

    assert metrics.status == 200
    assert b"lifeboat_due_objects{" in metrics.body
    assert b"lifeboat_resource_version" in metrics.body
    assert {"name", "group", "due", "oldestSeconds", "leases"} <= controllers[0].keys()


def test_readiness_says_what_was_looked_at(api: Client) -> None:
    answer = api.get("/readyz?verbose")

    assert answer.status == 200
    for name in ("database", "migrations", "writes", "redis", "workers fleet/0", "workers failover/0", "members"):
        assert f"]{name} ".encode() in answer.body
