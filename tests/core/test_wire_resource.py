"""How long ago something was, in kubectl's words."""

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.wire.resource import Resource, age, human_duration

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("duration", "shown"),
    [
        (timedelta(seconds=0), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(minutes=2), "2m"),
        (timedelta(minutes=5, seconds=12), "5m12s"),
        (timedelta(minutes=10, seconds=59), "10m"),
        (timedelta(minutes=179), "179m"),
        (timedelta(hours=3), "3h"),
        (timedelta(hours=7, minutes=59), "7h59m"),
        (timedelta(hours=8, minutes=59), "8h"),
        (timedelta(hours=47), "47h"),
        (timedelta(hours=48), "2d"),
        (timedelta(days=3, hours=4), "3d4h"),
        (timedelta(days=8, hours=23), "8d"),
        (timedelta(days=729), "729d"),
        (timedelta(days=730), "2y"),
        (timedelta(days=800), "2y70d"),
        (timedelta(days=365 * 8 + 100), "8y"),
        (timedelta(seconds=-1), "0s"),
        (timedelta(seconds=-2), "<invalid>"),
    ],
)
def test_a_duration_shows_two_units_while_the_second_matters(duration, shown):
    assert human_duration(duration.total_seconds()) == shown


def test_age_reads_timestamps_as_text_and_as_datetime():
    assert age("2026-11-20T11:54:48Z", NOW) == "5m12s"
    assert age("2026-11-20T12:54:48+01:00", NOW) == "5m12s"
    assert age("2026-11-20T11:59:59.123456Z", NOW) == "0s"
    assert age(NOW - timedelta(days=3, hours=4), NOW) == "3d4h"


@pytest.mark.parametrize("timestamp", [None, "", "yesterday"])
def test_what_has_no_readable_time_has_no_known_age(timestamp):
    assert age(timestamp, NOW) == "<unknown>"


def test_a_resource_knows_how_its_kind_is_written():
    core = Resource("", "v1", "ConfigMap", "configmaps", "configmap", True)
    apps = Resource("apps", "v1", "Deployment", "deployments", "deployment", True)

    assert (core.api_version, core.key, core.list_kind) == ("v1", "ConfigMap", "ConfigMapList")
    assert (apps.api_version, apps.key) == ("apps/v1", "apps/Deployment")
