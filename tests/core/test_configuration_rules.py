"""What a FailoverConfiguration may say at run time."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.kinds.configuration import FailoverConfiguration
from controlplane.kinds.configuration_rules import validate
from controlplane.meta import ObjectMeta
from controlplane.settings import Settings


def _causes(spec: dict[str, Any], name: str = "default", settings: Settings | None = None) -> list[tuple[str, str]]:
    new = FailoverConfiguration("failover.lifeboat.io/v1alpha1", "FailoverConfiguration", ObjectMeta(name=name), spec)
    return [(cause.field, cause.message) for cause in validate(new, None, settings or Settings())]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"resourceEvictionRate": 50, "secondaryResourceEvictionRate": 5},
        {"featureGates": {"Failover": True}},
        {"eviction": {"bucketScope": "Cluster"}},
        {"onGracefulTimeout": "Purge", "evictPlugins": ["ResourceHealth"]},
    ],
)
def test_good_settings_are_accepted(spec: dict[str, Any]) -> None:
    assert _causes(spec) == []


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"resourceEvictionRate": -1}, "spec.resourceEvictionRate", "-1"),
        ({"eviction": {"bucketScope": "Zone"}}, "spec.eviction.bucketScope", "Zone"),
        ({"evictPlugins": []}, "spec.evictPlugins", "at least one"),
        ({"evictPlugins": ["Luck"]}, "spec.evictPlugins[0]", "Luck"),
        ({"skippedPropagatingNamespaces": ["kube-.*", "["]}, "spec.skippedPropagatingNamespaces", '"["'),
        ({"noSuchSetting": 1}, "spec.noSuchSetting", "unknown setting"),
        ({"controllers": ["*"]}, "spec.controllers", "environment"),
        ({"featureGates": {"Teleport": True}}, "spec.featureGates", "Teleport"),
        ({"secondaryResourceEvictionRate": 9}, "spec.secondaryResourceEvictionRate", "must not exceed"),
    ],
)
def test_a_bad_setting_is_refused_with_field_and_rule(spec: dict[str, Any], field: str, words: str) -> None:
    ((found, message),) = _causes(spec)

    assert found == field
    assert words in message


def test_all_causes_are_told_at_once() -> None:
    causes = _causes({"resourceEvictionRate": -1, "unhealthyClusterThreshold": 2}, name="mine")

    assert [field for field, _ in causes] == [
        "metadata.name",
        "spec.resourceEvictionRate",
        "spec.unhealthyClusterThreshold",
    ]
