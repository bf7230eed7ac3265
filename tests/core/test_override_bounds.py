"""An OverridePolicy stays within its namespace: members get its result with the rights of the control plane."""

from __future__ import annotations

import time
from typing import Any

import pytest

from controlplane.apimachinery.meta import condition
from controlplane.kinds.binding import OVERRIDES_APPLIED
from controlplane.propagation.overrides import OverrideFailed
from tests.builders.objects import policy as propagation
from tests.builders.templates import deployment
from tests.core.propagation_story import MEMBERS, Story
from tests.core.test_overrides import config_map, from_spec, policy, result

RBAC = "rbac.authorization.k8s.io/v1"
Document = dict[str, Any]


def replace(path: str, value: Any) -> Document:
    return {"operator": "replace", "path": path, "value": value}


BINDING_OF_THE_CLUSTER = [
    replace("/apiVersion", RBAC),
    replace("/kind", "ClusterRoleBinding"),
    {"operator": "remove", "path": "/metadata/namespace"},
    {"operator": "add", "path": "/roleRef", "value": {"kind": "ClusterRole", "name": "cluster-admin"}},
]
ELSEWHERE = {"component": "Repository", "operator": "replace", "value": "kube-system"}


@pytest.mark.parametrize(
    ("overriders", "named"),
    [
        ({"plaintext": BINDING_OF_THE_CLUSTER}, "the API group, kind, metadata.namespace"),
        ({"plaintext": [replace("/kind", "Secret")]}, "kind"),
        ({"plaintext": [replace("/metadata/namespace", "kube-system")]}, "metadata.namespace"),
        ({"plaintext": [replace("", {**config_map(), "metadata": {"name": "c"}})]}, "metadata.namespace"),
        ({"imageOverrider": [{**ELSEWHERE, "predicate": {"path": "/metadata/namespace"}}]}, "metadata.namespace"),
    ],
)
def test_a_policy_of_a_namespace_makes_no_object_of_another_kind_or_place(overriders: Document, named: str) -> None:
    with pytest.raises(OverrideFailed, match=f"^{named}: an OverridePolicy cannot change this"):
        result(config_map(), policy(**overriders))

    assert result(config_map(), policy(namespace="", **overriders)) != config_map()  # of an administrator


def test_a_policy_of_a_namespace_may_write_another_version_and_another_name() -> None:
    changes = [replace("/apiVersion", "apps/v1beta1"), replace("/metadata/name", "web-north")]
    app = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}}

    made = result(app, policy(plaintext=changes))

    assert (made["apiVersion"], made["metadata"]) == ("apps/v1beta1", {"name": "web-north", "namespace": "default"})


@pytest.mark.parametrize(
    ("kind", "content", "field", "value"),
    [
        ("Role", {"rules": []}, "rules", [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
        (
            "RoleBinding",
            {"roleRef": {"kind": "Role", "name": "own"}},
            "roleRef",
            {"kind": "ClusterRole", "name": "admin"},
        ),
        (
            "RoleBinding",
            {"roleRef": {"kind": "ClusterRole", "name": "admin"}, "subjects": []},
            "subjects",
            [{"kind": "User", "name": "me"}],
        ),
    ],
)
def test_a_policy_of_a_namespace_grants_nothing(kind: str, content: Document, field: str, value: Any) -> None:
    role = {"apiVersion": RBAC, "kind": kind, "metadata": {"name": "r", "namespace": "default"}, **content}

    with pytest.raises(OverrideFailed, match=f"^{field}: "):
        result(role, policy(plaintext=[replace(f"/{field}", value)]))

    labelled = policy(labelsOverrider=[{"operator": "add", "value": {"by": "me"}}])
    assert result(role, labelled)["metadata"]["labels"] == {"by": "me"}


def test_a_copy_stays_as_it_is_while_such_a_policy_exists_and_the_binding_says_why() -> None:
    web = deployment()
    story = Story(*MEMBERS, propagation("all"), web)
    story.place(web, member1=3)
    story.add(policy("wide", plaintext=[replace("/metadata/namespace", "kube-system")]))
    story.edit(story.template(web).with_meta(labels={**story.template(web).metadata.labels, "by": "template"}))

    manifest = story.works()["member1"].manifest
    assert (manifest["metadata"]["namespace"], manifest["metadata"]["labels"].get("by")) == ("default", None)
    found = story.binding(web)
    assert found is not None
    said = condition(found.status.conditions, OVERRIDES_APPLIED)
    assert said is not None
    assert "OverridePolicy default/wide cannot be applied: metadata.namespace: an OverridePolicy" in said.message


@pytest.mark.parametrize(
    "overriders",
    [
        {"plaintext": [{"operator": "add", "path": "/data/k1", "value": "w"}]},
        {"fieldOverrider": [{"fieldPath": "/data/a", "yaml": [{"subPath": "/k1", "operator": "add", "value": "w"}]}]},
    ],
)
def test_many_rules_about_a_large_object_do_not_occupy_the_worker(overriders: Document) -> None:
    """A user of one namespace would otherwise stop the placement of all workloads for days."""
    document = "\n".join(f"k{number}: v" for number in range(30_000))
    large = {**config_map(a=document), "more": {f"k{number}": "v" for number in range(30_000)}}
    many = from_spec({"overrideRules": [{"overriders": overriders}] * 2_000})
    begun = time.thread_time()

    with pytest.raises(OverrideFailed, match="the rules for one copy go through more than 32 MiB of it"):
        result(large, many)

    assert time.thread_time() - begun < 20  # all rules: minutes, or an hour
    assert result(config_map(a="k: v"), many)["data"]["a"] in ("k: v", "k: v\nk1: w\n")


def test_rules_that_make_the_object_larger_do_not_occupy_the_worker_either() -> None:
    """The size was that of the object before them."""
    grow = {"subPath": "/large", "operator": "add", "value": ["x" * 40] * 4_000}
    small = {"subPath": "/small", "operator": "add", "value": "y"}
    fields = [{"fieldPath": "/data/a", "json": [grow]}]
    fields += [{"fieldPath": f"/data/{name}", "json": [small]} for _ in range(200) for name in "ba"]  # in turn
    begun = time.thread_time()

    with pytest.raises(OverrideFailed, match="the rules for one copy go through more than 32 MiB of it"):
        result(config_map(a="{}", b="{}"), policy(fieldOverrider=fields))

    assert time.thread_time() - begun < 20


def test_some_small_documents_of_a_large_object_are_changed() -> None:
    """The whole object counted as often as if it were the document."""
    names = [f"k{number}" for number in range(8)]
    large = config_map(**dict.fromkeys(names, "a: 1"), other="x" * 900_000)
    fields = [
        {"fieldPath": f"/data/{name}", "yaml": [{"subPath": "/a", "operator": "replace", "value": 2}]} for name in names
    ]

    changed = result(large, policy(fieldOverrider=fields))

    assert [changed["data"][name] for name in names] == ["a: 2\n"] * 8


def yaml_patch(key: str, *, field: str = "a") -> Document:
    return {"fieldPath": f"/data/{field}", "yaml": [{"subPath": f"/{key}", "operator": "add", "value": "w"}]}


MEGABYTE = "\n".join(f"key{number}: value number {number}" for number in range(36_000)) + "\n"


def test_three_changes_of_a_large_field_are_no_more_work_than_one() -> None:
    """They were refused: each counted as if it read and wrote all of the object sixteen times."""
    changed = result(config_map(a=MEGABYTE), policy(fieldOverrider=[yaml_patch(key) for key in ("x1", "x2", "x3")]))

    text = changed["data"]["a"]
    assert len(text) == len(MEGABYTE) + 3 * len("x1: w\n")
    assert text.endswith("x1: w\nx2: w\nx3: w\n")


def test_a_change_counts_by_the_text_of_its_field_and_not_by_the_object_around_it() -> None:
    large = config_map(a="k: v\n", b="k: v\n", rest=MEGABYTE)
    changes = [yaml_patch("x", field=field) for field in ("a", "b", "a", "b")]

    changed = result(large, policy(fieldOverrider=changes))

    assert (changed["data"]["a"], changed["data"]["b"]) == ("k: v\nx: w\n", "k: v\nx: w\n")


def test_changes_of_one_field_in_two_formats_are_made_one_after_the_other() -> None:
    changes = [yaml_patch("x"), {"fieldPath": "/data/a", "json": [{"subPath": "/y", "operator": "add", "value": 1}]}]

    assert result(config_map(a='{"k": 1}'), policy(fieldOverrider=changes[1:]))["data"]["a"] == '{"k":1,"y":1}'
    with pytest.raises(OverrideFailed, match="is not JSON"):
        result(config_map(a='{"k": 1}'), policy(fieldOverrider=changes))
