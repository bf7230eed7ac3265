"""What the API says it serves."""

import pytest

from controlplane.wire import builtin, discovery
from controlplane.wire.resource import Resource

CLUSTER = Resource(
    "cluster.example.io",
    "v1alpha1",
    "Cluster",
    "clusters",
    "cluster",
    False,
    short_names=("cl",),
    categories=("fleet",),
    subresources=("status", "fence"),
)
RESOURCES = (*builtin.RESOURCES, *builtin.REVIEWS, CLUSTER)


def entry(document, name):
    return next(one for one in document["resources"] if one["name"] == name)


def test_the_core_group_is_found_under_api_and_no_other():
    assert discovery.api_versions()["versions"] == ["v1"]
    assert "" not in [group["name"] for group in discovery.api_group_list(RESOURCES)["groups"]]
    assert [item["metadata"] for item in discovery.aggregated(RESOURCES, core=True)["items"]] == [
        {"creationTimestamp": None}
    ]


def test_the_ladder_and_the_aggregate_name_the_same_resources():
    ladder = {
        (resource.api_version, one["name"], one["kind"], one["namespaced"], tuple(one["verbs"]))
        for resource in RESOURCES
        for one in discovery.api_resource_list(RESOURCES, resource.group, resource.version)["resources"]
        if "/" not in one["name"]
    }
    aggregate = {
        (
            f"{item['metadata'].get('name', '')}/{version['version']}".removeprefix("/"),
            one["resource"],
            one["responseKind"]["kind"],
            one["scope"] == "Namespaced",
            tuple(one["verbs"]),
        )
        for core in (True, False)
        for item in discovery.aggregated(RESOURCES, core=core)["items"]
        for version in item["versions"]
        for one in version["resources"]
    }

    assert ladder == aggregate
    assert len(ladder) == len(RESOURCES)


def test_a_resource_is_listed_with_its_names_and_subresources():
    listed = discovery.api_resource_list(RESOURCES, "apps", "v1")
    deployments = entry(listed, "deployments")

    assert deployments["shortNames"] == ["deploy"]
    assert deployments["categories"] == ["all"]
    assert deployments["singularName"] == "deployment"
    assert entry(listed, "deployments/status")["kind"] == "Deployment"
    assert entry(listed, "deployments/scale") == {
        "name": "deployments/scale",
        "singularName": "",
        "namespaced": True,
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
        "verbs": ["get", "patch", "update"],
    }


def test_the_aggregate_keeps_subresources_inside_their_resource():
    (group,) = (item for item in discovery.aggregated([CLUSTER], core=False, version="v2beta1")["items"])

    (cluster,) = group["versions"][0]["resources"]
    assert [one["subresource"] for one in cluster["subresources"]] == ["status", "fence"]
    assert cluster["scope"] == "Cluster"
    assert cluster["responseKind"] == {"group": "cluster.example.io", "version": "v1alpha1", "kind": "Cluster"}
    assert group["versions"][0]["freshness"] == "Current"


def test_reviews_can_only_be_created():
    reviews = discovery.api_resource_list(RESOURCES, "authorization.k8s.io", "v1")

    assert entry(reviews, "selfsubjectaccessreviews")["verbs"] == ["create"]


def test_of_several_versions_the_stable_and_newer_one_is_preferred():
    versions = ("v1alpha1", "v2beta1", "v1", "v1beta2", "v2", "v1beta10", "first")
    resources = [Resource("g.io", version, "Thing", "things", "thing", True) for version in versions]

    group = discovery.api_group(resources, "g.io")

    assert [one["version"] for one in group["versions"]] == [
        "v2",
        "v1",
        "v2beta1",
        "v1beta10",
        "v1beta2",
        "v1alpha1",
        "first",
    ]
    assert group["preferredVersion"] == {"groupVersion": "g.io/v2", "version": "v2"}


@pytest.mark.parametrize("version", discovery.AGGREGATED_VERSIONS)
def test_an_aggregate_carries_the_version_its_content_type_says(version):
    assert discovery.aggregated(RESOURCES, core=False, version=version)["apiVersion"].endswith(f"/{version}")
    assert f";v={version};as=APIGroupDiscoveryList" in discovery.content_type(version)


def test_what_is_not_served_is_not_answered():
    assert discovery.api_group(RESOURCES, "unknown.io") is None
    assert discovery.api_group(RESOURCES, "") is None
    assert discovery.api_resource_list(RESOURCES, "apps", "v2") is None


def test_the_version_names_kubernetes_release_and_ours():
    document = discovery.version_document("0.1.0", commit="abc", kubernetes="1.32")

    assert (document["major"], document["minor"]) == ("1", "32")
    assert document["gitVersion"] == "v1.32.0+lifeboat.0.1.0"
