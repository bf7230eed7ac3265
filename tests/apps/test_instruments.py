"""Metrics of one process: series of clusters end with the cluster, errors begin at 0, phases are counted once."""

from __future__ import annotations

import pytest
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


def test_a_phase_within_another_one_counts_for_itself_only(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([0.0, 1.0, 3.0, 4.0, 8.0, 16.0])
    monkeypatch.setattr(instruments, "perf_counter", lambda: next(moments))

    with instruments.phase("outer", "apply"):  # from 0 to 16
        with instruments.phase("inner", "decide"):  # from 1 to 3
            pass
        with pytest.raises(ValueError, match="undecided"), instruments.phase("inner", "decide"):  # from 4 to 8
            raise ValueError("undecided")

    for controller, phase, count, seconds in (("inner", "decide", 2, 6.0), ("outer", "apply", 1, 10.0)):
        assert value("lifeboat_reconcile_seconds_count", controller=controller, phase=phase) == count
        assert value("lifeboat_reconcile_seconds_sum", controller=controller, phase=phase) == seconds
