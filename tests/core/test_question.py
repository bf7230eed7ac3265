"""What of a binding goes into the question to the scheduler."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.kinds.binding import (
    TAINT_UNTOLERATED,
    Component,
    GracefulEvictionTask,
    ResourceBindingStatus,
    WorkloadAffinityGroups,
)
from controlplane.kinds.policy import SpreadConstraint
from controlplane.scheduling.question import (
    Neighbours,
    blocked_by_tasks,
    evicted_from,
    neighbours_of,
    on_one_cluster,
    question_of,
    reschedule_asked,
)
from controlplane.settings import GATES, Settings
from tests.builders.objects import START
from tests.builders.placements import placement
from tests.builders.scheduling import spec

TASKS = [
    GracefulEvictionTask("before", reason="ApplicationFailure"),
    GracefulEvictionTask("taint", reason=TAINT_UNTOLERATED.encode().decode()),  # as decoded from a document
    GracefulEvictionTask("after", reason="Unjoined"),
]


@pytest.mark.parametrize(
    ("spread", "answer"),
    [
        ([], False),
        ([SpreadConstraint("region", "", 1, 1)], False),
        ([SpreadConstraint("cluster", "", 1, 1)], True),
        ([SpreadConstraint("cluster", "", 0, 1)], False),
        ([SpreadConstraint("cluster", "", 0, 0)], False),
        ([SpreadConstraint("cluster", "", 1, 2)], False),
        ([SpreadConstraint("cluster", "", 2, 1)], False),
        ([SpreadConstraint("cluster", "", 2, 2)], False),
    ],
)
def test_a_placement_selects_exactly_one_cluster(spread: list[SpreadConstraint], answer: bool) -> None:
    assert on_one_cluster(placement(spread=spread)) is answer


def test_tasks_of_taints_exclude_while_the_taint_evicts_and_all_others_until_they_are_cleared() -> None:
    assert evicted_from(TASKS) == ("taint",)
    assert blocked_by_tasks(TASKS, Settings()) == ("after", "before")


@pytest.mark.parametrize("later", [-1, 0, 1])
def test_a_reschedule_is_requested_only_by_a_time_after_the_last_result(later: int) -> None:
    wanted = spec(placement(), reschedule_triggered_at=START + timedelta(seconds=later))

    assert reschedule_asked(wanted, ResourceBindingStatus(last_scheduled_time=START)) is (later > 0)


def test_a_binding_without_placement_is_an_error_that_names_it() -> None:
    wanted = spec(placement())
    with pytest.raises(ValueError, match="binding of Deployment web has no placement"):
        question_of(type(wanted)(wanted.resource), ResourceBindingStatus(), settings=Settings())


def test_the_own_clusters_of_a_binding_say_nothing_of_its_neighbours() -> None:
    wanted = spec(placement(), workload_affinity_groups=WorkloadAffinityGroups("shop", "shop"))
    placed = {"a": ("one", "two"), "own": ("three",), "z": ("two", "four"), "waits": ()}
    groups = {("default", way, "shop"): placed for way in ("affinity", "antiAffinity")}

    found = neighbours_of(wanted, groups, own=b"own".decode())

    together = frozenset({frozenset({"one", "two"}), frozenset({"two", "four"})})
    assert found == Neighbours(together, frozenset({"one", "two", "four"}))


TWO = (Component("job", 1), Component("task", 3))


@pytest.mark.parametrize(
    ("gate", "components", "clusters", "listed", "needed"),
    [
        (True, TWO, 1, (("job", 1), ("task", 3)), 1),
        (True, TWO[:1], 1, (), 1),  # the replicas of the target are those of the only component
        (True, TWO, 2, (), 5),
        (True, (), 1, (), 5),
        (False, TWO, 1, (), 5),
    ],
)
def test_components_are_placed_as_whole_sets_and_listed_on_exactly_one_cluster(
    gate: bool, components: tuple[Component, ...], clusters: int, listed: tuple[object, ...], needed: int
) -> None:
    settings = Settings(feature_gates={**GATES, "MultiplePodTemplatesScheduling": gate})
    where = placement(spread=[SpreadConstraint("cluster", "", clusters, clusters)])
    wanted = spec(where, replicas=5, components=components)

    found = question_of(wanted, ResourceBindingStatus(), settings=settings)

    assert (found.components, found.needed) == (listed, needed)
