"""Discovery, OpenAPI and the urlconf agree about every kind, because all three are derived from its declaration."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from django.urls import resolve

from apps.api.discovery import REVIEWS, _schema
from apps.api.target import target_of
from apps.api.views import ObjectView, TargetView
from apps.objects.definitions import Definitions
from controlplane.apimachinery.errors import NotFound
from controlplane.kind import KINDS
from controlplane.wire import discovery
from controlplane.wire.openapi import OpenAPI
from controlplane.wire.resource import COLLECTION_METHODS, OBJECT_METHODS, SUBRESOURCE_METHODS, SUBRESOURCES, Resource

RESOURCES = (*(kind.resource for kind in KINDS if not KINDS.is_custom(kind)), *REVIEWS)


@pytest.fixture(autouse=True)
def without_custom_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds that users define are stored in the database; these tests are about the others."""
    monkeypatch.setattr(Definitions, "refresh", lambda self, *, at_once=False: None)


@pytest.fixture(scope="module")
def openapi() -> OpenAPI:
    return OpenAPI(RESOURCES, _schema)


def listed(resource: Resource) -> dict[str, set[str]]:
    """Return the verbs that discovery lists for a resource ("") and each of its subresources."""
    document = discovery.api_resource_list(RESOURCES, resource.group, resource.version)
    assert document is not None
    entries = {entry["name"]: set(entry["verbs"]) for entry in document["resources"]}
    return {
        name.removeprefix(resource.plural).removeprefix("/"): verbs
        for name, verbs in entries.items()
        if name == resource.plural or name.startswith(f"{resource.plural}/")
    }


def urls(resource: Resource) -> dict[str, dict[str, str]]:
    """Return the verb of each method of each URL, from what discovery lists."""
    start = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    namespace = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{start}{namespace}/{resource.plural}"
    found: dict[str, dict[str, str]] = {}
    for subresource, verbs in listed(resource).items():
        tables = {f"{collection}/{{name}}/{subresource}": SUBRESOURCE_METHODS}
        if not subresource:
            tables = {collection: COLLECTION_METHODS, f"{collection}/{{name}}": OBJECT_METHODS}
        for url, table in tables.items():
            found[url] = {method.lower(): verb for method, verb in table.items() if verb in verbs}
    if resource.namespaced and "list" in resource.verbs:
        found[f"{start}/{resource.plural}"] = {"get": "list"}
    return {url: methods for url, methods in found.items() if methods}


def view_of(url: str) -> Any:
    path = url.format(namespace="default", name="web")
    return resolve(path).func.cls


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: f"{one.api_version}/{one.kind}")
def test_what_discovery_lists_is_described_and_routed(openapi: OpenAPI, resource: Resource) -> None:
    group_version = f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"
    described = orjson.loads(openapi.document(group_version) or b"")["paths"]
    own = {url for url in described if resource.plural in url.split("/")[-3:] and _is_of(url, resource)}

    assert own == set(urls(resource))
    for url, methods in urls(resource).items():
        assert described[url].keys() - {"parameters"} == set(methods), url
        view = view_of(url)
        assert set(methods) <= set(view.http_method_names), url
        assert all(hasattr(view, method) for method in methods), url
        if issubclass(view, TargetView):
            target = target_of(url.format(namespace="default", name="web"))
            assert target.resource == resource, url


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: f"{one.api_version}/{one.kind}")
def test_a_subresource_that_is_not_declared_is_not_found(resource: Resource) -> None:
    namespace = "/namespaces/default" if resource.namespaced else ""
    refused = {"log"} if resource.key == "Pod" else set()  # with the way to the member: apps/api/elsewhere.py
    for name in SUBRESOURCES.keys() - set(resource.subresources) - refused:
        path = f"/apis/{resource.api_version}{namespace}/{resource.plural}/web/{name}"
        path = path if resource.group else path.replace("/apis/", "/api/", 1)

        assert issubclass(resolve(path).func.cls, ObjectView), path
        with pytest.raises(NotFound):
            target_of(path)


def _is_of(url: str, resource: Resource) -> bool:
    """Test whether a path belongs to a resource, and not to a namespace or object of the same name."""
    if "{namespace}" in url and not resource.namespaced:
        return False
    rest = url.split("/")[4 if resource.group else 3 :]
    rest = rest[2:] if resource.namespaced and rest[:1] == ["namespaces"] else rest
    return rest[:1] == [resource.plural]


def test_an_undeclared_subresource_fails_at_the_declaration() -> None:
    with pytest.raises(ValueError, match="Boat declares the subresource sail"):
        Resource("example.io", "v1", "Boat", "boats", "boat", True, subresources=("sail",))
