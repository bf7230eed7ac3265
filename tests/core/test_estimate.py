"""The page on resource models end to end: from nodes to grades to replicas, and what models may look like
[resource-models]."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apimachinery.quantities import parse
from controlplane.estimate.capacity import Capacity, free_capacity
from controlplane.estimate.request import bundle_of, request_from, request_of
from controlplane.estimate.resource_model_room import SIMULATE
from controlplane.estimate.resource_models import DEFAULT_MODELS, grade_of, standardise, violations, warnings
from controlplane.estimate.summary import count_nodes, summarise
from controlplane.kinds.binding import Component, ReplicaRequirements
from controlplane.kinds.cluster import (
    AllocatableModeling,
    Cluster,
    ResourceModel,
    ResourceModelRange,
)
from controlplane.kinds.cluster import ResourceSummary as Summary
from tests.builders import objects

OWN_MODELS = (
    ResourceModel(0, (ResourceModelRange("cpu", "0", "1"), ResourceModelRange("memory", "0", "4Gi"))),
    ResourceModel(1, (ResourceModelRange("cpu", "1", "2"), ResourceModelRange("memory", "4Gi", "16Gi"))),
    ResourceModel(2, (ResourceModelRange("cpu", "2", "4"), ResourceModelRange("memory", "16Gi", "32Gi"))),
)


def node(name: str, *, ready: bool = True, cordoned: bool = False, **allocatable: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {
            "allocatable": {"pods": "110", **allocatable},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def pod(on: str = "", *, phase: str = "Running", **requests: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    if on:
        spec["nodeName"] = on
    return {"metadata": {"name": "p"}, "spec": spec, "status": {"phase": phase}}


def cluster(name: str, summary: Summary | None, models: tuple[ResourceModel, ...] = DEFAULT_MODELS) -> Cluster:
    return objects.cluster(name, summary=summary, models=models, reported=summary is not None)


def with_nodes(name: str, **by_size: int) -> Cluster:
    """A cluster with as many nodes of each size, written cpu_memory: c2_16=1 is one node with 2 cpu and 16Gi free."""
    nodes = []
    for size, count in by_size.items():
        cpu, memory = size[1:].split("_")
        nodes += [node(f"{size}-{number}", cpu=cpu, memory=f"{memory}Gi") for number in range(count)]
    return cluster(name, summarise(nodes, (), DEFAULT_MODELS))


SEED = (with_nodes("member1", c2_16=1, c4_32=6), with_nodes("member2", c2_16=4, c4_32=4), with_nodes("m3", c32_256=1))


@pytest.mark.parametrize(("cpu", "memory", "grade"), [("500m", "2Gi", 0), ("1500m", "10Gi", 1)])
def test_a_node_is_graded_by_what_is_free_on_it(cpu: str, memory: str, grade: int) -> None:
    models = standardise(OWN_MODELS)

    assert grade_of(models, {"cpu": parse(cpu), "memory": parse(memory)}) == grade


@pytest.mark.parametrize(
    ("formula", "cpu", "memory", "expected"),
    [
        ("Optimistic", "3", "20Gi", (7, 8, 10)),
        ("Optimistic", "3", "60Gi", (6, 4, 4)),
        ("Strict", "3", "20Gi", (6, 4, 10)),
        ("Strict", "3", "60Gi", (0, 0, 4)),
        ("Simulate", "3", "20Gi", (6, 4, 10)),
        ("Simulate", "3", "60Gi", (0, 0, 4)),
    ],
)
def test_the_tables_of_the_guide_from_nodes(formula: str, cpu: str, memory: str, expected: tuple[int, ...]) -> None:
    capacity = Capacity([free_capacity(one) for one in SEED], formula, graded=True)

    assert tuple(capacity.replicas(request_from({"cpu": cpu, "memory": memory}))) == expected


def test_plain_summaries_give_what_the_guide_says() -> None:
    taken = (("950m", "11"), ("2", "11"), ("2", "110"))
    summaries = [
        Summary({"cpu": "4", "pods": "110", "memory": "16265856Ki"}, allocated={"cpu": cpu, "pods": pods})
        for cpu, pods in taken
    ]
    capacity = Capacity([free_capacity(cluster("m", one)) for one in summaries], "Optimistic", graded=True)

    assert tuple(capacity.replicas(request_from({"cpu": "500m"}))) == (6, 4, 0)


def test_without_the_gate_grades_are_not_used() -> None:
    capacity = Capacity([free_capacity(one) for one in SEED], "Optimistic", graded=False)

    assert tuple(capacity.replicas(request_from({"cpu": "3", "memory": "60Gi"}))) == (3, 3, 4)


@pytest.mark.parametrize(
    "summary",
    [
        None,
        Summary(),
        Summary({"pods": "10"}),
        Summary({"pods": "ten", "cpu": "4"}),
        Summary({"pods": "10", "cpu": "4"}, allocated={"cpu": "9"}),
    ],
)
def test_what_is_unknown_or_unreadable_is_room_for_nothing(summary: Summary | None) -> None:
    capacity = Capacity([free_capacity(cluster("m", summary))], "Optimistic", graded=True)

    assert tuple(capacity.replicas(request_from({"cpu": "1"}))) == (0,)


def test_a_resource_that_models_do_not_list_is_looked_up_in_the_summary() -> None:
    nodes = [node("n", **{"cpu": "4", "memory": "32Gi", "nvidia.com/gpu": "2"})]
    rooms = [free_capacity(cluster("m", summarise(nodes, (), DEFAULT_MODELS)))]
    asked = request_from({"cpu": "1", "nvidia.com/gpu": "1"})

    found = {one: int(Capacity(rooms, one, graded=True).replicas(asked)[0]) for one in ("Optimistic", "Strict")}

    assert found == {"Optimistic": 2, "Strict": 2}
    assert int(Capacity(rooms, "Simulate", graded=True).replicas(asked)[0]) == 0


@pytest.mark.parametrize("formula", ["Optimistic", "Strict", "Simulate"])
def test_what_states_no_requirements_needs_a_slot_only_whatever_the_grades(formula: str) -> None:
    summary = Summary(allocatable={"pods": "400"}, allocatable_modelings=(AllocatableModeling(0, 1),))
    rooms = [free_capacity(cluster("m", summary))]

    assert int(Capacity(rooms, formula, graded=True).replicas(request_of(None))[0]) == 400
    assert int(Capacity(rooms, formula, graded=True).replicas(request_from({}))[0]) == 110


def test_nodes_that_take_no_pods_are_no_capacity() -> None:
    nodes = [
        node("up", cpu="4", memory="8Gi"),
        node("down", ready=False, cpu="64", memory="8Gi"),
        node("cordoned", cordoned=True, cpu="64", memory="8Gi"),
    ]
    pods = [pod("up", cpu="1"), pod("down", cpu="8"), pod(cpu="2"), pod("up", phase="Succeeded", cpu="3")]

    found = summarise(nodes, pods, DEFAULT_MODELS)

    assert found.allocatable == {"cpu": "4", "memory": "8Gi", "pods": "110"}
    assert found.allocated == {"cpu": "1", "pods": "1"}
    assert found.allocating == {"cpu": "2", "pods": "1"}
    assert [one.count for one in found.allocatable_modelings] == [0, 1, *[0] * 7]
    assert (count_nodes(nodes).total_num, count_nodes(nodes).ready_num) == (3, 2)


def test_a_full_node_is_of_no_grade_and_does_not_hide_the_others() -> None:
    nodes = [node("full", cpu="4", memory="32Gi") | {}, node("free", cpu="4", memory="32Gi")]
    nodes[0]["status"]["allocatable"]["pods"] = "1"

    found = summarise(nodes, [pod("full", cpu="1")], DEFAULT_MODELS)

    assert sum(one.count for one in found.allocatable_modelings) == 1


def test_sets_of_components_share_nodes() -> None:
    components = (
        Component("driver", 1, ReplicaRequirements(resource_request={"cpu": "1"})),
        Component("worker", 3, ReplicaRequirements(resource_request={"cpu": "2"})),
    )
    capacity = Capacity([free_capacity(with_nodes("m", c4_32=4))], "Simulate", graded=True)

    assert tuple(capacity.bundles(bundle_of(components))) == (2,)


@pytest.mark.parametrize(("first", "sets"), [("1", 0), ("3", 1)])
def test_components_take_the_first_node_with_room_in_their_order(first: str, sets: int) -> None:
    components = [Component("driver", 2, ReplicaRequirements(resource_request={"cpu": "1"}))]
    components.insert(int(first == "1"), Component("worker", 2, ReplicaRequirements(resource_request={"cpu": "3"})))
    capacity = Capacity([free_capacity(with_nodes("m", c4_32=2))], "Simulate", graded=True)

    assert tuple(capacity.bundles(bundle_of(components))) == (sets,)


def test_nodes_reported_twice_under_a_grade_are_added_up() -> None:
    twice = (AllocatableModeling(3, 1), AllocatableModeling(3, 1))
    one = with_nodes("m", c4_32=2)
    split = one.with_status(resource_summary=Summary({"pods": "20"}, allocatable_modelings=twice))

    assert free_capacity(split).graded == free_capacity(one).graded


def test_no_models_become_the_nine_defaults() -> None:
    models = standardise(())

    assert len(models) == 9
    assert not violations(models)
    assert [(one.min, one.max) for one in models[3].ranges] == [("4", "8"), ("32Gi", "64Gi")]


def test_models_are_sorted_and_their_ends_forced_with_a_warning() -> None:
    given = (
        OWN_MODELS[1],
        OWN_MODELS[0],
        ResourceModel(2, (ResourceModelRange("cpu", "2", "4"), *OWN_MODELS[2].ranges[1:])),
    )
    given = (given[0], ResourceModel(0, (ResourceModelRange("cpu", "500m", "1"), given[1].ranges[1])), given[2])

    stored = standardise(given)

    assert [one.grade for one in stored] == [0, 1, 2]
    assert stored[0].ranges[0].min == "0"
    assert stored[-1].ranges[0].max == "9223372036854775807"
    assert not violations(stored)
    assert len(warnings(given)) == 3


def _model(grade: int, low: str, high: str, name: str = "cpu") -> ResourceModel:
    return ResourceModel(grade, (ResourceModelRange(name, low, high),))


@pytest.mark.parametrize(
    ("models", "rule"),
    [
        ((_model(0, "0", "1"), _model(0, "1", "2")), "twice"),
        ((_model(0, "0", "1"), _model(1, "1", "2", "memory")), "resource types must be those"),
        ((_model(0, "0", "1"), ResourceModel(1)), "number must be the same"),
        ((_model(0, "0", "1"), _model(1, "2", "3")), "contiguous"),
        ((_model(0, "0", "0"),), "must be greater"),
        ((_model(0, "0", "one"),), "is not a quantity"),
    ],
)
def test_models_that_break_a_rule_are_refused(models: tuple[ResourceModel, ...], rule: str) -> None:
    assert any(rule in cause.message for cause in violations(models))


def test_bounds_are_compared_by_value() -> None:
    assert not violations(standardise((_model(0, "0", "1000m"), _model(1, "1", "2"))))


def test_other_resources_than_four_are_accepted_with_a_warning() -> None:
    models = standardise((_model(0, "0", "1", "nvidia.com/gpu"),))

    assert not violations(models)
    assert any("nvidia.com/gpu" in one for one in warnings(models))


def test_a_set_of_components_that_asks_for_more_than_64_bits_fits_nowhere() -> None:
    member = objects.cluster("member1").with_status(
        resource_summary=Summary(allocatable={"pods": "110", "cpu": "64", "memory": "512Gi"})
    )
    part = Component("worker", 3, ReplicaRequirements(resource_request={"memory": "7E"}))

    assert Capacity([free_capacity(member)], SIMULATE, graded=True).bundles(bundle_of((part,))).tolist() == [0]
