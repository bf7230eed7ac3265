"""What an override policy is refused for, and what it is warned of [override-policies]."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.documents import Document
from tests.core.admitted import created, fields

RULE = "spec.overrideRules[0]"


def document(**spec: Any) -> Document:
    metadata = {"name": "p", "namespace": "default"}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "OverridePolicy",
        "metadata": metadata,
        "spec": spec,
    }


def rule(**overriders: Any) -> Document:
    return document(overrideRules=[{"overriders": overriders}])


@pytest.mark.parametrize(
    ("overriders", "field"),
    [
        ({"plaintext": [{"path": "/a", "operator": "copy"}]}, "plaintext[0].operator"),
        ({"imageOverrider": [{"component": "Name", "operator": "add"}]}, "imageOverrider[0].component"),
        (
            {"imageOverrider": [{"component": "Tag", "operator": "add", "predicate": {"path": "x"}}]},
            "imageOverrider[0].predicate.path",
        ),
        ({"commandOverrider": [{"containerName": "a", "operator": "replace"}]}, "commandOverrider[0].operator"),
        ({"argsOverrider": [{"containerName": "a", "operator": "replace"}]}, "argsOverrider[0].operator"),
        ({"labelsOverrider": [{"operator": "add", "value": {"a": "-"}}]}, "labelsOverrider[0].value"),
        ({"annotationsOverrider": [{"operator": "add", "value": {"a b": ""}}]}, "annotationsOverrider[0].value"),
        ({"fieldOverrider": [{"fieldPath": "/a"}]}, "fieldOverrider[0]"),
        (
            {"fieldOverrider": [{"fieldPath": "a", "json": [{"subPath": "/b", "operator": "add", "value": 0}]}]},
            "fieldOverrider[0].fieldPath",
        ),
        (
            {"fieldOverrider": [{"fieldPath": "", "yaml": [{"subPath": "/b", "operator": "move"}]}]},
            "fieldOverrider[0].yaml[0].operator",
        ),
    ],
)
def test_a_rule_that_can_never_be_applied_is_refused_by_field(overriders: Document, field: str) -> None:
    assert fields(rule(**overriders)) == {f"{RULE}.overriders.{field}"}


def test_all_causes_are_reported_at_once() -> None:
    doc = document(
        resourceSelectors=[{"apiVersion": "", "kind": ""}],
        overrideRules=[
            {
                "targetCluster": {"fieldSelector": {"matchExpressions": [{"key": "name", "operator": "In"}]}},
                "overriders": {"labelsOverrider": [{"operator": "add", "value": {"/a": "b"}}]},
            }
        ],
        targetCluster={},
        overriders={"fieldOverrider": [{"fieldPath": ""}]},
    )

    assert fields(doc) == {
        "spec.resourceSelectors[0].apiVersion",
        "spec.resourceSelectors[0].kind",
        f"{RULE}.targetCluster.fieldSelector",
        f"{RULE}.overriders.labelsOverrider[0].value",
        "spec.targetCluster",
        "spec.overriders",
    }


def test_deprecated_fields_are_accepted_with_a_warning_that_also_names_their_faults() -> None:
    doc = document(overriders={"fieldOverrider": [{"fieldPath": "data", "json": []}]})

    warned = created(doc).warnings

    assert any("deprecated: write spec.overrideRules" in text for text in warned)
    assert any(text.startswith("spec.overriders.fieldOverrider[0].fieldPath: ") for text in warned)


def test_a_policy_without_rules_is_accepted_with_a_warning() -> None:
    assert any("no rules" in text for text in created(document()).warnings)
