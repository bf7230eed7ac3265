"""What a FailoverConfiguration may say at run time."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apimachinery.meta import ObjectMeta
from controlplane.kinds import FAILOVER_CONFIGURATION, KINDS
from controlplane.kinds.configuration import FailoverConfiguration
from controlplane.kinds.configuration.rules import validate, warn
from controlplane.settings import Settings
from controlplane.settings.listing import all_settings
from tests.core.admitted import refused


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
        {"featureGates": {"Failover": True, "GracefulEviction": True}},
        {"compat": {"defaultNotReadyTolerationSeconds": None}},
        {"resourceEvictionRate": 0, "secondaryResourceEvictionRate": 0},
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
        ({"featureGates": {"Teleport": True}}, "spec.featureGates.Teleport", "unknown gate"),
        ({"featureGates": {"Failover": "yes"}}, "spec.featureGates.Failover", "Expected bool"),
        ({"featureGates": 5}, "spec.featureGates", "Expected object"),
        ({"feature_gates": {}}, "spec.feature_gates", "unknown setting; known are autoNo"),
        ({"eviction": {"bucketscope": "Cluster"}}, "spec.eviction.bucketscope", "ageingSeconds, bucketScope"),
        ({"compat": {"defaultNotReadyTolerationSeconds": -5}}, "spec.compat.defaultNotReadyTolerationSeconds", "-5"),
        ({"gracefulEvictionTimeout": 1e18}, "spec.gracefulEvictionTimeout", "1000000000"),
        ({"clusterFailureThreshold": 1e14}, "spec.clusterFailureThreshold", "86400"),
        ({"clusterStatusUpdateFrequency": 0.0001}, "spec.clusterStatusUpdateFrequency", "0.1"),
        ({"clusterMonitorPeriod": 1e9}, "spec.clusterMonitorPeriod", "3600"),
        ({"clusterMonitorGracePeriod": 0.001}, "spec.clusterMonitorGracePeriod", ">= 1"),
        ({"eviction": {"ageingSeconds": 0.001}}, "spec.eviction.ageingSeconds", ">= 1"),
        ({"largeClusterNumThreshold": 10**12}, "spec.largeClusterNumThreshold", "1000000"),
        ({"skippedPropagatingNamespaces": ["(?=a)"]}, "spec.skippedPropagatingNamespaces", "no lookaround"),
        (
            {"skippedPropagatingNamespaces": ["a)|(b"]},
            "spec.skippedPropagatingNamespaces",
            "is not a regular expression",
        ),
        ({"resourceEvictionRate": 1e300}, "spec.resourceEvictionRate", "1000000"),
        ({"secondaryResourceEvictionRate": 1e-12}, "spec.secondaryResourceEvictionRate", "0 to stop"),
        ({"secondaryResourceEvictionRate": 9}, "spec.secondaryResourceEvictionRate", "must not exceed"),
    ],
)
def test_a_bad_setting_is_refused_with_field_and_rule(spec: dict[str, Any], field: str, words: str) -> None:
    ((found, message),) = _causes(spec)

    assert found == field
    assert words in message


def test_all_causes_are_reported_at_once() -> None:
    causes = _causes({"resourceEvictionRate": -1, "unhealthyClusterThreshold": 2}, name="mine")

    assert [field for field, _ in causes] == [
        "metadata.name",
        "spec.resourceEvictionRate",
        "spec.unhealthyClusterThreshold",
    ]


def test_all_causes_are_reported_at_once_however_deep_and_none_that_only_follows_from_another() -> None:
    spec = {
        "eviction": {"ageingSeconds": 0, "bucketScope": "Zone", "speed": 1},
        "featureGates": {"Failover": "yes", "Teleport": True},
        "evictPlugins": [],
        "resourceEvictionRate": "slow",
        "secondaryResourceEvictionRate": 0.7,
        "skippedPropagatingNamespaces": ["[", "("],
    }

    assert sorted(field for field, _ in _causes(spec)) == [
        "spec.evictPlugins",
        "spec.eviction.ageingSeconds",
        "spec.eviction.bucketScope",
        "spec.eviction.speed",
        "spec.featureGates.Failover",
        "spec.featureGates.Teleport",
        "spec.resourceEvictionRate",
        "spec.skippedPropagatingNamespaces",
        "spec.skippedPropagatingNamespaces",
    ]


def test_a_retired_gate_is_answered_with_what_replaces_it() -> None:
    spec = {"featureGates": {"GracefulEviction": True}}
    new = FailoverConfiguration("failover.lifeboat.io/v1alpha1", "FailoverConfiguration", spec=spec)

    (reported,) = warn(new, None, Settings())

    assert "GracefulEviction has no effect" in reported
    assert "purgeMode" in reported


def test_explain_describes_every_setting_that_can_be_overridden_and_no_other() -> None:
    spec = KINDS[FAILOVER_CONFIGURATION].schema().property("spec")
    assert spec is not None

    explained = {}
    for name in spec.properties or ():
        field = spec.property(name)
        assert field is not None
        inner = field.properties or ()
        explained |= {(name, key): found.description for key in inner if (found := field.property(key)) is not None}
        if not inner:
            explained[name,] = field.description

    described = {one.path: one.description.replace("`", "") for one in all_settings() if not one.read_at_start}
    assert explained == described


def test_bad_settings_are_refused_once_each_by_schema_and_rules_together() -> None:
    doc = {
        "apiVersion": "failover.lifeboat.io/v1alpha1",
        "kind": "FailoverConfiguration",
        "metadata": {"name": "default"},
        "spec": {
            "eviction": {"ageingSeconds": 0, "bucketScope": "Zone", "speed": 1},
            "featureGates": {"Failover": "yes"},
            "resourceEvictionRate": "slow",
            "evictPlugins": [],
            "largeClusterNumThreshold": 1.5,
            "graceful_eviction_timeout": 5,
        },
    }

    assert sorted(cause.field for cause in refused(doc)) == [
        "spec.evictPlugins",
        "spec.eviction.ageingSeconds",
        "spec.eviction.bucketScope",
        "spec.eviction.speed",
        "spec.featureGates.Failover",
        "spec.graceful_eviction_timeout",
        "spec.largeClusterNumThreshold",
        "spec.resourceEvictionRate",
    ]
