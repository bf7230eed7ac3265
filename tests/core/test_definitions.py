"""A CustomResourceDefinition brings a kind: from then on its objects are templates (the failover guide,
[state-preservation])."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.admission.admit import admit_create, admit_update
from controlplane.controllers.policies import Policies
from controlplane.kind import KINDS
from controlplane.kinds.policy import ResourceSelector
from controlplane.kinds.template import Template
from controlplane.propagation.definitions import kinds_of
from controlplane.settings import Settings
from tests.builders import templates
from tests.builders.objects import START, policy
from tests.core.propagation_story import MEMBERS, Story

FLINK = "flink.apache.org/FlinkDeployment"


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    KINDS.set_custom(())


ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
V1BETA1 = {"name": "v1beta1", "served": True, "storage": True, "subresources": {"status": {}}}


def definition(
    kind: str = "FlinkDeployment", plural: str = "flinkdeployments", *, group: str = "flink.apache.org", **more: Any
) -> Template:
    return templates.definition(kind, plural, group=group, **{"versions": [V1BETA1], **more})


def test_what_a_definition_brings_is_served_and_can_be_propagated() -> None:
    KINDS.set_custom(kinds_of([definition()]))

    served = KINDS.served("flink.apache.org", "v1beta1", "flinkdeployments")

    assert served is not None
    assert (served.key, served.type, served.has_status) == (FLINK, Template, True)
    assert FLINK in Policies.keys


def test_a_definition_that_goes_takes_its_kind_along() -> None:
    KINDS.set_custom(kinds_of([definition()]))
    before = KINDS.revision

    KINDS.set_custom(kinds_of([definition(deletion_timestamp=START)]))
    assert KINDS[FLINK].is_ending

    KINDS.set_custom(kinds_of([]))
    assert FLINK not in KINDS
    assert KINDS.revision > before


@pytest.mark.parametrize(
    "greedy",
    [
        definition("Cluster", "clusters", group="cluster.karmada.io"),
        definition("Fleet", "clusters", group="cluster.karmada.io"),
    ],
)
def test_no_definition_takes_over_a_declared_kind(greedy: Template) -> None:
    before = KINDS["cluster.karmada.io/Cluster"]

    KINDS.set_custom(kinds_of([greedy]))

    assert KINDS["cluster.karmada.io/Cluster"] is before
    assert KINDS.served("cluster.karmada.io", "v1alpha1", "clusters") is before


def test_the_stored_version_is_the_one_that_is_served() -> None:
    versions = [{"name": "v1alpha1", "served": True, "storage": False}, {"name": "v1", "served": True, "storage": True}]

    KINDS.set_custom(kinds_of([definition(versions=versions)]))

    assert KINDS[FLINK].resource.version == "v1"


@pytest.mark.parametrize("content", [{}, {"spec": {}}, {"spec": {"versions": [{"name": "v1"}]}}])
def test_a_definition_that_cannot_be_read_brings_nothing(content: dict[str, Any]) -> None:
    broken = definition().with_content(content)

    assert list(kinds_of([broken])) == []


def test_a_number_that_a_user_replaces_by_a_boolean_reaches_the_members() -> None:
    """In a field of any type, such as the values of a Helm release."""
    (kind,) = kinds_of([definition(versions=[{**V1BETA1, "schema": {"openAPIV3Schema": ANY}}])])
    KINDS.set_custom([kind])
    api = {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment"}
    document = {**api, "metadata": {"name": "job"}, "spec": {"enabled": True}}
    given: dict[str, Any] = {"settings": Settings(), "now": START}
    job = admit_create(kind, document, namespace="default", uid="job", **given).object
    story = Story(*MEMBERS, policy("all", ResourceSelector(api["apiVersion"], api["kind"])), job)
    story.place(job, member1=0)

    for value in (1, True, 1):
        changed = {**document, "spec": {"enabled": value}}
        story.edit(admit_update(kind, changed, story.template(job), **given).object)

        assert story.works()["member1"].manifest["spec"]["enabled"] is value
