"""The OpenAPI documents kubectl explains, validates and patches by."""

import orjson
import pytest

from controlplane.wire import builtin, openapi_v2
from controlplane.wire.openapi import OpenAPI, emitted, references
from controlplane.wire.resource import Resource
from controlplane.wire.schema import REF_PREFIX, Components, Schema

THING = Resource("example.io", "v1", "Thing", "things", "thing", True, subresources=("status",))
THING_SCHEMA = Schema(
    {
        "type": "object",
        "required": ["apiVersion", "kind", "spec"],
        "properties": {
            "metadata": {"type": "object", "description": "Who it is."},
            "spec": {"type": "object", "properties": {"size": {"type": "integer", "description": "How big."}}},
        },
    }
)


def schema_of(resource: Resource) -> Schema:
    return THING_SCHEMA if resource is THING else builtin.schema(resource.group, resource.version, resource.kind)


@pytest.fixture(scope="module")
def api() -> OpenAPI:
    return OpenAPI((*builtin.RESOURCES, *builtin.REVIEWS, THING), schema_of)


def load(api, path):
    return orjson.loads(api.document(path))


def test_every_reference_of_every_document_leads_somewhere(api):
    for path in api.paths:
        document = load(api, path)
        missing = set(references(document)) - document["components"]["schemas"].keys()
        assert not missing, path


def test_nothing_stands_beside_a_reference(api):
    def check(node):
        if isinstance(node, dict):
            assert not isinstance(node.get("$ref"), str) or len(node) == 1, node
            for value in node.values():
                check(value)
        elif isinstance(node, list):
            for value in node:
                check(value)

    for path in api.paths:
        check(load(api, path))


def test_the_index_leads_to_every_document_by_its_content(api):
    index = api.index()["paths"]

    assert index["apis/apps/v1"]["serverRelativeURL"] == f"/openapi/v3/apis/apps/v1?hash={api.digest('apis/apps/v1')}"
    assert set(index) == {"api/v1", "apis/example.io/v1"} | {
        f"apis/{resource.api_version}" for resource in (*builtin.RESOURCES, *builtin.REVIEWS) if resource.group
    }
    assert api.document("apis/unknown.io/v1") is None


@pytest.mark.parametrize("resource", [*builtin.RESOURCES, THING], ids=lambda resource: resource.key)
def test_every_kind_can_be_found_and_patched_by_its_kind(api, resource):
    document = load(api, f"apis/{resource.api_version}" if resource.group else "api/v1")
    gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}

    described = [
        node
        for node in document["components"]["schemas"].values()
        if gvk in node.get("x-kubernetes-group-version-kind", ())
    ]
    patches = [
        entry["patch"]
        for path, entry in document["paths"].items()
        if path.endswith("{name}") and entry.get("patch", {}).get("x-kubernetes-group-version-kind") == gvk
    ]

    assert len(described) == len(patches) == 1
    assert {one["name"] for one in patches[0]["parameters"]} >= {"dryRun", "fieldManager", "fieldValidation", "force"}


def test_actions_and_scopes_follow_the_resource(api):
    paths = load(api, "api/v1")["paths"]

    assert paths["/api/v1/namespaces/{namespace}/pods"]["post"]["x-kubernetes-action"] == "post"
    assert paths["/api/v1/namespaces/{namespace}/pods"]["get"]["x-kubernetes-action"] == "list"
    assert set(paths["/api/v1/pods"]) == {"get"}
    assert set(paths["/api/v1/namespaces/{name}"]) == {"get", "put", "patch", "delete", "parameters"}
    assert set(paths["/api/v1/namespaces/{namespace}/pods/{name}/status"]) == {"get", "put", "patch", "parameters"}
    reviews = load(api, "apis/authorization.k8s.io/v1")["paths"]
    assert set(reviews["/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"]) == {"post"}
    assert not [path for path in reviews if path.endswith("{name}")]


def test_scale_is_served_as_the_kind_it_is(api):
    scale = load(api, "apis/apps/v1")["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]

    assert scale["get"]["x-kubernetes-group-version-kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}


def test_a_kind_of_a_user_gets_the_metadata_every_kind_has(api):
    thing = load(api, "apis/example.io/v1")["components"]["schemas"]["io.example.v1.Thing"]

    meta = REF_PREFIX + "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    assert thing["properties"]["metadata"] == {"description": "Who it is.", "allOf": [{"$ref": meta}]}
    assert thing["properties"]["spec"]["properties"]["size"]["description"] == "How big."
    assert thing["properties"]["kind"] == {"type": "string"}
    assert thing["required"] == ["spec"]


def test_a_kind_without_schema_is_still_a_kind():
    api = OpenAPI([THING], lambda resource: Schema.OPEN)

    thing = load(api, "apis/example.io/v1")["components"]["schemas"]["io.example.v1.Thing"]

    assert thing["x-kubernetes-preserve-unknown-fields"] is True
    assert set(thing["properties"]) == {"apiVersion", "kind", "metadata"}


def test_a_new_kind_leaves_the_bytes_of_other_versions_alone(api):
    other = Resource("other.io", "v1", "Other", "others", "other", True)
    before = api.document("apis/apps/v1")

    grown = OpenAPI((*builtin.RESOURCES, THING, other), schema_of, reuse=api)

    assert grown.document("apis/apps/v1") is before
    assert grown.document("apis/other.io/v1") is not None
    assert "apis/authorization.k8s.io/v1" not in grown.index()["paths"]


def test_a_changed_schema_changes_the_hash(api):
    changed = Schema({"type": "object", "properties": {"spec": {"type": "object"}}})

    after = OpenAPI([THING], lambda resource: changed, reuse=api)

    assert after.digest("apis/example.io/v1") != api.digest("apis/example.io/v1")


def test_a_property_called_like_a_reference_is_none():
    node = {"properties": {"$ref": {"type": "string"}, "other": {"type": "string"}}}

    assert emitted(node) == node
    assert list(references(node)) == []


def test_recursive_kinds_end():
    tree = {"example.Tree": {"type": "object", "properties": {"child": {"$ref": REF_PREFIX + "example.Tree"}}}}
    api = OpenAPI([THING], lambda resource: Components(tree).schema("example.Tree"))

    assert "example.Tree" in load(api, "apis/example.io/v1")["components"]["schemas"]


INT_OR_STRING = {"x-kubernetes-int-or-string": True}


@pytest.mark.parametrize(
    ("stated", "shown"),
    [
        (INT_OR_STRING, INT_OR_STRING),
        ({**INT_OR_STRING, "anyOf": [{"type": "integer"}, {"type": "string"}]}, INT_OR_STRING),
        ({**INT_OR_STRING, "nullable": True}, INT_OR_STRING),
        (
            {"x-kubernetes-preserve-unknown-fields": True, "nullable": True},
            {"x-kubernetes-preserve-unknown-fields": True},
        ),
        ({"type": "string", "nullable": True}, {"type": "string"}),
    ],
)
def test_clients_of_version_2_expect_every_type_that_a_value_may_have(stated, shown):
    """Argo CD compares objects by this document: a number in a field of type string is an error of the whole app."""
    node = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"field": stated}}}}
    api = OpenAPI((THING,), lambda resource: Schema(node))

    document = openapi_v2.document([api.document(path) for path in api.paths], title="Lifeboat", version="1")

    spec = document["definitions"]["io.example.v1.Thing"]["properties"]["spec"]
    assert spec["properties"]["field"] == shown
