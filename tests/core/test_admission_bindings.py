"""What people may do to bindings and Works, which controllers write [taint-policies] [directly-unreachable]."""

from __future__ import annotations

import time
from typing import Any

import pytest

from controlplane.apimachinery.errors import Invalid
from controlplane.apimachinery.names import BINDING_ANNOTATION, LEFTOVER_ANNOTATION, REDUCED_ANNOTATION
from controlplane.kinds.binding import Binding
from tests.builders.documents import Document
from tests.core.admitted import UID, created, fields, updated, with_metadata


def binding(**spec: Any) -> Document:
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "default"}
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment"},
        "spec": {"resource": resource, **spec},
    }


@pytest.mark.parametrize("namespace", ["payments", ""])
def test_a_binding_of_an_object_outside_its_namespace_is_refused(namespace: str) -> None:
    """It would propagate an object, a Secret for example, that its author may not read."""
    doc = binding()
    doc["spec"]["resource"]["namespace"] = namespace

    with pytest.raises(Invalid) as caught:
        created(doc)

    (cause,) = caught.value.details.causes
    assert cause.field == "spec.resource.namespace"
    assert 'must be "default", the namespace of the binding' in cause.message


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"apiVersion": "extensions/v1"}, "spec.resource.apiVersion"),
        ({"apiVersion": "v1", "kind": "Secret"}, "spec.resource.kind"),
        ({"name": "other"}, "spec.resource.name"),
        ({"namespace": "payments"}, "spec.resource.namespace"),
    ],
)
@pytest.mark.parametrize("kind", ["ResourceBinding", "ClusterResourceBinding"])
def test_a_binding_stays_with_its_object(kind: str, changed: Document, field: str) -> None:
    """Who may edit targets could otherwise send a Secret to a cluster without the right to read it [edits-by-hand]."""
    doc = {**binding(), "kind": kind}
    stored: Binding = created(doc).object
    other = {**doc, "spec": {"resource": {**doc["spec"]["resource"], **changed}}}

    assert field in fields(other, old=stored)


def test_the_version_of_the_object_of_a_binding_may_change() -> None:
    other = binding()
    other["spec"]["resource"] |= {"apiVersion": "apps/v1beta1", "uid": "u", "resourceVersion": "7"}

    assert updated(other, created(binding()).object).object.spec.resource.api_version == "apps/v1beta1"


def test_an_order_is_given_through_the_api_that_knows_its_author() -> None:
    field = "metadata.annotations[failover.lifeboat.io/eviction-orders]"
    text = '{"member1": [{"verb": "Hold", "by": "eve"}]}'
    forged = binding()
    forged["metadata"]["annotations"] = {"failover.lifeboat.io/eviction-orders": text}
    plain: Binding = created(binding()).object
    given = plain.with_meta(annotations=forged["metadata"]["annotations"])

    assert fields(forged) == {field}
    assert fields(forged, old=plain) == {field}
    assert updated(forged, given).object.metadata.annotations == given.metadata.annotations
    assert updated(binding(), given).object.metadata.annotations == {}


def test_purge_modes_of_an_older_karmada_are_stored_in_a_binding_under_todays_names() -> None:
    """A Karmada that is imported may have them, also in a failover that is under way [purge-modes]."""
    old = binding(
        failover={"cluster": {"purgeMode": "Immediately"}, "application": {"purgeMode": "Graciously"}},
        gracefulEvictionTasks=[
            {"fromCluster": "member1", "purgeMode": "Immediately"},
            {"fromCluster": "member2", "purgeMode": "Graciously"},
        ],
    )

    admitted = created(old)

    spec = admitted.object.spec
    assert (spec.failover.cluster.purge_mode, spec.failover.application.purge_mode) == ("Directly", "Gracefully")
    assert [task.purge_mode for task in spec.graceful_eviction_tasks] == ["Directly", "Gracefully"]
    assert [text.partition(":")[0] for text in admitted.warnings if "is deprecated" in text] == [
        "spec.failover.cluster.purgeMode",
        "spec.failover.application.purgeMode",
        "spec.gracefulEvictionTasks[0].purgeMode",
        "spec.gracefulEvictionTasks[1].purgeMode",
    ]


@pytest.mark.parametrize(("part", "mode"), [("cluster", "Never"), ("cluster", "Foo"), ("application", "Foo")])
def test_a_binding_with_a_purge_mode_that_does_not_exist_is_refused(part: str, mode: str) -> None:
    """An eviction would take it for Gracefully, and two copies would run at the same time."""
    assert fields(binding(failover={part: {"purgeMode": mode}})) == {f"spec.failover.{part}.purgeMode"}


def test_people_may_edit_placement_and_tasks_of_a_binding() -> None:
    """[edits-by-hand]."""
    old: Binding = created(binding()).object

    new = updated(
        binding(
            clusters=[{"name": "member2", "replicas": 1}],
            gracefulEvictionTasks=[{"fromCluster": "member1", "purgeMode": "Directly", "reason": "Manual"}],
        ),
        old,
    ).object

    assert new.metadata.generation == 2
    assert new.metadata.labels["resourcebinding.karmada.io/permanent-id"] == UID
    assert new.spec.graceful_eviction_tasks[0].from_cluster == "member1"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"clusters": [{"name": "a"}, {"name": "a"}]}, "spec.clusters[1].name"),
        ({"clusters": [{"name": "a", "replicas": -1}]}, "spec.clusters[0].replicas"),
        ({"gracefulEvictionTasks": [{"fromCluster": "a"}] * 2}, "spec.gracefulEvictionTasks[1].fromCluster"),
        (
            {"gracefulEvictionTasks": [{"fromCluster": "a", "purgeMode": "Soon"}]},
            "spec.gracefulEvictionTasks[0].purgeMode",
        ),
        ({"gracefulEvictionTasks": [{"fromCluster": "a", "reason": "x" * 33}]}, "spec.gracefulEvictionTasks[0].reason"),
    ],
)
def test_a_binding_that_cannot_be_is_refused_by_field(spec: Document, field: str) -> None:
    assert field in fields(binding(**spec))


def test_a_work_written_by_hand_is_pruned_and_marked_like_ours() -> None:
    manifest = with_metadata(uid="u", resourceVersion="3") | {"status": {"x": 1}}

    made = created(of_manifest(manifest)).object.manifest

    assert "status" not in made
    assert "uid" not in made["metadata"]
    assert made["metadata"]["labels"] == {"work.karmada.io/permanent-id": UID}


BENT: dict[str, tuple[Document, list[str]]] = {
    "annotations are a text": ({"metadata": {"name": "a", "annotations": "x"}}, ["metadata.annotations"]),
    "a label is a number": ({"metadata": {"name": "a", "labels": {"b": 5}}}, ["metadata.labels.b"]),
    "metadata is a list": ({"metadata": [1]}, ["metadata", "metadata.name"]),
    "kind is a list": ({"kind": ["ConfigMap"]}, ["kind"]),
    "apiVersion is a number": ({"apiVersion": 1}, ["apiVersion"]),
    "nothing says what it is": ({"apiVersion": "", "kind": None}, ["apiVersion", "kind"]),
    "the spec of a kind we know": ({"kind": "Service", "spec": "x"}, ["spec"]),
    "another's metadata": (
        {"apiVersion": "example.io/v1", "kind": "Thing", "metadata": {"name": 1, "annotations": {"a": 2}}},
        ["metadata.annotations.a", "metadata.name"],
    ),
}


@pytest.mark.parametrize("case", BENT)
def test_a_work_whose_manifest_is_no_object_is_refused_by_field_when_it_is_made_and_when_it_is_changed(
    case: str,
) -> None:
    """The client of members reads each manifest as an object, so it cannot read one that is something else."""
    more, expected = BENT[case]
    good = of_manifest(with_metadata())

    for old in (None, created(good).object):
        found = fields(of_manifest({**with_metadata(), **more}), old=old)

        assert found == {f"spec.workload.manifests[0].{field}" for field in expected}


def test_what_is_null_in_a_manifest_is_not_set() -> None:
    old = created(of_manifest(with_metadata())).object

    made = updated(of_manifest({**with_metadata(annotations=None), "data": None}), old).object.manifest

    assert None not in made["metadata"].values()
    assert "data" not in made


def test_a_work_that_is_applied_again_is_marked_as_when_it_was_made() -> None:
    work = of_manifest(with_metadata())
    old = created(work).object

    assert updated(work, old).object.spec == old.spec


@pytest.mark.parametrize("name", [BINDING_ANNOTATION, LEFTOVER_ANNOTATION, REDUCED_ANNOTATION])
def test_no_user_writes_the_annotations_that_say_what_a_work_is_made_for(name: str) -> None:
    """A Work that named another binding would keep that one from being deleted."""
    forged = of_manifest(with_metadata(), annotations={name: "work.karmada.io/ResourceBinding:default/web-deployment"})
    plain = created(of_manifest(with_metadata()), namespace="karmada-es-member1").object
    ours = plain.with_meta(annotations={name: "work.karmada.io/ResourceBinding:default/other"})
    kept = of_manifest(with_metadata(), annotations=dict(ours.metadata.annotations))

    for namespace in ("karmada-es-member1", "default"):
        with pytest.raises(Invalid, match=f"{name}.*written by Lifeboat only"):
            created(forged, namespace=namespace)
    for old, new in ((plain, forged), (ours, forged), (ours, of_manifest(with_metadata()))):
        with pytest.raises(Invalid, match=f"{name}.*written by Lifeboat only"):
            updated(new, old)
    assert updated(kept, ours).object.metadata.annotations == ours.metadata.annotations


def of_manifest(manifest: Document, **metadata: Any) -> Document:
    return {
        "apiVersion": "work.karmada.io/v1alpha1",
        "kind": "Work",
        "metadata": {"name": "mine", **metadata},
        "spec": {"workload": {"manifests": [manifest]}},
    }


def test_many_targets_and_workloads_are_checked_in_linear_time() -> None:
    names = [f"member{number}" for number in range(30_000)]
    targets = [{"name": name, "replicas": 1} for name in names]
    workloads = [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "a", "name": name} for name in names]
    rebalancer = {"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer", "metadata": {"name": "all"}}
    begun = time.thread_time()

    created(binding(clusters=targets))
    created({**rebalancer, "spec": {"workloads": workloads}})

    assert time.thread_time() - begun < 5  # if each item is compared with those before it: ten seconds and more
