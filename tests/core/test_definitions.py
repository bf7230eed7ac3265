"""A CustomResourceDefinition brings a kind: from then on its objects are templates (the failover guide,
[state-preservation])."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.controllers.policies import Policies
from controlplane.kind import KINDS
from controlplane.kinds.template import Template
from controlplane.propagation.definitions import kinds_of
from tests.builders import templates
from tests.builders.objects import START

FLINK = "flink.apache.org/FlinkDeployment"


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    KINDS.set_custom(())


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
