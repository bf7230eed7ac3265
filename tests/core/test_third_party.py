"""What kinds of other projects mean [resource-interpreter]; the golden vectors hold the breadth, these the edges."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane import interpret
from controlplane.apimachinery.quantities import Quantity
from controlplane.interpret.thirdparty import THIRD_PARTY
from controlplane.kinds.binding import AggregatedStatusItem, Component, TargetCluster
from controlplane.kinds.policy import Placement
from controlplane.kinds.template import Template
from controlplane.propagation import bindings, works
from tests.builders.objects import START, policy
from tests.builders.templates import deployment

Document = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
POD = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]}}
GATES = {"MultiplePodTemplatesScheduling": True}


def knows(kind: str) -> interpret.Interpreter:
    return next(interpreter for (_, name), interpreter in THIRD_PARTY.items() if name == kind)


def item(cluster: str, **status: Any) -> AggregatedStatusItem:
    return AggregatedStatusItem(cluster_name=cluster, status=status or None)


def parts(kind: str, spec: Document) -> dict[str, int]:
    rule = knows(kind).components
    assert rule is not None
    return {part.name: part.replicas for part in rule({"spec": spec})}


@pytest.mark.parametrize("key", sorted(THIRD_PARTY))
def test_an_object_without_any_field_is_refused_with_a_reason_or_answered(key: tuple[str, str]) -> None:
    interpreter = THIRD_PARTY[key]
    calls = [
        lambda: interpreter.replicas and interpreter.replicas({}),
        lambda: interpreter.components and interpreter.components({}),
        lambda: interpreter.healthy and interpreter.healthy({}),
        lambda: interpreter.reflect and interpreter.reflect({}),
        lambda: interpreter.aggregate and interpreter.aggregate({}, [], NOW),
        lambda: interpreter.aggregate and interpreter.aggregate({}, [item("a"), item("b")], NOW),
        lambda: interpreter.dependencies and interpreter.dependencies({}),
        lambda: interpreter.retain and interpreter.retain({}, {}),
    ]
    for call in calls:
        with contextlib.suppress(ValueError):  # any other error would stop the batch that the object is in
            call()


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        (
            "Job",
            {"tasks": [{"minAvailable": 0, "template": POD}, {"name": "w", "template": POD}]},
            {"task-0": 0, "w": 1},
        ),
        ("Job", {}, {}),
        ("TFJob", {"tfReplicaSpecs": {"PS": {"replicas": 0}, "Worker": None, "Chief": {}}}, {"ps": 0, "chief": 1}),
        (
            "MPIJob",
            {"mpiReplicaSpecs": {"Launcher": {"template": POD}, "Worker": {"template": POD}}},
            {"Launcher": 1, "Worker": 0},
        ),
        (
            "RayCluster",
            {"headGroupSpec": {"template": POD}, "workerGroupSpecs": [{"replicas": 2}]},
            {"ray-head": 1, "worker-1": 2},
        ),
        (
            "FlinkDeployment",
            {"job": {"parallelism": 5}, "flinkConfiguration": {"taskmanager.numberOfTaskSlots": "2"}},
            {"jobmanager": 1, "taskmanager": 3},
        ),
        ("FlinkDeployment", {"taskManager": {"replicas": 0}}, {"jobmanager": 1, "taskmanager": 0}),
        ("SparkApplication", {"type": "Scala", "executor": {"instances": 0}}, {"driver": 1, "executor": 0}),
        (
            "SparkApplication",
            {"type": "Java", "dynamicAllocation": {"enabled": True, "minExecutors": 4}},
            {"driver": 1, "executor": 4},
        ),
    ],
)
def test_a_workload_of_several_templates_has_components(kind: str, spec: Document, expected: dict[str, int]) -> None:
    assert parts(kind, spec) == expected


@pytest.mark.parametrize(
    ("language", "driver", "bytes_"),
    [
        ("Java", {}, 1408 * 2**20),
        ("Python", {"memory": "4g"}, 6012954215),
        ("Java", {"memory": "512m", "memoryOverhead": "1g"}, 1536 * 2**20),
        ("Java", {"memory": "4096m"}, 4724464026),
    ],
)
def test_memory_of_spark_has_its_overhead(language: str, driver: Document, bytes_: int) -> None:
    rule = knows("SparkApplication").components
    assert rule is not None

    found = rule({"spec": {"type": language, "driver": driver}})[0].replica_requirements

    assert found is not None
    assert Quantity.of(found.resource_request["memory"]).value() == bytes_


def test_a_condition_that_says_the_same_keeps_its_time() -> None:
    rule = knows("PyTorchJob").aggregate
    assert rule is not None
    done = [item("a", conditions=[{"type": "Succeeded", "status": "True"}])]

    first = rule({}, done, NOW)
    again = rule({"status": first}, done, NOW + timedelta(hours=1))

    assert again == first


@pytest.mark.parametrize(
    ("reason", "healthy"), [("ContainerCreating", True), ("ImagePullBackOff", False), ("CrashLoopBackOff", False)]
)
def test_a_notebook_that_waits_is_healthy_only_while_its_container_is_created(reason: str, healthy: bool) -> None:
    judge = knows("Notebook").healthy
    assert judge is not None

    assert judge({"status": {"containerState": {"waiting": {"reason": reason}}}}) is healthy


def test_a_broadcast_job_is_not_complete_while_a_member_still_runs() -> None:
    rule = knows("BroadcastJob").aggregate
    assert rule is not None
    complete = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}

    assert "conditions" not in rule({}, [item("a", **complete), item("b", active=1)], NOW)
    assert rule({}, [item("a", **complete), item("b", **complete)], NOW)["conditions"][0]["type"] == "Completed"


def test_failures_of_a_release_are_not_added_up_again() -> None:
    rule = knows("HelmRelease").aggregate
    assert rule is not None
    report = [item("a", failures=2), item("b", failures=1)]

    first = rule({"status": {"failures": 0}}, report, NOW)

    assert first["failures"] == rule({"status": first}, report, NOW)["failures"] == 3


def test_components_replace_replicas_on_a_binding_where_the_gate_is_on() -> None:
    template = Template(
        api_version="batch.volcano.sh/v1alpha1",
        kind="Job",
        content={"spec": {"tasks": [{"name": "main", "minAvailable": 2, "template": POD}]}},
    )
    template = replace(template, metadata=replace(template.metadata, name="train", namespace="default", uid="u"))

    with_gate = bindings.create(template, policy(), gates=GATES, now=START).spec
    without = bindings.create(template, policy(), gates={}, now=START).spec

    assert [(part.name, part.replicas) for part in with_gate.components] == [("main", 2)]
    assert with_gate.replicas == 0
    assert with_gate.replica_requirements is None
    assert without.components == ()


def test_a_condition_of_a_volcano_job_without_a_time_is_older_than_one_with_a_time() -> None:
    dated = {"status": "Running", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    combine = knows("Job").aggregate
    assert combine is not None

    for first, second in (({"status": "Running"}, dated), (dated, {"status": "Running"})):
        items = [item("a", conditions=[first]), item("b", conditions=[second])]
        assert combine({}, items, NOW) == {"conditions": [dated]}


def test_a_member_keeps_a_finished_volcano_job_so_that_it_does_not_run_again() -> None:
    """A member deletes the job after its time to live. Then it would be created once more."""
    template = Template.fold(
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": "train", "namespace": "default", "uid": "uid-train"},
            "spec": {"ttlSecondsAfterFinished": 60, "minAvailable": 1},
        }
    )
    binding = bindings.create(template, policy(), gates={}, now=START)

    copy = works.render(works.rendering(binding, template), TargetCluster("member1", 0), now=START)

    assert copy.manifest["spec"] == {"minAvailable": 1}


def test_a_copy_of_a_workload_with_components_keeps_the_replicas_of_its_template(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The number of replicas of the binding says nothing then: it is 0."""
    web = deployment(replicas=3)
    native = interpret.interpreter_for(web.api_version, web.kind)
    in_parts = replace(native, components=lambda doc: (Component("web", 2), Component("cache", 1)))
    monkeypatch.setitem(interpret.INTERPRETERS._of, (web.api_version, web.kind), in_parts)
    binding = bindings.create(web, policy(placement=Placement()), gates=GATES, now=START)

    copy = works.render(works.rendering(binding, web), TargetCluster("member1", 0), now=START)

    assert (binding.spec.replicas, len(binding.spec.components)) == (0, 2)
    assert copy.manifest["spec"]["replicas"] == 3


@pytest.mark.parametrize(
    ("present", "pods", "revised"),
    [([1, 1, 1, 1], 3, [1, 1, 0, 0]), ([1, 1, 0], 2, [1, 0, 0]), ([1, 2, 3], 5, [1, 1, 2]), ([3, 1], 1, [0, 0])],
)
def test_no_group_of_a_ray_service_gets_fewer_than_no_workers(
    present: list[int], pods: int, revised: list[int]
) -> None:
    """A member would refuse such a service. One of the pods is the head."""
    rule = knows("RayService").revise
    assert rule is not None
    groups = [{"groupName": str(index), "replicas": count} for index, count in enumerate(present)]

    made = rule({"spec": {"rayClusterConfig": {"workerGroupSpecs": groups}}}, pods)

    assert [group["replicas"] for group in made["spec"]["rayClusterConfig"]["workerGroupSpecs"]] == revised
