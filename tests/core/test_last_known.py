"""How a template counts what clusters out of reach said last, and what `kubectl get` shows of a binding."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane import interpret
from controlplane.kinds.binding import (
    AggregatedStatusItem,
    ObjectReference,
    ResourceBindingSpec,
    TargetCluster,
)
from controlplane.kinds.binding import columns as binding_columns
from controlplane.propagation.aggregation import LAST_APPLIED, aggregated, counting, fully_applied
from tests.builders.objects import bound, work

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LOST = NOW - timedelta(minutes=15)


def item(cluster: str, status: dict[str, Any], *, lost: bool = False) -> AggregatedStatusItem:
    if not lost:
        return AggregatedStatusItem(cluster, status, applied=True, health="Healthy")
    return AggregatedStatusItem(
        cluster, status, applied=True, health="Unknown", last_known_health="Healthy", out_of_reach_since=LOST
    )


def template_status(api_version: str, kind: str, *items: AggregatedStatusItem) -> dict[str, Any]:
    known = interpret.interpreter_for(api_version, kind)
    assert known.aggregate is not None
    return known.aggregate({"metadata": {"generation": 1}}, counting(items, final=known.final), NOW)


@pytest.mark.parametrize("ready_changed", [LOST, NOW])
def test_a_mark_keeps_the_time_when_the_cluster_got_out_of_reach(ready_changed: datetime) -> None:
    one = work(on="a")

    (found,) = aggregated([one], out_of_reach={"a": ready_changed}, before=[item("a", {}, lost=True)])

    assert found.out_of_reach_since == LOST


def test_fully_applied_is_unknown_and_names_the_clusters_out_of_reach() -> None:
    web = ObjectReference("apps/v1", "Deployment", "web", "shop")
    spec = ResourceBindingSpec(resource=web, clusters=(TargetCluster("a", 1), TargetCluster("b", 1)))
    binding = bound(spec)

    said = fully_applied(binding, [item("a", {}), item("b", {}, lost=True)])

    assert (said.status, said.reason) == ("Unknown", "ClusterOutOfReach")
    assert said.message == f"{LAST_APPLIED}; out of reach: b since 2026-03-01T11:45:00Z"


def test_replicas_of_a_lost_cluster_are_not_ready() -> None:
    report = {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2}

    status = template_status("apps/v1", "Deployment", item("a", report), item("b", report, lost=True))

    assert (status["readyReplicas"], status["availableReplicas"]) == (2, 2)


def test_a_job_that_was_complete_on_a_lost_cluster_stays_complete() -> None:
    done = {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}

    status = template_status("batch/v1", "Job", item("a", done), item("b", done, lost=True))

    assert [one["type"] for one in status["conditions"]] == ["Complete"]
    assert status["succeeded"] == 2


def test_a_job_that_ran_on_a_lost_cluster_is_not_active() -> None:
    assert "active" not in template_status("batch/v1", "Job", item("b", {"active": 1}, lost=True))


CLAIM, VOLUME, POD = (("v1", kind) for kind in ("PersistentVolumeClaim", "PersistentVolume", "Pod"))


@pytest.mark.parametrize(
    ("kind", "here", "there", "expected"),
    [
        (CLAIM, "Bound", "Bound", None),
        (CLAIM, "Pending", "Bound", "Pending"),
        (CLAIM, "Lost", "Bound", "Lost"),
        (VOLUME, "Bound", "Bound", None),
        (VOLUME, "Failed", "Bound", "Failed"),
        (POD, "Running", "Running", "Unknown"),
        (POD, "Succeeded", "Running", "Unknown"),
        (POD, "Pending", "Running", "Pending"),
        (POD, "Running", "Succeeded", "Running"),
        (POD, "Running", "Failed", "Failed"),
    ],
)
def test_a_phase_on_a_lost_cluster_is_not_shown_as_current_unless_it_is_final(
    kind: tuple[str, str], here: str, there: str, expected: str | None
) -> None:
    status = template_status(*kind, item("a", {"phase": here}), item("b", {"phase": there}, lost=True))

    assert status.get("phase") == expected
    assert template_status(*kind, item("b", {"phase": "Bound"}, lost=True)).get("phase") != "Bound"


@pytest.mark.parametrize(
    ("conditions", "tasks", "expected"),
    [
        ([], [], ""),
        ([], [{"fromCluster": "a"}], "Leaving"),
        ([{"type": "EvictionPending", "status": "True", "reason": "Held"}], [], "Held"),
        ([{"type": "EvictionPending", "status": "False", "reason": "Evicted"}], [], ""),
        ([{"type": "EvictionStuck", "status": "True", "reason": "WaitingSource"}], [{"fromCluster": "a"}], "Stuck"),
        ([{"type": "DirectlyWaiting", "status": "True", "reason": "Waits"}], [{"fromCluster": "a"}], "Waiting"),
    ],
)
def test_the_column_eviction_says_how_far_an_eviction_is(
    conditions: list[dict[str, str]], tasks: list[dict[str, str]], expected: str
) -> None:
    doc = {"spec": {"gracefulEvictionTasks": tasks}, "status": {"conditions": conditions}}

    assert binding_columns.eviction(doc, NOW) == expected


def test_the_wide_message_names_the_age_and_what_is_waited_for() -> None:
    items = [{"clusterName": "a", "outOfReachSince": "2026-03-01T11:45:00Z", "lastKnownHealth": "Healthy"}]
    held = {"type": "EvictionPending", "status": "True", "reason": "Held", "message": "cluster a: NoRefuge"}
    doc = {"status": {"aggregatedStatus": items, "conditions": [held]}}

    assert binding_columns.message(doc, NOW) == "a: out of reach for 15m, last known Healthy; cluster a: NoRefuge"
