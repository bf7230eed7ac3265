"""What every kind has in common: identity, metadata, causes reported at once, generations."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from controlplane.admission.admit import admit_create
from controlplane.apimachinery.errors import BadRequest, Conflict
from controlplane.apimachinery.meta import OwnerReference
from controlplane.kind import KINDS
from controlplane.kinds.template import Template
from controlplane.kube.rules import sign
from controlplane.wire import builtin, document_check
from tests.builders.documents import Document, cluster, policy, taint_policy
from tests.core.admitted import NOW, ON, UID, created, fields, refused, updated, with_metadata


def test_a_new_object_gets_what_only_the_server_knows() -> None:
    doc = with_metadata(uid="mine", resourceVersion="7", generation=9, creationTimestamp=None)

    metadata = created(doc).object.metadata

    assert (metadata.uid, metadata.resource_version) == (UID, "")
    assert metadata.creation_timestamp == NOW.replace(microsecond=0)
    assert metadata.namespace == "default"


def test_a_status_sent_with_a_new_object_is_ignored() -> None:
    doc = cluster() | {"status": {"kubernetesVersion": "v9"}}

    assert created(doc).object.status.kubernetes_version == ""


def test_a_generated_name_ends_in_letters_drawn_from_the_uid() -> None:
    doc = with_metadata("", generateName="cm-")

    first, second = created(doc).object.metadata.name, created(doc).object.metadata.name

    assert first == second
    assert first.startswith("cm-")
    assert len(first) == len("cm-") + 5


def test_a_generated_name_fits_into_a_label_as_in_kubernetes() -> None:
    name = created(with_metadata("", generateName="nightly-" * 8)).object.metadata.name

    assert (len(name), name[:58]) == (63, ("nightly-" * 8)[:58])


def test_an_object_without_a_namespace_of_its_own_has_none_whatever_its_manifest_names() -> None:
    doc = cluster()
    doc["metadata"]["namespace"] = "release"

    made = created(doc, namespace="").object

    assert made.metadata.namespace == ""
    assert updated(doc, made).object.metadata.namespace == ""


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "No_Good"}, "metadata.name"),
        ({"name": ""}, "metadata.name"),
        ({"labels": {"a b": "x"}}, "metadata.labels"),
        ({"labels": {"a": "x y"}}, "metadata.labels"),
        ({"annotations": {"a/b/c": ""}}, "metadata.annotations"),
        ({"annotations": {"a": "x" * 300_000}}, "metadata.annotations"),
        ({"finalizers": ["not a name"]}, "metadata.finalizers"),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "x", "uid": "u"}]},
            "metadata.ownerReferences[0].kind",
        ),
    ],
)
def test_metadata_that_cannot_be_is_refused_by_field(change: Document, field: str) -> None:
    assert field in fields(with_metadata(**change) if "name" not in change else {**with_metadata(), "metadata": change})


def test_all_causes_are_reported_at_once_schema_and_metadata_together() -> None:
    doc = policy("Bad Name", priority="high", placement=[])
    doc["spec"]["resourceSelectors"] = [{"apiVersion": "apps/v1"}]

    assert fields(doc) == {"metadata.name", "spec.priority", "spec.placement", "spec.resourceSelectors[0].kind"}


A, B = {"key": "a", "effect": "NoExecute"}, {"key": "b", "effect": "NoSchedule"}


@pytest.mark.parametrize("made", [lambda *taints: cluster(taints=taints), lambda *taints: taint_policy(taints=taints)])
@pytest.mark.parametrize(
    ("taints", "found"),
    [
        ((A, A, A | {"value": "x"}), {"[1]", "[2]"}),
        ((A, A | {"value": 3}, B, B), {"[1].value", "[1]", "[3]"}),
        (
            (A, "nonsense", A, {"key": 5, "effect": "NoExecute"}, {"key": 6, "effect": "NoExecute"}),
            {"[1]", "[2]", "[3].key", "[4].key"},
        ),
        ((A, A, B | {"effect": "NoExec"}, B | {"effect": ""}), {"[1]", "[2].effect", "[3].effect"}),
        (({"key": "a"}, {"effect": "NoExecute"}, A, A), {"[0].effect", "[1].key", "[3]"}),
        ((A | {"key": "a b"}, A | {"value": ["x"]}, A), {"[0].key", "[1].value", "[2]"}),
    ],
)
def test_a_taint_twice_is_reported_at_the_later_one_whatever_else_is_wrong(
    made: Callable[..., Document], taints: tuple[Any, ...], found: set[str]
) -> None:
    assert fields(made(*taints)) == {f"spec.taints{place}" for place in found}


def test_a_time_that_is_none_hides_nothing_else() -> None:
    taints = [A | {"timeAdded": "yesterday"}, A | {"timeAdded": 3}, B | {"effect": "NoExec"}]
    doc = cluster(taints=taints, syncMode="Pushy")
    doc["metadata"] |= {"name": "No_Good", "deletionTimestamp": "soon"}

    assert fields(doc) == {
        "metadata.name",
        "metadata.deletionTimestamp",
        "spec.syncMode",
        "spec.taints[0].timeAdded",
        "spec.taints[1].timeAdded",
        "spec.taints[1]",
        "spec.taints[2].effect",
    }


def test_what_fits_the_schema_and_not_the_type_is_reported_with_its_value() -> None:
    (late,) = refused(cluster(taints=[A | {"timeAdded": "yesterday"}]))
    (large,) = refused(policy(priority=1e20))

    assert late.message.startswith('Invalid value: "yesterday": ')
    assert large.field == "spec.priority"
    assert large.message.startswith("Invalid value: 1e20: must be less than or equal to ")


def test_the_message_names_field_value_rule_and_way_out() -> None:
    taint = {"key": "a", "effect": "NoExec"}

    (cause,) = refused(cluster(taints=[taint]))

    assert cause.reason == "FieldValueNotSupported"
    assert cause.field == "spec.taints[0].effect"
    assert cause.message.startswith('Unsupported value: "NoExec": supported values: "NoSchedule", ')


def test_null_says_that_a_field_is_not_set() -> None:
    doc = policy(placement={"clusterAffinity": None, "spreadConstraints": None}, failover=None)

    assert created(doc).object.spec.failover is None


def test_a_built_in_kind_is_checked_against_its_own_schema() -> None:
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"image": "nginx"}]}}
    doc = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": "3", "selector": {"matchLabels": {"a": "b"}}, "template": pod},
    }

    assert fields(doc) == {"spec.replicas", "spec.template.spec.containers[0].name"}


def test_another_kinds_or_namespaces_document_is_a_bad_request() -> None:
    doc = with_metadata(namespace="other")
    with pytest.raises(BadRequest, match="namespace"):
        created(doc)
    with pytest.raises(BadRequest, match="kind"):
        admit_create(KINDS["Secret"], with_metadata(), namespace="default", settings=ON, now=NOW, uid=UID)


# Updates


def test_an_update_keeps_identity_and_raises_the_generation_only_with_the_spec() -> None:
    old = created(policy()).object

    same = updated(policy(metadata={"labels": dict(old.metadata.labels)}), old).object
    other = updated(policy(metadata={"labels": dict(old.metadata.labels)}, priority=1), old).object

    assert (same.metadata.uid, same.metadata.generation) == (UID, 1)
    assert (other.metadata.uid, other.metadata.generation) == (UID, 2)
    assert other.metadata.creation_timestamp == old.metadata.creation_timestamp


def test_an_update_of_the_spec_leaves_the_status_and_one_of_the_status_the_spec() -> None:
    old = created(cluster()).object.with_status(kubernetes_version="v1.33.0")

    by_spec = updated(cluster(region="here") | {"status": {"kubernetesVersion": "v9"}}, old).object
    by_status = updated(
        cluster(region="here") | {"status": {"kubernetesVersion": "v9"}}, old, subresource="status"
    ).object

    assert (by_spec.spec.region, by_spec.status.kubernetes_version) == ("here", "v1.33.0")
    assert (by_status.spec.region, by_status.status.kubernetes_version) == ("", "v9")
    assert by_status.metadata.generation == old.metadata.generation


@pytest.mark.parametrize(
    ("metadata", "error"), [({"name": "other"}, BadRequest), ({"name": "cm", "uid": "another"}, Conflict)]
)
def test_name_and_uid_never_change(metadata: Document, error: type[Exception]) -> None:
    old = created(with_metadata()).object

    with pytest.raises(error):
        updated({**with_metadata(), "metadata": metadata}, old)


def test_nothing_may_begin_to_hold_an_object_that_is_going() -> None:
    old = created(with_metadata(finalizers=["a/b"])).object.with_meta(deletion_timestamp=NOW)

    assert "metadata.finalizers" in fields(with_metadata(finalizers=["a/b", "c/d"]), old=old)
    assert updated(with_metadata(), old).object.metadata.finalizers == ()


def test_an_object_that_was_stored_with_two_controllers_can_be_edited_and_gets_no_third() -> None:
    def owner(name: str, *, controller: bool = True) -> Document:
        return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "controller": controller}

    one, two, three = (owner(name) for name in ("one", "two", "three"))
    before = [OwnerReference("v1", "ConfigMap", name, name, controller=True) for name in ("one", "two")]
    old = created(with_metadata()).object.with_meta(owner_references=tuple(before))

    for kept in ([one, two], [one], [owner("three", controller=False), two, one], []):
        assert updated(with_metadata(ownerReferences=kept), old)
    assert fields(with_metadata(ownerReferences=[one, two, three]), old=old) == {"metadata.ownerReferences"}
    assert fields(with_metadata(ownerReferences=[three, one]), old=old) == {"metadata.ownerReferences"}


def test_what_rules_forbid_is_said_together_with_what_types_forbid() -> None:
    doc = policy(
        placement={
            "clusterAffinity": {"clusterNames": 5},
            "clusterTolerations": [{"key": "a", "operator": "Wrong"}],
            "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 3, "maxGroups": 1}],
        },
        preemption="Sometimes",
        resourceSelectors=[],
    )

    found = fields(doc)

    assert "spec.placement.clusterAffinity.clusterNames" in found
    assert {"spec.resourceSelectors", "spec.preemption"} <= found
    assert {one for one in found if one.startswith("spec.placement.clusterTolerations[0]")}
    assert {one for one in found if one.startswith("spec.placement.spreadConstraints[0]")}


def test_a_value_of_the_wrong_type_is_blamed_once() -> None:
    (cause,) = refused(policy(resourceSelectors="all"))

    assert (cause.field, cause.reason) == ("spec.resourceSelectors", "FieldValueTypeInvalid")


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        ({"a": "Yg=="}, []),
        ({"a": "Y\ng=="}, []),
        ({"a": "%%%", "b": "abc"}, ["data[a]", "data[b]"]),
        ({"a": "Yg =="}, ["data[a]"]),
        ({"a": "="}, ["data[a]"]),
    ],
)
def test_data_of_a_secret_is_base64_and_never_repeated(data: Document, wrong: list[str]) -> None:
    doc = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data}
    if not wrong:
        assert created(doc).object.content["data"] == data
        return

    causes = refused(doc)

    assert [cause.field for cause in causes] == wrong
    assert not any("%%%" in cause.message for cause in causes)


def test_what_is_binary_in_a_config_map_is_base64_and_no_key_has_two_values() -> None:
    good = {**with_metadata(), "binaryData": {"b": "Y\ng=="}}
    bad = {**with_metadata(), "binaryData": {"a": "Yg==", "b": "no base64!", "c": "Yg="}}

    causes = refused(bad)

    assert created(good).object.content["binaryData"] == {"b": "Y\ng=="}
    assert [cause.field for cause in causes] == ["binaryData[b]", "binaryData[c]", "binaryData[a]"]
    assert '"no base64!": must be base64; write plain text into data' in causes[0].message


@pytest.mark.parametrize(
    ("api_version", "kind", "counted"),
    [
        ("v1", "ConfigMap", 0),
        ("v1", "Secret", 0),
        ("v1", "Namespace", 0),
        ("v1", "Service", 0),
        ("apps/v1", "Deployment", 1),
    ],
)
def test_only_kinds_kubernetes_counts_have_a_generation(api_version: str, kind: str, counted: int) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": ONE_POD}
    spec = {"ports": [{"port": 80}]} if kind == "Service" else spec
    doc = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "one"},
        **({"spec": spec} if counted or kind == "Service" else {}),
    }

    made = created(doc, namespace="" if kind == "Namespace" else "default").object

    assert made.metadata.generation == counted


def test_templates_count_generations_by_their_spec() -> None:
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "template": ONE_POD,
    }
    doc = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    old: Template = created(doc).object

    labelled = updated({**doc, "metadata": {"name": "web", "labels": {"a": "b"}}}, old).object
    scaled = updated({**doc, "spec": {**spec, "replicas": 2}}, old).object

    assert (labelled.metadata.generation, scaled.metadata.generation) == (1, 2)


ONE_POD = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}


def _asking(cpu: Any) -> Document:
    containers = [{"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}]
    return {**POD, "spec": {"containers": containers}}


def _renewed(at: str) -> Document:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"renewTime": at},
    }


@pytest.mark.parametrize("cpu", ["500m", "1", 1, 1.5, "1e3", "0.0000000001", ".5"])
def test_a_quantity_is_taken_however_kubernetes_lets_it_be_written(cpu: Any) -> None:
    assert created(_asking(cpu)).object.content["spec"]["containers"][0]["resources"]["requests"] == {"cpu": cpu}


@pytest.mark.parametrize(
    ("doc", "field", "rule"),
    [
        (_asking("abc"), "spec.containers[0].resources.requests.cpu", "must be a quantity"),
        (_asking(""), "spec.containers[0].resources.requests.cpu", "must be a quantity"),
        (_asking("5 Gi"), "spec.containers[0].resources.requests.cpu", "must be a quantity"),
        (_asking(True), "spec.containers[0].resources.requests.cpu", "must be of type string or number"),
        (_renewed("noon"), "spec.renewTime", "RFC 3339"),
        (_renewed("2026-02-30T00:00:00Z"), "spec.renewTime", "RFC 3339"),
        (_renewed("2026-02-03T00:00:00"), "spec.renewTime", "RFC 3339"),
        (
            {
                "apiVersion": "work.karmada.io/v1alpha2",
                "kind": "ResourceBinding",
                "metadata": {"name": "b"},
                "spec": {
                    "resource": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "default"},
                    "replicaRequirements": {"resourceRequest": {"cpu": "x"}},
                },
            },
            "spec.replicaRequirements.resourceRequest.cpu",
            "must be a quantity",
        ),
    ],
)
def test_what_is_no_quantity_and_no_time_is_refused_by_field(doc: Document, field: str, rule: str) -> None:
    (cause,) = refused(doc)

    assert cause.field == field
    assert rule in cause.message


def test_a_number_without_a_fraction_is_an_integer() -> None:
    schema = builtin.schema("apps", "v1", "Deployment")
    sent = {"spec": {"replicas": 2.0, "strategy": {"rollingUpdate": {"maxSurge": 1.0, "maxUnavailable": 1e99}}}}

    made = document_check.without_nulls(sent, schema)
    large = document_check.without_nulls({"spec": {"replicas": 1e18, "revisionHistoryLimit": -(2.0**63)}}, schema)
    whole = document_check.without_nulls({"spec": {"replicas": 2.0**63, "revisionHistoryLimit": 0.5}}, schema)

    assert [json.dumps(value) for value in large["spec"].values()] == ["1000000000000000000", "-9223372036854775808"]
    assert [json.dumps(value) for value in whole["spec"].values()] == ["9.223372036854776e+18", "0.5"]
    assert json.dumps(made["spec"]["replicas"]) == "2"
    assert json.dumps(made["spec"]["strategy"]["rollingUpdate"]["maxSurge"]) == "1"
    assert "less than or equal to 2147483647" in str(document_check.faults(made, schema))


def test_a_quantity_beyond_all_quantities_is_refused_by_field() -> None:
    schema = builtin.schema("storage.k8s.io", "v1", "CSIStorageCapacity")

    (cause,) = document_check.faults({"storageClassName": "fast", "capacity": 1e308}, schema)

    assert (cause.field, "less than or equal to" in cause.message) == ("capacity", True)
    assert [sign(value) for value in (1e-300, -1e-300, "1Gi", 0)] == [1, -1, 1, 0]
