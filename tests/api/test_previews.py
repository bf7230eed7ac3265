"""A dangerous write answers with its effects as a warning, under --dry-run=server too, whichever way it comes in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.api.server import Answer, Client
from tests.builders.documents import CLUSTERS, cluster

OURS = "/apis/failover.lifeboat.io/v1alpha1"
POLICIES = "/apis/policy.karmada.io/v1alpha1"
BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/{}/resourcebindings"
Write = Callable[[Client, str, str], Answer]


@pytest.fixture
def placed(api: Client, namespace: str) -> str:
    """A cluster with the copy of a ConfigMap on it; its name."""
    name = f"{namespace}-a"
    assert api.post(CLUSTERS, cluster(name)).status == 201
    config = f"/api/v1/namespaces/{namespace}/configmaps"
    assert api.post(config, {"metadata": {"name": "web"}}).status == 201
    resource = {"apiVersion": "v1", "kind": "ConfigMap", "name": "web", "namespace": namespace}
    affinity = {"clusterAffinity": {"clusterNames": [name]}}
    spec = {"resource": resource, "clusters": [{"name": name}], "placement": affinity}
    assert api.post(BINDINGS.format(namespace), {"metadata": {"name": "web-configmap"}, "spec": spec}).status == 201
    return name


def drain(api: Client, name: str, namespace: str, **query: str) -> Answer:
    return api.post(f"{OURS}/drains", {"metadata": {"name": name}, "spec": {"cluster": name}}, **query)


def delete_workload(api: Client, name: str, namespace: str, **query: str) -> Answer:
    return api.delete(f"/api/v1/namespaces/{namespace}/configmaps/web", **query)


def delete_workloads(api: Client, name: str, namespace: str, **query: str) -> Answer:
    return api.delete(f"/api/v1/namespaces/{namespace}/configmaps", **query)


def delete_binding(api: Client, name: str, namespace: str, **query: str) -> Answer:
    return api.delete(f"{BINDINGS.format(namespace)}/web-configmap", **query)


def unjoin(api: Client, name: str, namespace: str, **query: str) -> Answer:
    wish = {"metadata": {"annotations": {"failover.lifeboat.io/unjoin": "keep"}}}
    assert api.patch(f"{CLUSTERS}/{name}", wish).status == 200
    return api.delete(f"{CLUSTERS}/{name}", **query)


WRITES: dict[str, tuple[Any, str]] = {
    "a drain": (drain, "moves nothing, 1 without a place, 1 namespace"),
    "a deleted workload": (delete_workload, "removes the copies of 1, 1 namespace"),
    "deleted workloads": (delete_workloads, "removes the copies of 1, 1 namespace"),
    "a deleted binding": (delete_binding, "removes the copies of 1, 1 namespace"),
    "an unjoined cluster": (unjoin, "moves nothing, 1 without a place, 1 namespace"),
}


@pytest.mark.parametrize("case", WRITES)
def test_the_effects_are_a_warning_of_the_write_and_of_its_dry_run(
    api: Client, placed: str, namespace: str, case: str
) -> None:
    write, sentence = WRITES[case]

    asked, done = write(api, placed, namespace, dryRun="All"), write(api, placed, namespace)

    for answer in (asked, done):
        assert answer.status in (200, 201), answer.body
        assert f"effects: {sentence}" in answer.headers.get("warning", "")


def test_a_write_without_effects_has_no_warning(api: Client, namespace: str) -> None:
    name = f"{namespace}-b"
    assert api.post(CLUSTERS, cluster(name)).status == 201

    done = [
        api.post(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "free"}}),
        api.delete(f"/api/v1/namespaces/{namespace}/configmaps/free"),
        api.delete(f"{CLUSTERS}/{name}"),
    ]

    assert ["effects" in answer.headers.get("warning", "") for answer in done] == [False, False, False]
