"""What override policies make of an object, in which order, and which of them fail [override-policies]."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from controlplane.apimachinery.meta import Condition
from controlplane.kinds.binding import OVERRIDES_APPLIED
from controlplane.kinds.override_policy import OverridePolicy
from controlplane.kinds.work.applied_overrides import applied_overrides
from controlplane.propagation import overrides
from controlplane.propagation.image_reference import ImageError, ImageReference
from controlplane.propagation.overrides import OverrideFailed
from controlplane.scheduling.placement_explanation import PlacementExplanation, text, with_overrides
from tests.builders.objects import binding, cluster, work

Document = dict[str, Any]
MEMBER = cluster("member1", region="north", labels={"env": "prod"})


def policy(
    name: str = "p", *, namespace: str = "default", target: Document | None = None, **overriders: Any
) -> OverridePolicy:
    rule: Document = {"overriders": overriders, **({"targetCluster": target} if target is not None else {})}
    return from_spec({"overrideRules": [rule]}, name, namespace)


def from_spec(spec: Document, name: str = "p", namespace: str = "default") -> OverridePolicy:
    kind = "OverridePolicy" if namespace else "ClusterOverridePolicy"
    metadata = {"name": name, "uid": f"uid-{name}", "namespace": namespace}
    document = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
    return msgspec.convert(document, OverridePolicy)


def selecting(policy: OverridePolicy, **selector: Any) -> OverridePolicy:
    spec = msgspec.to_builtins(policy.spec)
    selectors = [{"apiVersion": "apps/v1", "kind": "Deployment", **selector}]
    return from_spec({**spec, "resourceSelectors": selectors}, policy.metadata.name, policy.metadata.namespace)


def deployment(**container: Any) -> Document:
    pod = {"containers": [{"name": "main", "image": "nginx:1", **container}]}
    metadata = {"name": "web", "namespace": "default", "labels": {"app": "web"}}
    spec = {"replicas": 2, "template": {"spec": pod}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def config_map(**data: str) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}, "data": data}


def result(manifest: Document, *policies: OverridePolicy) -> Document:
    return overrides.apply(policies, manifest, MEMBER).manifest


def label(name: str, value: str, **more: Any) -> OverridePolicy:
    return policy(name, labelsOverrider=[{"operator": "add", "value": {"by": value}}], **more)


def label_of(*policies: OverridePolicy) -> str | None:
    by: str | None = result(deployment(), *policies)["metadata"]["labels"].get("by")
    return by


def test_the_more_precise_selector_wins_then_the_greater_name_then_the_narrower_scope() -> None:
    everything, kind = label("z", "everything"), selecting(label("y", "kind"))
    labels = selecting(label("x", "labels"), labelSelector={"matchLabels": {"app": "web"}})
    name = selecting(label("a", "name"), name="web")
    fleet = selecting(label("zz", "fleet", namespace=""), name="web")

    assert label_of(everything, kind) == "everything"
    assert label_of(everything, kind, labels) == "labels"
    assert label_of(name, labels, everything) == "name"
    assert label_of(name, fleet) == "name"
    assert label_of(everything, fleet) == "everything"


@pytest.mark.parametrize(
    ("target", "applies"),
    [
        (None, True),
        ({}, True),
        ({"clusterNames": ["member1"]}, True),
        ({"clusterNames": ["member2"]}, False),
        ({"exclude": ["member1"]}, False),
        ({"labelSelector": {"matchLabels": {"env": "prod"}}}, True),
        ({"labelSelector": {"matchLabels": {"env": "test"}}}, False),
        ({"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["north"]}]}}, True),
        ({"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "NotIn", "values": ["north"]}]}}, False),
    ],
)
def test_a_rule_applies_to_the_clusters_that_its_target_chooses(target: Document | None, applies: bool) -> None:
    assert label_of(label("p", "x", target=target)) == ("x" if applies else None)


def test_another_namespace_another_kind_and_a_dying_policy_change_nothing() -> None:
    assert label_of(label("p", "x", namespace="other")) is None
    assert result(config_map(a="b"), selecting(label("p", "x"))) == config_map(a="b")


def test_an_override_policy_sees_the_labels_that_a_cluster_override_policy_has_set() -> None:
    fleet = policy("f", namespace="", labelsOverrider=[{"operator": "add", "value": {"tier": "gold"}}])
    gold = selecting(label("g", "gold"), labelSelector={"matchLabels": {"tier": "gold"}})

    assert label_of(gold) is None
    assert label_of(gold, fleet) == "gold"


def test_the_deprecated_fields_are_one_rule() -> None:
    spec = {
        "targetCluster": {"clusterNames": ["member1"]},
        "overriders": {"labelsOverrider": [{"operator": "add", "value": {"by": "old"}}]},
    }

    assert label_of(from_spec(spec)) == "old"
    assert label_of(from_spec({**spec, "targetCluster": {"clusterNames": ["member2"]}})) is None


@pytest.mark.parametrize(
    ("image", "overrider", "becomes"),
    [
        ("nginx:1", ("Registry", "add", "reg.io"), "reg.io/nginx:1"),
        ("reg.io/nginx:1", ("Registry", "add", ":5000"), "reg.io:5000/nginx:1"),
        ("library/nginx", ("Registry", "replace", "reg.io"), "reg.io/library/nginx"),
        ("reg.io/team/app:1", ("Registry", "remove", ""), "team/app:1"),
        ("reg.io/team/app:1", ("Repository", "replace", "other"), "reg.io/other:1"),
        ("reg.io/team/app:1", ("Repository", "add", "-dev"), "reg.io/team/app-dev:1"),
        ("nginx:1", ("Tag", "replace", "2"), "nginx:2"),
        ("nginx:1", ("Tag", "add", "-alpine"), "nginx:1-alpine"),
        ("nginx:1", ("Tag", "remove", ""), "nginx"),
        ("nginx:1", ("Tag", "replace", "not a tag"), "nginx:1"),
        ("nginx", ("Tag", "replace", "sha256:" + "a" * 64), "nginx@sha256:" + "a" * 64),
        ("nginx@sha256:" + "a" * 64, ("Tag", "replace", "2"), "nginx:2"),
    ],
)
def test_a_part_of_an_image_is_changed(image: str, overrider: tuple[str, str, str], becomes: str) -> None:
    component, operator, value = overrider
    changed = policy(imageOverrider=[{"component": component, "operator": operator, "value": value}])

    made = result(deployment(image=image), changed)

    assert made["spec"]["template"]["spec"]["containers"][0]["image"] == becomes


def test_the_image_at_a_predicate_is_changed_also_of_unknown_kinds() -> None:
    custom = {"apiVersion": "example.io/v1", "kind": "App", "metadata": {"name": "a"}, "spec": {"images": ["a/b:1"]}}
    overrider = {"component": "Tag", "operator": "replace", "value": "2", "predicate": {"path": "/spec/images/0"}}

    with pytest.raises(OverrideFailed, match="does not lead to a text in the object"):
        result(deployment(), policy(imageOverrider=[overrider]))
    with pytest.raises(OverrideFailed, match="does not lead to a text in the object"):
        result(
            custom, policy("c", namespace="", imageOverrider=[{**overrider, "predicate": {"path": "/spec/images/7"}}])
        )


@pytest.mark.parametrize(
    "text", ["", "Nginx", "a//b", "reg.io:x/a", "a:b:c", "a@sha256:abc", "a@md5:" + "0" * 32, "-a"]
)
def test_a_text_that_is_no_image_is_refused(text: str) -> None:
    with pytest.raises(ImageError):
        ImageReference.parse(text)


def test_an_image_overrider_without_a_value_says_what_it_makes_of_an_image() -> None:
    empty = {"component": "Repository", "operator": "replace"}  # the API accepts it, as Karmada does
    emptied = result(deployment(image="nginx"), policy(imageOverrider=[empty]))

    assert type(emptied["spec"]["template"]["spec"]["containers"][0]["image"]) is str
    with pytest.raises(OverrideFailed, match="the text at /spec/template/spec/containers/0/image is not an image"):
        result(emptied, policy(imageOverrider=[{"component": "Tag", "operator": "replace", "value": "v1"}]))


def test_commands_and_arguments_of_the_named_container_are_changed() -> None:
    add = policy(
        commandOverrider=[{"containerName": "main", "operator": "add", "value": ["run"]}],
        argsOverrider=[
            {"containerName": "main", "operator": "remove", "value": ["-v"]},
            {"containerName": "other", "operator": "add", "value": ["-x"]},
        ],
    )

    (container,) = result(deployment(args=["-v", "-w"]), add)["spec"]["template"]["spec"]["containers"]

    assert (container["command"], container["args"]) == (["run"], ["-w"])


def test_labels_and_annotations_are_added_replaced_and_removed() -> None:
    changes = [
        {"operator": "replace", "value": {"app": "shop", "missing": "x"}},
        {"operator": "add", "value": {"example.com/tier": "gold"}},
        {"operator": "remove", "value": {"gone": ""}},
    ]

    metadata = result(deployment(), policy(labelsOverrider=changes, annotationsOverrider=changes))["metadata"]

    assert metadata["labels"] == {"app": "shop", "example.com/tier": "gold"}
    assert metadata["annotations"] == {"example.com/tier": "gold"}


def test_a_document_in_a_field_is_changed_and_the_rest_of_it_stays() -> None:
    manifest = config_map(**{"a.json": '{"db": {"host": "h", "port": 1}}', "b.yaml": "on: yes\nlist:\n- 1\n- 2\n"})
    fields = [
        {"fieldPath": "/data/a.json", "json": [{"operator": "replace", "subPath": "/db/host", "value": "<new>"}]},
        {"fieldPath": "/data/b.yaml", "yaml": [{"operator": "add", "subPath": "/list/-", "value": "3"}]},
    ]

    data = result(manifest, policy(fieldOverrider=fields))["data"]

    assert data["a.json"] == '{"db":{"host":"\\u003cnew\\u003e","port":1}}'
    assert data["b.yaml"] == 'list:\n- 1\n- 2\n- "3"\n"true": true\n'


def test_numbers_that_an_override_does_not_change_stay_as_they_are_written() -> None:
    text = '{"host":"h","numbers":[1.50,1e3,0.1234567890123456789,12345678901234567890123,1E400]}'
    change = [{"operator": "replace", "subPath": "/host", "value": {"\u2028": [1.5, 2**70, None, True]}}]
    changed = policy(fieldOverrider=[{"fieldPath": "/data/a.json", "json": change}])

    data = result(config_map(**{"a.json": text}), changed)

    expected = text.replace('"h"', f'{{"\\u2028":[1.5,{2**70},null,true]}}')
    assert data["data"]["a.json"] == expected


def test_a_text_with_a_number_that_json_does_not_have_is_refused() -> None:
    change = {"fieldPath": "/data/a.json", "json": [{"operator": "add", "subPath": "/b", "value": 1}]}

    with pytest.raises(OverrideFailed, match="NaN is not a number of JSON"):
        result(config_map(**{"a.json": '{"a":NaN}'}), policy(fieldOverrider=[change]))


def test_plaintext_comes_last_and_sees_what_the_others_made() -> None:
    changed = policy(
        plaintext=[
            {"operator": "replace", "path": "/metadata/labels/by", "value": "plaintext"},
            {"operator": "remove", "path": "/spec/replicas"},
        ],
        labelsOverrider=[{"operator": "add", "value": {"by": "labels"}}],
    )

    made = result(deployment(), changed)

    assert made["metadata"]["labels"]["by"] == "plaintext"
    assert "replicas" not in made["spec"]


@pytest.mark.parametrize(
    "overriders",
    [
        {"plaintext": [{"operator": "replace", "path": "/spec/missing", "value": 1}]},
        {"plaintext": [{"operator": "remove", "path": "/spec/missing"}]},
        {"plaintext": [{"operator": "remove", "path": ""}]},
        {"plaintext": [{"operator": "replace", "path": "", "value": {"a": "b"}}]},
        {"plaintext": [{"operator": "remove", "path": "/kind"}]},
        {"plaintext": [{"operator": "add", "path": "/spec/a/b", "value": 1}]},
        {"fieldOverrider": [{"fieldPath": "/spec", "json": [{"operator": "add", "subPath": "/a", "value": 1}]}]},
        {
            "fieldOverrider": [
                {"fieldPath": "/metadata/name", "json": [{"operator": "add", "subPath": "/a", "value": 1}]}
            ]
        },
        {"commandOverrider": [{"containerName": "main", "operator": "add", "value": ["x"]}]},
    ],
)
def test_a_change_that_does_not_fit_fails_and_leaves_the_object_as_it_was(overriders: Document) -> None:
    manifest = deployment(command=[1])
    before = json.dumps(manifest)

    with pytest.raises(OverrideFailed) as caught:
        result(manifest, policy("broken", **overriders))

    assert caught.value.failure.policy.shown == "default/broken"
    assert caught.value.failure.cluster == "member1"
    assert json.dumps(manifest) == before


def test_images_of_a_workload_whose_fields_have_wrong_types_are_not_changed() -> None:
    broken = deployment()
    broken["spec"]["template"]["spec"]["nodeSelector"] = 5

    with pytest.raises(OverrideFailed, match="nodeSelector"):
        result(broken, policy(imageOverrider=[{"component": "Tag", "operator": "remove"}]))


def test_the_work_names_the_applied_policies_as_karmada_does() -> None:
    plain = policy("b", plaintext=[{"operator": "remove", "path": "/spec/replicas"}])
    fleet = policy("f", namespace="", labelsOverrider=[{"operator": "add", "value": {"b": "<", "a": ""}}])

    notes = overrides.apply([fleet, plain, label("a", "x")], deployment(), MEMBER).annotations

    assert notes["policy.karmada.io/applied-cluster-overrides"] == (
        '[{"policyName":"f","overriders":{"labelsOverrider":[{"operator":"add","value":{"a":"","b":"\\u003c"}}]}}]'
    )
    assert notes["policy.karmada.io/applied-overrides"] == (
        '[{"policyName":"a","overriders":{"labelsOverrider":[{"operator":"add","value":{"by":"x"}}]}},'
        '{"policyName":"b","overriders":{"plaintext":[{"path":"/spec/replicas","operator":"remove","value":null}]}}]'
    )


def test_the_applied_policies_of_a_work_are_read_from_its_annotations() -> None:
    applied = overrides.apply([label("a", "x"), label("f", "y", namespace="")], deployment(), MEMBER)
    notes = {**applied.annotations, "resourcebinding.karmada.io/namespace": "default"}

    assert [str(ref) for ref in applied_overrides(notes)] == [
        "policy.karmada.io/ClusterOverridePolicy:f",
        "policy.karmada.io/OverridePolicy:default/a",
    ]
    assert applied_overrides({"policy.karmada.io/applied-overrides": "nonsense"}) == []


def test_an_explanation_names_the_policies_of_each_copy() -> None:
    applied = overrides.apply([label("a", "x"), label("f", "y", namespace="")], deployment(), MEMBER)
    notes = {**applied.annotations, "resourcebinding.karmada.io/namespace": "default"}
    copy = work(annotations=notes)
    failed = Condition(OVERRIDES_APPLIED, "False", "ApplyOverridePolicyFailed", "cluster member2: broken")
    placed = binding("web", None).with_status(conditions=(failed,))
    explanation = PlacementExplanation("failover.lifeboat.io/v1alpha1", "PlacementExplanation")

    said = text(with_overrides(explanation, placed, [copy]))

    assert "The copy on member1 is changed by ClusterOverridePolicy f, OverridePolicy default/a" in said
    assert "Override policies fail: cluster member2: broken" in said


@pytest.mark.parametrize("text", ["password: !Hunter2 x", "password: !!int Hunter2", "password: *Hunter2", "[Hunter2"])
def test_a_field_that_is_no_yaml_is_not_quoted(text: str) -> None:
    """More users may read the error than the ConfigMap."""
    change = {"subPath": "/a", "operator": "add", "value": 1}

    with pytest.raises(OverrideFailed, match="fieldOverrider: /data/a: the text of the field is not YAML: ") as caught:
        result(config_map(a=text), policy(fieldOverrider=[{"fieldPath": "/data/a", "yaml": [change]}]))

    assert "Hunter2" not in str(caught.value)
