"""What an import writes of the objects of another control plane."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from apps.command import exit_codes
from apps.command.errors import CommandError
from apps.command.import_plan import DEFINITION, TOKEN_SECRET, Item, bindings_of, placements, planned, removable
from apps.command.importing import parted
from apps.command.source import Files

JOB = ("batch/v1", "Job")
UID = {"batch.kubernetes.io/controller-uid": "a", "controller-uid": "a"}
NAMES = {"batch.kubernetes.io/job-name": "once", "job-name": "once"}


@pytest.mark.parametrize("manual", [False, True])
def test_a_job_is_written_as_its_author_wrote_it(tmp_path: Path, manual: bool) -> None:
    labels = {"team": "a", **UID, **NAMES}
    spec: dict[str, Any] = {
        "completions": 2,
        "selector": {"matchLabels": UID},
        "template": {"metadata": {"labels": labels}},
    }
    job = {
        "apiVersion": JOB[0],
        "kind": JOB[1],
        "metadata": {"name": "once", "namespace": "lab"},
        "spec": {**spec, **({"manualSelector": True} if manual else {})},
    }
    resource = {"apiVersion": JOB[0], "kind": JOB[1], "namespace": "lab", "name": "once"}
    binding = {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "once-job", "namespace": "lab"},
        "spec": {"resource": resource, "clusters": [{"name": "member1"}]},
    }
    (tmp_path / "all.json").write_text(json.dumps({"kind": "List", "items": [job, binding]}))

    [written] = [item.document["spec"] for item in planned(Files([tmp_path])) if item.identity[:2] == JOB]

    expected = job["spec"] if manual else {"completions": 2, "template": {"metadata": {"labels": {"team": "a"}}}}
    assert written == expected


def test_a_token_secret_is_written_without_the_token_and_the_account_of_the_source(tmp_path: Path) -> None:
    account = {"kubernetes.io/service-account.name": "runner"}
    notes = {**account, "kubernetes.io/service-account.uid": "uid-there"}
    metadata = {"name": "runner-token", "namespace": "lab", "annotations": notes}
    token = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": TOKEN_SECRET,
        "data": {"token": "YQ=="},
    }
    resource = {"apiVersion": "v1", "kind": "Secret", "namespace": "lab", "name": "runner-token"}
    binding = {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "runner-token-secret", "namespace": "lab"},
        "spec": {"resource": resource, "clusters": [{"name": "member1"}]},
    }
    (tmp_path / "all.json").write_text(json.dumps({"kind": "List", "items": [token, binding]}))

    [written] = [item.document for item in planned(Files([tmp_path])) if item.kind == "Secret"]

    assert "data" not in written
    assert written["metadata"]["annotations"] == account


def test_namespaces_of_users_are_written_whatever_their_names_begin_with(tmp_path: Path) -> None:
    """Without its Namespace, no binding and no template in it could be written."""
    own = ("default", "kube-system", "kube-public", "karmada-system", "karmada-cluster", "karmada-es-member1")
    users = ("defaults", "default-apps", "karmada-demo", "kubernetes-dashboard", "shop")
    items = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (*own, *users)]
    (tmp_path / "all.json").write_text(json.dumps({"kind": "List", "items": items}))

    written = {item.identity[3] for item in planned(Files([tmp_path]))}

    assert written == set(users)


def test_of_the_taints_of_a_cluster_those_of_persons_are_written(tmp_path: Path) -> None:
    """A taint that a controller of the source has added would stay when its reason has gone: it has no owner here."""
    ready = "cluster.karmada.io/"
    taints = [
        {"key": f"{ready}not-ready", "effect": "NoSchedule"},
        {"key": f"{ready}unreachable", "effect": "NoExecute"},
        {"key": f"{ready}unschedulable", "effect": "NoSchedule"},
        {"key": "disk", "effect": "NoExecute"},
        {"key": "disk", "effect": "NoSchedule"},
    ]
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterTaintPolicy",
        "metadata": {"name": "disk"},
        "spec": {"taints": [{"key": "disk", "effect": "NoExecute"}]},
    }
    cluster = {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": "member1"},
        "spec": {"syncMode": "Push", "taints": taints},
    }
    (tmp_path / "all.json").write_text(json.dumps({"kind": "List", "items": [policy, cluster]}))

    [written] = [item.document["spec"] for item in planned(Files([tmp_path])) if item.kind == "Cluster"]

    assert written == {"syncMode": "Push", "taints": [taints[2], taints[4]]}


@pytest.mark.parametrize("bound", [False, True])
def test_a_priority_class_that_a_policy_names_is_written_before_it_and_only_once(tmp_path: Path, bound: bool) -> None:
    """Without it, the policy changes no binding, so that edits of its workloads would not reach the members."""
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "all"},
        "spec": {"schedulePriority": {"priorityClassSource": "KubePriorityClass", "priorityClassName": "high"}},
    }
    binding = {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ClusterResourceBinding",
        "metadata": {"name": "high-priorityclass"},
        "spec": {"resource": {**kind, "name": "high"}},
    }
    classes = [{**kind, "metadata": {"name": name}, "value": 5} for name in ("high", "other")]
    items = [*classes, policy, *([binding] if bound else ())]
    (tmp_path / "all.json").write_text(json.dumps({"kind": "List", "items": items}))

    plan = planned(Files([tmp_path]))

    written = [(item.kind, item.identity[3]) for item in plan if item.kind != "ClusterResourceBinding"]
    both = [("PriorityClass", "high"), ("ClusterPropagationPolicy", "all")]
    assert written == (both[::-1] if bound else both)
    assert ("high" in [item.identity[3] for item in removable(plan)]) is bound


def test_a_policy_is_written_with_the_permanent_id_that_copies_on_members_have(tmp_path: Path) -> None:
    label = "clusterpropagationpolicy.karmada.io/permanent-id"
    group = {"apiVersion": "policy.karmada.io/v1alpha1"}
    policies = [
        {**group, "kind": "ClusterPropagationPolicy", "metadata": {"name": "with", "labels": {label: "there"}}},
        {**group, "kind": "ClusterPropagationPolicy", "metadata": {"name": "without"}},
        {**group, "kind": "ClusterOverridePolicy", "metadata": {"name": "other", "labels": {label: "x"}}},
    ]
    (tmp_path / "all.json").write_text(json.dumps({"kind": "List", "items": policies}))

    written = {item.identity[3]: item.document["metadata"] for item in planned(Files([tmp_path]))}

    assert written["with"]["annotations"] == {"policy.lifeboat.io/imported-id": "there"}
    assert "annotations" not in written["without"]
    assert "annotations" not in written["other"]


def test_a_binding_is_written_before_all_that_would_make_another(tmp_path: Path) -> None:
    resource = {"apiVersion": DEFINITION[0], "kind": DEFINITION[1], "name": "boats.lab.example.io"}
    work, policies = "work.karmada.io/v1alpha2", "policy.karmada.io/v1alpha1"
    items = [
        {**resource, "metadata": {"name": resource["name"]}, "spec": {"group": "lab.example.io"}},
        {"apiVersion": policies, "kind": "ClusterPropagationPolicy", "metadata": {"name": "all"}},
        {
            "apiVersion": work,
            "kind": "ClusterResourceBinding",
            "metadata": {"name": "boats"},
            "spec": {"resource": resource},
        },
    ]
    (tmp_path / "all.json").write_text(json.dumps({"kind": "List", "items": items}))

    written = [item.kind for item in planned(Files([tmp_path]))]

    assert written == ["ClusterResourceBinding", "ClusterPropagationPolicy", DEFINITION[1]]


def test_an_undo_removes_bound_secrets_and_leaves_credentials_and_definitions(tmp_path: Path) -> None:
    secrets = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": space}}
        for name, space in (("bound", "lab"), ("member1", "karmada-cluster"))
    ]
    cluster = {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": "member1"},
        "spec": {"secretRef": {"name": "member1", "namespace": "karmada-cluster"}},
    }
    group = {"group": "lab.example.io"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.lab.example.io"},
        "spec": group,
    }
    bindings = [
        {
            "apiVersion": "work.karmada.io/v1alpha2",
            "kind": kind,
            "metadata": {"name": name, **({"namespace": "lab"} if kind == "ResourceBinding" else {})},
            "spec": {"resource": {"apiVersion": version, "kind": of, "namespace": space, "name": template}},
        }
        for kind, name, version, of, space, template in (
            ("ResourceBinding", "bound-secret", "v1", "Secret", "lab", "bound"),
            (
                "ClusterResourceBinding",
                "boats",
                *("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "boats.lab.example.io"),
            ),
        )
    ]
    (tmp_path / "all.json").write_text(
        json.dumps({"kind": "List", "items": [*secrets, cluster, definition, *bindings]})
    )
    items = planned(Files([tmp_path]))

    going = removable(items)

    assert [item.title for item in going] == ["Secret lab/bound", "Cluster member1"]
    assert {identity[3] for identity in bindings_of(going, items)} == {"bound-secret"}


GROUP, WORK = "cluster.karmada.io/v1alpha1", "work.karmada.io/v1alpha2"


@pytest.mark.parametrize(
    "text",
    [
        f"apiVersion: {GROUP}\nkind: Cluster\nmetadata: {{name: member1}}",
        f"apiVersion: {DEFINITION[0]}\nkind: {DEFINITION[1]}\nmetadata: {{name: boats}}\nspec: {{}}",
        f"apiVersion: {WORK}\nkind: ResourceBinding\nmetadata: {{name: web}}\nspec: {{resource: }}",
        "apiVersion: v1\nkind: Namespace\nmetadata: [shop]",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: 5}",
        "apiVersion: v1\nkind: Namespace\nmetadata: &own {name: shop, labels: *own}",
        "kind: List\nitems: 5",
        "[" * 5000,
        "kind: \udcff",
    ],
    ids=["no-spec", "no-group", "no-resource", "list", "number", "loop", "items", "deep", "not-utf-8"],
)
def test_a_file_with_half_an_object_is_a_usage_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "half.yaml").write_bytes(text.encode(errors="surrogateescape"))

    with pytest.raises(CommandError) as raised:
        planned(Files([tmp_path]))

    assert raised.value.code == exit_codes.USAGE


def test_the_message_about_a_broken_file_has_nothing_of_a_secret(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text('kind: Secret\nstringData: {password: "correct-horse: x')

    with pytest.raises(CommandError) as raised:
        Files([tmp_path])

    assert "line 2" in raised.value.message
    assert "horse" not in raised.value.message


def test_an_empty_list_is_nothing_to_import(tmp_path: Path) -> None:
    (tmp_path / "none.yaml").write_text("apiVersion: v1\nkind: List\nitems: []\nmetadata: {resourceVersion: ''}")

    assert planned(Files([tmp_path])) == []


def test_what_the_source_is_deleting_does_not_come_back_to_life(tmp_path: Path) -> None:
    """Finalizers hold it there, and an undo removes what was imported before the deletion began."""
    going = {"deletionTimestamp": "2026-11-30T12:00:00Z", "finalizers": ["example.io/held"]}

    def item(api_version: str, kind: str, name: str, namespace: str = "", *, gone: bool = False, **more: Any) -> Any:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **(going if gone else {})}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}

    def bound(name: str, namespace: str, *, gone: bool = False) -> Any:
        resource = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace, "name": name}
        spec = {"resource": resource, "clusters": [{"name": "member1"}]}
        return item("work.karmada.io/v1alpha2", "ResourceBinding", f"{name}-configmap", namespace, gone=gone, spec=spec)

    maps = [("kept", "lab"), ("template", "lab"), ("binding", "lab"), ("place", "left")]
    items = [
        *(item("v1", "ConfigMap", name, place, gone=name == "template") for name, place in maps),
        *(bound(name, place, gone=name == "binding") for name, place in maps),
        *(item("v1", "Namespace", name, gone=name == "left") for name in ("lab", "left")),
        item("policy.karmada.io/v1alpha1", "PropagationPolicy", "old", "lab", gone=True, spec={}),
        item("cluster.karmada.io/v1alpha1", "Cluster", "member1", spec={}),
        item("cluster.karmada.io/v1alpha1", "Cluster", "member2", gone=True, spec={}),
    ]
    (tmp_path / "all.json").write_text(json.dumps({"kind": "List", "items": items}))

    plan = planned(Files([tmp_path]))

    assert [one.title for one in plan if not one.left_out] == [
        *("Namespace lab", "Cluster member1", "ResourceBinding lab/kept-configmap", "ConfigMap lab/kept"),
    ]
    assert {one.left_out for one in plan if one.left_out} == {
        *("the source is deleting it", "the source is deleting its Namespace", "the source is deleting its template"),
        "the source is deleting its binding",
    }
    assert [identity[3] for identity in placements(plan)] == ["kept-configmap"]
    assert {one.title for one in removable(plan) if one.kind == "ConfigMap"} == {
        f"ConfigMap {place}/{name}" for name, place in maps
    }


def test_an_undo_of_very_many_objects_compares_each_of_them_once() -> None:
    """That of 100,000 templates compared for a quarter of an hour before it asked anything."""
    names = [f"web{number}" for number in range(12_000)]
    items = [Item(("apps/v1", "Deployment", "shop", name), {"metadata": {"name": name}}) for name in names]
    here: dict[Any, Any] = {
        items[0].identity: {"metadata": {"name": "web0", "managedFields": [{"manager": "kubectl"}]}}
    }
    begun = time.thread_time()

    going, left = parted(items, here)

    assert (len(going), left) == (len(items) - 1, items[:1])
    assert time.thread_time() - begun < 2
