"""The product's switches: read from the environment, refused by name, and documented as they are."""

import re
from pathlib import Path

import pytest

from config import controllers, product
from config.env import EnvironmentInvalid
from config.settings_document import with_tables
from controlplane.settings import Settings
from controlplane.settings.listing import all_settings

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
    with pytest.raises(EnvironmentInvalid, match=r'skippedPropagatingNamespaces: "\[" is not a regular expression'):
        product.from_environment({"LIFEBOAT_SKIPPED_PROPAGATING_NAMESPACES": "["})


def test_the_documented_tables_are_those_of_the_code() -> None:
    document = DOCUMENT.read_text()

    assert document == with_tables(document), "run: make docs"
    assert {setting.name for setting in all_settings()} <= set(re.findall(r"^\| `([^`]+)` \|", document, re.MULTILINE))


def controllers_of(value: str) -> Settings:
    settings, _ = product.from_environment({"LIFEBOAT_CONTROLLERS": value})
    return settings


def test_a_controller_is_left_out_by_its_name_or_by_the_name_karmada_gives_it() -> None:
    for value in ("*,-eviction_queue,-evictions", "*,-taint-manager", " * , -taint-manager-controller"):
        settings = controllers_of(value)

        left_out = {name for name in controllers.NAMES if not settings.runs(name)}
        assert left_out == {"eviction_queue", "evictions"}, value


def test_a_list_without_a_star_runs_what_it_names() -> None:
    settings = controllers_of("scheduler,gracefulEviction")

    assert {name for name in controllers.NAMES if settings.runs(name)} == {"graceful_eviction", "scheduler"}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("*,-nonsense", 'unknown controller "nonsense"; known are application_failover, '),
        ("*,-taint-manger", 'unknown controller "taint-manger"; did you mean "taint-manager"?'),
        ("*,-Evictions", 'unknown controller "Evictions"; did you mean "evictions"?'),
        ("*,-graceful-eviction", 'did you mean "graceful_eviction"?'),
        ("scheduler,-*", 'unknown controller "*"'),
        ("-scheduler", "no controller would run; write *,-scheduler"),
    ],
)
def test_an_unknown_controller_is_refused_with_the_nearest_known_one(value: str, said: str) -> None:
    with pytest.raises(EnvironmentInvalid, match=re.escape(said)) as caught:
        controllers_of(value)

    assert str(caught.value).startswith(f'LIFEBOAT_CONTROLLERS="{value}": ')


def test_every_name_of_karmada_stands_for_controllers_there_are() -> None:
    assert {one for ours in controllers.ALIASES.values() for one in ours} <= set(controllers.NAMES)
