"""The kinds Kubernetes has built in."""

import pytest

from controlplane.wire import builtin
from controlplane.wire.schema import Schema

EVERYTHING = builtin.RESOURCES + builtin.OLDER + builtin.REVIEWS


@pytest.mark.parametrize("resource", EVERYTHING, ids=lambda resource: f"{resource.api_version}/{resource.kind}")
def test_every_kind_of_the_catalogue_has_its_schema(resource):
    schema = builtin.schema(resource.group, resource.version, resource.kind)

    assert (resource.group, resource.version, resource.kind) in schema.gvks
    assert schema.property("metadata").property("ownerReferences").list_map_keys == ("uid",)
    assert schema.property("apiVersion").type == "string"


def test_no_two_resources_share_a_url_or_a_key():
    urls = [(resource.api_version, resource.plural) for resource in EVERYTHING]
    keys = [resource.key for resource in builtin.RESOURCES + builtin.REVIEWS]

    assert len(set(urls)) == len(urls)
    assert len(set(keys)) == len(keys)


def test_a_kind_that_can_be_scaled_has_replicas():
    for resource in builtin.RESOURCES:
        if "scale" in resource.subresources:
            spec = builtin.schema(resource.group, resource.version, resource.kind).property("spec")
            assert spec.property("replicas").type == "integer", resource.key


def test_a_kind_with_a_status_subresource_has_a_status():
    for resource in builtin.RESOURCES:
        schema = builtin.schema(resource.group, resource.version, resource.kind)
        if "status" in resource.subresources:
            assert schema.property("status") is not None, resource.key


def walk(schema: Schema, path: str) -> Schema:
    for name in path.split("."):
        schema = schema.items if name == "[]" else schema.property(name)
        assert schema is not None, f"{path} breaks off at {name}"
    return schema


@pytest.mark.parametrize(
    ("kind", "path", "list_type", "keys", "merge_key", "strategy"),
    [
        (("apps", "v1", "Deployment"), "spec.template.spec.containers", "map", ("name",), "name", ("merge",)),
        (
            ("apps", "v1", "Deployment"),
            "spec.template.spec.containers.[].ports",
            "map",
            ("containerPort", "protocol"),
            "containerPort",
            ("merge",),
        ),
        (("", "v1", "Service"), "spec.ports", "map", ("port", "protocol"), "port", ("merge",)),
        (("", "v1", "Pod"), "spec.volumes", "map", ("name",), "name", ("merge", "retainKeys")),
        (("", "v1", "Pod"), "spec.tolerations", "atomic", (), "", ()),
        (("", "v1", "Pod"), "metadata.finalizers", "set", (), "", ("merge",)),
        (("", "v1", "ServiceAccount"), "secrets", "map", ("name",), "name", ("merge",)),
    ],
)
def test_lists_merge_as_kubernetes_merges_them(kind, path, list_type, keys, merge_key, strategy):
    found = walk(builtin.schema(*kind), path)

    assert (found.list_type, found.list_map_keys) == (list_type, keys)
    assert (found.patch_merge_key, found.patch_strategy) == (merge_key, strategy)


def test_a_port_that_names_no_protocol_is_a_tcp_port():
    for kind, path in ((("", "v1", "Service"), "spec.ports.[]"), (("", "v1", "Pod"), "spec.containers.[].ports.[]")):
        assert walk(builtin.schema(*kind), path).property("protocol").default == "TCP"


def test_quantities_and_ports_may_be_numbers_or_text():
    assert walk(builtin.schema("", "v1", "Pod"), "spec.containers.[].resources.limits.cpu").int_or_string
    assert walk(builtin.schema("", "v1", "Service"), "spec.ports.[].targetPort").int_or_string
    assert walk(builtin.schema("", "v1", "Service"), "spec.selector").map_type == "atomic"
    assert walk(builtin.schema("apps", "v1", "Deployment"), "spec.strategy").patch_strategy == ("retainKeys",)


def test_a_misspelled_field_is_unknown_and_raw_values_are_open():
    assert builtin.schema("apps", "v1", "Deployment").property("spec").property("replica") is None
    assert builtin.schema("apps", "v1", "ControllerRevision").property("data").property("anything") is Schema.OPEN


def test_a_kind_that_is_not_built_in_is_open_and_has_no_owner():
    assert builtin.schema("example.io", "v1", "Thing") is Schema.OPEN
    assert builtin.resource("example.io", "v1", "Thing") is None
    assert not builtin.is_builtin("example.io", "v1", "Thing")
    assert builtin.is_builtin("", "v1", "ConfigMap")


def test_fields_people_ask_for_are_explained():
    deployment = builtin.schema("apps", "v1", "Deployment")

    assert deployment.description
    assert walk(deployment, "spec.replicas").description
    assert walk(deployment, "metadata.labels").description
    assert walk(deployment, "spec.template.spec.containers.[].image").description
