"""Deleting a Cluster by HTTP: refused while bindings are on it, held until it has been emptied [unjoin-and-drain]."""

from __future__ import annotations

import pytest

from tests.api.server import Client
from tests.builders.documents import CLUSTERS, cluster

BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/{}/resourcebindings"
WISH = "failover.lifeboat.io/unjoin"


def join(api: Client, name: str, **labels: str) -> str:
    """Return the URL of a new cluster."""
    document = cluster(name)
    made = api.post(CLUSTERS, {**document, "metadata": {"name": name, "labels": labels}})
    assert made.status == 201, made.body
    return f"{CLUSTERS}/{name}"


def place(api: Client, namespace: str, name: str) -> None:
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": namespace}
    spec = {"resource": resource, "clusters": [{"name": name}]}
    made = api.post(BINDINGS.format(namespace), {"metadata": {"name": "web-deployment"}, "spec": spec})
    assert made.status == 201, made.body


def is_leaving(api: Client, where: str) -> bool:
    return "deletionTimestamp" in api.get(where).document["metadata"]


def test_a_cluster_is_held_until_it_has_been_emptied(api: Client, namespace: str) -> None:
    where = join(api, f"{namespace}-a")
    assert api.get(where).document["metadata"]["finalizers"] == ["karmada.io/cluster-controller"]

    deleted = api.delete(where)

    assert deleted.status == 200
    assert deleted.document["metadata"]["deletionTimestamp"]
    assert is_leaving(api, where)
    assert api.delete(where).status == 200

    api.patch(where, {"metadata": {"finalizers": None}})  # what karmadactl unjoin --force does
    assert api.get(where).status == 404


@pytest.mark.parametrize("wish", ["keep", "delete"])
def test_a_cluster_with_bindings_goes_only_after_an_order_about_them(api: Client, namespace: str, wish: str) -> None:
    where = join(api, f"{namespace}-a")
    place(api, namespace, f"{namespace}-a")

    refused = [api.delete(where), api.delete(where, dryRun="All")]

    assert [one.status for one in refused] == [409, 409]
    for said in (refused[0].document["message"], refused[1].document["message"]):
        assert f"{namespace}/web-deployment" in said
        assert f"{WISH}=keep" in said
    assert not is_leaving(api, where)

    wrong = api.patch(where, {"metadata": {"annotations": {WISH: "perhaps"}}})
    assert wrong.status == 422
    assert wrong.document["details"]["causes"][0]["field"] == f"metadata.annotations[{WISH}]"

    assert api.patch(where, {"metadata": {"annotations": {WISH: wish}}}).status == 200
    assert api.delete(where).status == 200
    assert is_leaving(api, where)


def test_a_collection_is_deleted_whole_or_not_at_all(api: Client, namespace: str) -> None:
    full, free = (join(api, f"{namespace}-{name}", team=namespace) for name in ("full", "free"))
    place(api, namespace, f"{namespace}-full")

    refused = api.delete(CLUSTERS, labelSelector=f"team={namespace}")

    assert refused.status == 409
    assert refused.document["details"]["name"] == f"{namespace}-full"
    assert not is_leaving(api, full)
    assert not is_leaving(api, free)

    api.patch(full, {"metadata": {"annotations": {WISH: "keep"}}})
    assert api.delete(CLUSTERS, labelSelector=f"team={namespace}").status == 200
    assert is_leaving(api, full)
    assert is_leaving(api, free)


def test_an_unusual_proxy_header_is_warned_of_and_a_bad_one_refused(api: Client, namespace: str) -> None:
    useless = api.post(CLUSTERS, cluster(f"{namespace}-a", proxyHeader={"X-Tenant": "blue"}))
    bad = api.post(CLUSTERS, cluster(f"{namespace}-b", proxyURL="http://proxy", proxyHeader={"a b": "x", "c": "d\ne"}))

    assert "has no effect without an HTTP proxy" in useless.headers["warning"]
    assert [one["field"] for one in bad.document["details"]["causes"]] == [
        "spec.proxyHeader[a b]",
        "spec.proxyHeader[c]",
    ]
