"""What a batch reserves for a result, and what a plan is kept for."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from controlplane.estimate.request import request_of
from controlplane.kinds.binding import Component, ResourceBindingSpec, ResourceBindingStatus, TargetCluster
from controlplane.kinds.policy import (
    ClusterAffinityTerm,
    ClusterPreferences,
    Placement,
    ReplicaSchedulingStrategy,
    SpreadConstraint,
)
from controlplane.scheduling.batch import Batch, Item, growth, ignores_capacity, may_depend_on_capacity
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.placement_plan import AGGREGATED, DUPLICATED, DYNAMIC, STATIC, division_of
from controlplane.scheduling.question import question_of
from controlplane.scheduling.schedule import Placed, Refused, Verdict
from controlplane.settings import Settings
from tests.builders.objects import cluster
from tests.builders.placements import by_room, placement
from tests.builders.scheduling import spec

SETS = Settings(feature_gates={"MultiplePodTemplatesScheduling": True})


@pytest.mark.parametrize(
    ("on", "result", "uncounted", "grows"),
    [
        ({}, {"a": 2, "b": 1}, {}, {"a": 2, "b": 1}),
        ({"a": 2}, {"a": 3, "b": 1}, {}, {"a": 1, "b": 1}),
        ({"a": 3}, {"a": 3}, {"a": 2}, {"a": 2}),  # reserved before, and not reported yet
        ({"a": 3}, {"a": 4}, {"a": 2}, {"a": 3}),
        ({"a": 3}, {"a": 2}, {"a": 2}, {"a": 1}),
        ({"a": 3}, {"a": 1}, {"a": 1}, {"a": 0}),
    ],
)
def test_a_result_grows_by_new_replicas_and_by_those_that_no_report_counts_yet(
    on: Mapping[str, int], result: Mapping[str, int], uncounted: dict[str, int], grows: Mapping[str, int]
) -> None:
    question = question_of(spec(placement(), replicas=3, on=on), ResourceBindingStatus(), settings=Settings())

    assert growth(question, [TargetCluster(*pair) for pair in result.items()], uncounted) == grows


def test_sets_of_components_grow_by_one_where_there_is_none_and_by_what_no_report_counts_yet() -> None:
    wanted = spec(placement(), on={"a": 0, "b": 0}, components=(Component("job", 1), Component("task", 2)))
    question = question_of(wanted, ResourceBindingStatus(), settings=SETS)

    assert growth(question, [TargetCluster(name) for name in "abc"], {"b": 1}) == {"a": 0, "b": 1, "c": 1}


DIVISIONS = {
    DUPLICATED: None,
    STATIC: ReplicaSchedulingStrategy("Divided", ""),
    AGGREGATED: ReplicaSchedulingStrategy("Divided", "Aggregated"),
    DYNAMIC: ReplicaSchedulingStrategy("Divided", "Weighted", ClusterPreferences(dynamic_weight="AvailableReplicas")),
}


@pytest.mark.parametrize("division", DIVISIONS)
def test_how_replicas_are_divided(division: str) -> None:
    assert division_of(placement(how=DIVISIONS[division])) == division


@pytest.mark.parametrize(
    ("on", "uncounted", "takes"),
    [
        ({}, {}, 3),
        ({"a": 1}, {}, 2),
        ({"a": 1}, {"a": 1}, 2),
        ({"a": 3}, {"a": 2}, 0),
        ({"a": 2}, {"b": 4}, 1),
        ({"a": 4}, {"a": 2}, 0),
    ],
)
def test_a_placement_reserves_its_new_replicas_and_gives_them_back_if_it_is_not_written(
    on: Mapping[str, int], uncounted: dict[str, int], takes: int
) -> None:
    fleet = Fleet.of([cluster("a", room=10)], settings=Settings())
    wanted = spec(by_room("a"), replicas=3, on=on, cpu="1")
    ledger = Ledger.of(fleet, [("a", 5, request_of(wanted.replica_requirements))])
    batch = Batch(fleet, ledger, Settings())

    question, verdict = batch.place(Item(wanted, ResourceBindingStatus(), uncounted=uncounted))
    assert isinstance(verdict.outcome, Placed)
    assert ledger.free(question.asked).tolist() == [5 - takes]
    batch.give_back(question, verdict.outcome.clusters, uncounted)

    assert ledger.free(question.asked).tolist() == [5]


def test_bindings_that_wait_for_room_are_answered_once_until_room_changes() -> None:
    fleet = Fleet.of([cluster("a", room=10)], settings=Settings())
    batch = Batch(fleet, Ledger(fleet), Settings())

    def asked(replicas: int, hint: tuple[TargetCluster, ...] | None = None) -> Verdict:
        wanted = spec(by_room("a"), replicas=replicas, cpu="1")
        return batch.place(Item(wanted, ResourceBindingStatus(), hint=hint))[1]

    assert isinstance(asked(8).outcome, Placed)
    refused = asked(12)
    assert isinstance(refused.outcome, Refused)
    assert refused.outcome.part == (TargetCluster("a", 2),)
    assert asked(12) is refused
    assert asked(12, (TargetCluster("a", 12),)) is not refused  # its explanation names what was reserved

    assert isinstance(asked(1).outcome, Placed)
    again = asked(12)

    assert isinstance(again.outcome, Refused)
    assert again.outcome.part == (TargetCluster("a", 1),)


@pytest.mark.parametrize("hints", [("a", None), (None, "a"), (None, "a", "b", None)])
def test_what_an_eviction_reserved_is_explained_for_its_binding_only(hints: tuple[str | None, ...]) -> None:
    fleet = Fleet.of([cluster("a"), cluster("b")], settings=Settings())
    batch, wanted = Batch(fleet, Ledger(fleet), Settings()), spec(placement())

    def explained(reserved: str | None) -> tuple[str, ...]:
        hint = None if reserved is None else (TargetCluster(reserved, 1),)
        _, verdict = batch.place(Item(wanted, ResourceBindingStatus(), hint=hint))
        return verdict.explanation.attempts[0].reserved

    assert [explained(reserved) for reserved in hints] == [() if name is None else (name,) for name in hints]


def test_what_has_no_pods_gives_nothing_back() -> None:
    fleet = Fleet.of([cluster("a", room=10)], settings=Settings())
    wanted = replace(spec(placement("a"), replicas=0), replica_requirements=None)
    ledger = Ledger.of(fleet, [("a", 5, request_of(None))])
    batch = Batch(fleet, ledger, Settings())

    question, _ = batch.place(Item(wanted, ResourceBindingStatus()))
    batch.give_back(question, [TargetCluster("a", 1)], {})

    assert ledger.free(question.asked).tolist() == [5]


def test_a_placement_by_a_later_affinity_term_reserves_where_that_term_has_placed_it() -> None:
    fleet = Fleet.of([cluster("a", room=10)], settings=Settings())
    ledger = Ledger(fleet)
    terms = [ClusterAffinityTerm(cluster_names=(name,), affinity_name=name) for name in ("gone", "a")]
    wanted = spec(placement(how=DIVISIONS[DYNAMIC], groups=terms), replicas=3, cpu="1")

    question, _ = Batch(fleet, ledger, Settings()).place(Item(wanted, ResourceBindingStatus()))

    assert ledger.free(question.asked).tolist() == [7]


ONE_CLUSTER = (SpreadConstraint("cluster", "", 1, 1),)
PARTS = {"components": (Component("job", 1), Component("task", 2))}
EVEN = placement(how=DIVISIONS[STATIC])
CAPACITY: dict[str, tuple[ResourceBindingSpec, bool]] = {
    "copies": (spec(placement()), False),
    "by static weights": (spec(EVEN), False),
    "by static weights, whatever its spread constraints": (spec(replace(EVEN, spread_constraints=ONE_CLUSTER)), False),
    "by free capacity": (spec(placement(how=DIVISIONS[DYNAMIC])), True),
    "aggregated": (spec(placement(how=DIVISIONS[AGGREGATED])), True),
    "copies on some clusters": (spec(placement(spread=ONE_CLUSTER)), True),
    "whole sets of components": (spec(placement(), **PARTS), True),
}


@pytest.mark.parametrize("row", CAPACITY)
def test_a_placement_depends_on_free_capacity(row: str) -> None:
    wanted, depends = CAPACITY[row]
    question = question_of(wanted, ResourceBindingStatus(), settings=SETS)

    assert ignores_capacity(question) is not depends
    assert may_depend_on_capacity(wanted) is depends


def test_what_has_no_pods_depends_on_free_capacity_only_by_its_spread_constraints() -> None:
    def ignores(where: Placement) -> bool:
        wanted = replace(spec(where, replicas=0), replica_requirements=None)
        return ignores_capacity(question_of(wanted, ResourceBindingStatus(), settings=SETS))

    assert ignores(placement(how=DIVISIONS[DYNAMIC]))
    assert not ignores(placement(spread=ONE_CLUSTER))


def test_a_binding_without_placement_needs_no_capacity() -> None:
    assert not may_depend_on_capacity(replace(spec(placement()), placement=None))
