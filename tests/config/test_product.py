"""The product's switches: read from the environment, refused by name, and documented as they are."""

import re
from pathlib import Path

import pytest

from config import product
from config.env import EnvironmentInvalid
from controlplane.settings import FIXED, Settings

DOCUMENT = Path(__file__).parents[2] / "docs" / "settings.md"


def test_an_empty_environment_gives_the_defaults() -> None:
    assert product.from_environment({}) == (Settings(), [])


def test_each_type_is_read_from_text() -> None:
    settings, warnings = product.from_environment(
        {
            "LIFEBOAT_FEATURE_GATES": "Failover=true",
            "LIFEBOAT_CLUSTER_FAILURE_THRESHOLD": "2.5",
            "LIFEBOAT_LARGE_CLUSTER_NUM_THRESHOLD": "20",
            "LIFEBOAT_AUTO_NO_SCHEDULE_TAINTS": "false",
            "LIFEBOAT_EVICT_PLUGINS": "ResourceHealth",
            "LIFEBOAT_COMPAT_DEFAULT_NOT_READY_TOLERATION_SECONDS": "300",
            "LIFEBOAT_EVICTION_BUCKET_SCOPE": "Cluster",
        }
    )

    assert settings.gate("Failover")
    assert settings.gate("PropagateDeps")
    assert settings.cluster_failure_threshold == 2.5
    assert settings.large_cluster_num_threshold == 20
    assert not settings.auto_no_schedule_taints
    assert settings.evict_plugins == ("ResourceHealth",)
    assert settings.compat.default_not_ready_toleration_seconds == 300
    assert settings.eviction.bucket_scope == "Cluster"
    assert settings.eviction.ageing_seconds == Settings().eviction.ageing_seconds
    assert warnings == []


def test_the_gates_are_also_read_under_their_old_name() -> None:
    old, _ = product.from_environment({"FEATURE_GATES": "Failover=true"})
    both, _ = product.from_environment({"FEATURE_GATES": "Failover=true", "LIFEBOAT_FEATURE_GATES": "Failover=false"})

    assert old.gate("Failover")
    assert not both.gate("Failover")


def test_a_retired_gate_is_accepted_and_answered_with_what_replaces_it() -> None:
    _, warnings = product.from_environment({"LIFEBOAT_FEATURE_GATES": "GracefulEviction=true"})

    assert len(warnings) == 1
    assert "purgeMode" in warnings[0]


@pytest.mark.parametrize(
    "flag", ["ENABLE_TAINT_MANAGER", "ENABLE_NO_EXECUTE_TAINT_EVICTION", "ALLOW_NO_EXECUTE_TAINT_POLICY"]
)
def test_a_retired_flag_is_accepted_and_answered_with_what_replaces_it(flag: str) -> None:
    settings, (warning,) = product.from_environment({f"LIFEBOAT_{flag}": "true"})

    assert settings == Settings()
    assert warning.startswith(f"LIFEBOAT_{flag} has no effect: ")
    assert "feature gate Failover" in warning
    assert f"LIFEBOAT_{flag}" in DOCUMENT.read_text()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LIFEBOAT_CLUSTER_MONITOR_PERIOD", "0"),
        ("LIFEBOAT_CLUSTER_STATUS_UPDATE_FREQUENCY", "0.0001"),
        ("LIFEBOAT_CLUSTER_LEASE_DURATION", "0.5"),
        ("LIFEBOAT_RESOURCE_EVICTION_RATE", "nan"),
        ("LIFEBOAT_CLUSTER_FAILURE_THRESHOLD", "inf"),
        ("LIFEBOAT_CLUSTER_MONITOR_PERIOD", "5s"),
        ("LIFEBOAT_UNHEALTHY_CLUSTER_THRESHOLD", "55"),
        ("LIFEBOAT_ON_GRACEFUL_TIMEOUT", "Never"),
        ("LIFEBOAT_EVICT_PLUGINS", "Wishes"),
        ("LIFEBOAT_FEATURE_GATES", "Levitation=true"),
    ],
)
def test_what_cannot_be_is_refused_with_variable_value_and_example(variable: str, value: str) -> None:
    expected = rf'{variable}="{re.escape(value)}": .*; e\.g\. {variable}=\S+'

    with pytest.raises(EnvironmentInvalid, match=expected):
        product.from_environment({variable: value})


def test_a_rule_between_settings_is_checked_at_start() -> None:
    with pytest.raises(EnvironmentInvalid, match="secondaryResourceEvictionRate: 2"):
        product.from_environment({"LIFEBOAT_SECONDARY_RESOURCE_EVICTION_RATE": "2"})


def test_a_pattern_that_is_none_is_refused_at_start() -> None:
    with pytest.raises(EnvironmentInvalid, match=r'skippedPropagatingNamespaces: "\[" is no regular expression'):
        product.from_environment({"LIFEBOAT_SKIPPED_PROPAGATING_NAMESPACES": "["})


def test_the_documented_list_is_the_list_in_the_code() -> None:
    row = r"^\| `([^`]+)` \| `([^`]+)` \| ([^|]*?) ?\| (R?) ?\| .+ \|$"
    rows = re.findall(row, DOCUMENT.read_text(), re.MULTILINE)

    in_code = [
        (
            switch.name,
            product.shown(switch.default) or "unset",
            product.allowed(switch.type),
            "" if switch.name.partition(".")[0] in FIXED else "R",
        )
        for switch in product.switches()
    ]
    assert rows == in_code
