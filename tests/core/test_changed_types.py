"""For Python true equals 1. An edit from one to the other counts like any other, wherever a field may have any type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.admission.admit import admit_create, admit_update
from controlplane.apimachinery.as_written import ABSENT_FLAG, ABSENT_LIST, ABSENT_MAP, ABSENT_TEXT
from controlplane.apimachinery.equality import same
from controlplane.apimachinery.errors import Invalid
from controlplane.clusters.comparing import changed_paths
from controlplane.kind import KINDS
from controlplane.kinds.policy import ResourceSelector
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work, WorkStatus
from controlplane.kinds.work.rules import agent_work_faults
from controlplane.propagation.definitions import kinds_of
from controlplane.settings import Settings
from controlplane.wire.cel.rules import RuledNode, violations
from tests.builders import templates
from tests.builders.objects import START, policy
from tests.core.propagation_story import MEMBERS, Story

ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
VERSION = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": ANY}}
API = {"apiVersion": "apps.example.org/v1", "kind": "Release"}
OVERRIDE = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy", "metadata": {"name": "on"}}
GIVEN: dict[str, Any] = {"settings": Settings(), "now": START}
VALUES = (1, True, 1, 0, False)


@pytest.fixture(autouse=True)
def _releases() -> Iterator[None]:
    """Serve a kind without a status subresource, whose fields may have any type, and one with a rule of status."""
    found = templates.definition("Release", "releases", group="apps.example.org", versions=[VERSION])
    job = {**VERSION, "name": "v1beta1"}
    flink = templates.definition("FlinkDeployment", "flinkdeployments", group="flink.apache.org", versions=[job])
    KINDS.set_custom(kinds_of([found, flink]))
    yield
    KINDS.set_custom(())


def release(name: str = "web", **content: Any) -> Template:
    document = {**API, "metadata": {"name": name}, **content}
    made = admit_create(KINDS["apps.example.org/Release"], document, namespace="default", uid=name, **GIVEN)
    assert isinstance(made.object, Template)
    return made.object


def placed(made: Template, *more: Any) -> Story:
    story = Story(*MEMBERS, policy("all", ResourceSelector(API["apiVersion"], API["kind"])), made, *more)
    story.place(made, member1=0)
    return story


def override(value: Any) -> dict[str, Any]:
    plain = {"plaintext": [{"operator": "add", "path": "/spec", "value": {"enabled": value}}]}
    selected = {"resourceSelectors": [API]}
    return {**OVERRIDE, "spec": {**selected, "overrideRules": [{"overriders": plain}]}}


def test_a_value_of_an_override_policy_reaches_the_members() -> None:
    kind, made = KINDS["policy.karmada.io/OverridePolicy"], release(spec={})
    stored = admit_create(kind, override("first"), namespace="default", uid="on", **GIVEN).object
    story = placed(made, stored)

    for value in VALUES:
        edited = admit_update(kind, override(value), story.store.objects[stored.ref], **GIVEN).object
        story.edit(edited)

        assert story.works()["member1"].manifest["spec"]["enabled"] is value
        assert edited.metadata.generation == story.store.objects[stored.ref].metadata.generation
    assert story.again() == 0


def test_a_field_beside_the_spec_reaches_the_members() -> None:
    made = release(values={"enabled": "first"})
    story = placed(made)

    for value in VALUES:
        changed = {**API, "metadata": {"name": "web"}, "values": {"enabled": value}}
        story.edit(admit_update(KINDS["apps.example.org/Release"], changed, story.template(made), **GIVEN).object)

        assert story.works()["member1"].manifest["values"]["enabled"] is value


def test_a_template_with_changed_content_is_another_one_with_another_generation() -> None:
    made = release(spec={"enabled": 1}, values={"enabled": 1})

    changed = made.with_content({"spec": {"enabled": True}, "values": {"enabled": 1}})
    beside = made.with_content({"spec": {"enabled": 1}, "values": {"enabled": True}})

    assert changed.spec["enabled"] is True
    assert changed.metadata.generation == made.metadata.generation + 1
    assert beside.content["values"]["enabled"] is True
    assert all(one.has_other_content_than(made) for one in (changed, beside, made.with_content({})))
    assert made.with_content({"values": {"enabled": 1}, "spec": {"enabled": 1.0}}) is made


def test_an_edit_of_a_template_gets_a_generation() -> None:
    made = release(spec={"enabled": 1})
    changed = {**API, "metadata": {"name": "web"}, "spec": {"enabled": True}}

    edited = admit_update(KINDS["apps.example.org/Release"], changed, made, **GIVEN).object

    assert edited.metadata.generation == made.metadata.generation + 1


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        ({"spec": {"enabled": 1}}, {"spec": {"enabled": True}}, [("spec", "enabled")]),
        ({"spec": {"args": [0, 1]}}, {"spec": {"args": [False, 1.0]}}, [("spec", "args[0]")]),
        ({"spec": {"enabled": 1}}, {"spec": {"enabled": 1.0}}, []),
    ],
)
def test_a_comparison_with_a_member_shows_it(before: Any, after: Any, paths: list[tuple[str, ...]]) -> None:
    assert list(changed_paths(before, after)) == paths


def test_a_work_of_a_user_gets_a_generation_so_that_it_is_applied() -> None:
    def document(value: Any) -> dict[str, Any]:
        manifest = {**API, "metadata": {"name": "web"}, "spec": {"enabled": value}}
        metadata = {"name": "own", "namespace": "karmada-es-member1"}
        spec = {"workload": {"manifests": [manifest]}}
        return {"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": metadata, "spec": spec}

    kind = KINDS["work.karmada.io/Work"]
    made = admit_create(kind, document(1), namespace="karmada-es-member1", uid="own", **GIVEN).object

    changed = admit_update(kind, document(True), made, **GIVEN).object

    assert changed.metadata.generation == made.metadata.generation + 1
    assert [cause.field for cause in agent_work_faults(changed, made)] == ["spec"]


def test_a_reported_status_reaches_the_binding() -> None:
    made = release(spec={})
    story = placed(made)

    for value in VALUES:
        story.report("member1", ready=value)

        found = story.binding(made)
        assert found is not None
        (item,) = found.status.aggregated_status
        assert item.status is not None
        assert item.status["ready"] is value


def test_a_reported_status_reaches_the_template() -> None:
    made = templates.template("FlinkDeployment", "job", version="flink.apache.org/v1beta1", spec={})
    story = Story(*MEMBERS, policy("all", ResourceSelector("flink.apache.org/v1beta1", "FlinkDeployment")), made)
    story.place(made, member1=0)

    for value in VALUES:
        reported: dict[str, Any] = {"jobStatus": {"savepoint": value}}
        story.report("member1", **reported)

        assert story.template(made).status["jobStatus"]["savepoint"] is value
    assert story.again() == 0


def test_a_value_in_a_manifest_of_a_work_is_validated_when_its_type_changes() -> None:
    def document(manifest: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": "own", "namespace": "karmada-es-member1"}
        spec = {"workload": {"manifests": [manifest]}}
        return {"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": metadata, "spec": spec}

    kind, spec = KINDS["work.karmada.io/Work"], templates.deployment(replicas=1).content["spec"]
    written = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    made = admit_create(kind, document(written), namespace="karmada-es-member1", uid="own", **GIVEN).object
    assert isinstance(made, Work)
    stored = made.manifest  # with the marks that it gets
    changed = {**stored, "spec": {**stored["spec"], "replicas": True}}

    with pytest.raises(Invalid, match="replicas"):
        admit_update(kind, document(changed), made, **GIVEN)


def test_an_immutable_value_of_any_type_keeps_its_type() -> None:
    kind = KINDS["apps/ControllerRevision"]

    def document(value: Any) -> dict[str, Any]:
        head = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "one"}}
        return {**head, "revision": 1, "data": {"value": value}}

    made = admit_create(kind, document(1), namespace="default", uid="one", **GIVEN).object

    with pytest.raises(Invalid):
        admit_update(kind, document(True), made, **GIVEN)


def test_a_rule_is_run_for_a_value_of_another_type() -> None:
    rule = {"rule": "type(self.value) == int || type(self.value) == double"}
    node = {**ANY, "properties": {"value": {"x-kubernetes-preserve-unknown-fields": True}}}
    ruled = RuledNode({**node, "x-kubernetes-validations": [rule]})

    assert list(violations(ruled, {"value": 1}, {"value": 1}, begins=lambda *_: None)) == []
    assert len(list(violations(ruled, {"value": True}, {"value": 1}, begins=lambda *_: None))) == 1


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1}, True),
        ({"a": [{"b": 0}]}, {"a": [{"b": False}]}, False),
        ((1, True), (1, 1), False),
        (2**80, 2**80, True),
        ({"a": 2**80, "b": 1}, {"a": 2**80, "b": True}, False),
        (ABSENT_FLAG, False, True),
        ({"a": ABSENT_TEXT, "b": ABSENT_MAP, "c": ABSENT_LIST}, {"a": "", "b": {}, "c": ()}, True),
        (WorkStatus(), WorkStatus(manifest_statuses=()), True),
        (None, False, False),
    ],
)
def test_values_are_the_same_if_they_are_in_json(left: Any, right: Any, expected: bool) -> None:
    assert same(left, right) is expected
    assert same(right, left) is expected
