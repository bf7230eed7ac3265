"""Metrics of one process: series of clusters end with the cluster, errors begin at 0."""

from __future__ import annotations

from prometheus_client import REGISTRY

from apps.objects import instruments


def value(name: str, **labels: str) -> float | None:
    found: float | None = REGISTRY.get_sample_value(name, labels)
    return found


def test_series_of_a_cluster_end_when_it_is_unjoined() -> None:
    for cluster in ("stays", "goes"):
        instruments.member_request(cluster, "probe", seconds=0.5, failed=True)

    instruments.keep_clusters({"stays"})

    assert value("lifeboat_member_request_seconds_count", cluster_name="stays", request="probe") == 1
    assert value("lifeboat_member_request_errors_total", cluster_name="stays", request="probe") == 1
    assert value("lifeboat_member_request_seconds_count", cluster_name="goes", request="probe") is None
    assert value("lifeboat_member_request_errors_total", cluster_name="goes", request="probe") is None


def test_the_first_error_of_a_controller_is_an_increase() -> None:
    instruments.expect(["some_controller"])

    assert value("lifeboat_reconcile_errors_total", controller="some_controller") == 0
