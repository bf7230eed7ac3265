"""What is known of a FlinkDeployment: how many pods it runs, what each needs, when it is healthy (the failover guide,
[state-preservation])."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane import interpret
from controlplane.kinds.binding import AggregatedStatusItem

FLINK = interpret.interpreter_for("flink.apache.org/v1beta1", "FlinkDeployment")
SLOTS = {"flinkConfiguration": {"taskmanager.numberOfTaskSlots": "2"}}


@pytest.mark.parametrize(
    ("status", "healthy"),
    [
        (None, False),
        ({}, False),
        ({"jobStatus": {}}, False),
        ({"jobStatus": {"state": "INITIALIZING"}}, False),
        ({"jobStatus": {"state": "CREATED"}, "error": "the image cannot be pulled"}, True),
        ({"error": "the specification is refused"}, True),
        ({"jobStatus": {"state": "CREATED"}}, False),
        ({"jobStatus": {"state": "RECONCILING"}}, False),
        ({"jobStatus": {"state": "RECONCILING"}, "jobManagerDeploymentStatus": "ERROR"}, True),
        ({"jobStatus": {"state": "RUNNING"}}, True),
        ({"jobStatus": {"state": "FINISHED"}}, True),
    ],
)
def test_it_is_healthy_once_its_job_has_left_its_first_states_or_failed_for_good(status: Any, healthy: bool) -> None:
    assert FLINK.healthy is not None
    assert FLINK.healthy({"status": status}) is healthy


@pytest.mark.parametrize(
    ("spec", "replicas"),
    [
        ({"jobManager": {"replicas": 1}, "taskManager": {"replicas": 2}}, 3),
        ({"taskManager": {"replicas": 2}}, 3),
        ({**SLOTS, "job": {"parallelism": 10}}, 6),
        ({**SLOTS, "job": {"parallelism": 3}}, 3),
        ({"flinkConfiguration": {"taskmanager.numberOfTaskSlots": "0"}, "job": {"parallelism": 10}}, 2),
        ({"flinkConfiguration": {}, "job": {}}, 2),
    ],
)
def test_it_runs_job_managers_and_as_many_task_managers_as_its_parallelism_needs(spec: Any, replicas: int) -> None:
    assert FLINK.replicas is not None
    assert FLINK.replicas({"spec": spec}).replicas == replicas


def test_each_pod_needs_what_the_larger_of_both_needs() -> None:
    manager, worker = {"cpu": 3, "memory": "2048m"}, {"cpu": 1, "memory": "8192m"}
    pods = {"nodeSelector": {"zone": "a"}, "priorityClassName": "high"}
    spec = {"jobManager": {"resource": manager}, "taskManager": {"resource": worker}, "podTemplate": {"spec": pods}}

    assert FLINK.replicas is not None
    needs = FLINK.replicas({"spec": spec}).requirements

    assert needs is not None
    assert needs.resource_request == {"cpu": "3", "memory": "8192m"}
    assert needs.priority_class_name == "high"
    assert needs.node_claim is not None
    assert needs.node_claim.node_selector == {"zone": "a"}


@pytest.mark.parametrize(
    ("written", "asked"),
    [("2048m", "2048m"), ("2Gi", "2Gi"), ("1g", "1Gi"), ("512 mb", "512Mi"), ("1 GB", "1Gi"), ("4 gibibytes", "4Gi")],
)
def test_memory_may_be_written_in_the_units_of_flink(written: str, asked: str) -> None:
    assert FLINK.replicas is not None
    needs = FLINK.replicas({"spec": {"jobManager": {"resource": {"memory": written}}}}).requirements

    assert needs is not None
    assert needs.resource_request == {"memory": asked}


def test_its_status_is_what_the_cluster_it_runs_on_reports() -> None:
    running = {"jobStatus": {"jobID": "42", "state": "RUNNING"}, "observedGeneration": 3, "internal": "not shown"}
    assert FLINK.reflect is not None
    assert FLINK.aggregate is not None

    reported = FLINK.reflect({"status": running})
    items = [AggregatedStatusItem("member1"), AggregatedStatusItem("member2", status=reported)]
    status = FLINK.aggregate({"status": {"error": "gone since"}}, items, datetime(2026, 3, 1, tzinfo=UTC))

    assert status == {"jobStatus": {"jobID": "42", "state": "RUNNING"}, "observedGeneration": 3}


def test_amounts_of_components_are_written_as_kubernetes_writes_them() -> None:
    """A FlinkDeployment has numbers for cpu. Typed clients compare the written form as well."""
    manager = {"resource": {"cpu": 0.05, "memory": "1g"}}
    app = {"spec": {"jobManager": manager, "taskManager": {"resource": {"cpu": 1.5, "memory": "100m"}, "replicas": 2}}}
    ask = FLINK.components
    assert ask is not None

    requests = [part.replica_requirements.resource_request for part in ask(app) if part.replica_requirements]

    assert requests == [{"cpu": "50m", "memory": "1Gi"}, {"cpu": "1500m", "memory": "100m"}]
