"""The decision and the reasons come from the same table of filters, whatever clusters and bindings look like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from controlplane.kinds.binding import ResourceBindingSpec
from controlplane.kinds.cluster import Cluster
from controlplane.scheduling import filters
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.placement_plan import Plan, plan_of
from controlplane.scheduling.question import Neighbours, Question, question_of
from tests.properties.test_schedule import SETTINGS, STATUS, bindings, clusters, neighbours


def asking(members: list[Cluster], wanted: ResourceBindingSpec, near: Neighbours) -> tuple[Plan, Question]:
    question = question_of(wanted, STATUS, settings=SETTINGS, neighbours=near)
    fleet = Fleet.of(members, settings=SETTINGS)
    return plan_of(fleet, question.placement, 0, workload=question.workload), question


@given(clusters(), bindings(), neighbours)
def test_every_cluster_is_feasible_or_refused_once(
    members: list[Cluster], wanted: ResourceBindingSpec, near: Neighbours
) -> None:
    plan, question = asking(members, wanted, near)

    groups = filters.refused(plan, question)
    refused = [place for group in groups for place in group.clusters.nonzero()[0].tolist()]

    assert sorted([*filters.feasible(plan, question).tolist(), *refused]) == list(range(len(members)))


@given(clusters(), bindings(), neighbours)
def test_the_reason_of_a_single_cluster_is_the_reason_in_the_answer_for_all(
    members: list[Cluster], wanted: ResourceBindingSpec, near: Neighbours
) -> None:
    plan, question = asking(members, wanted, near)

    reasons = {
        place: filters.Refusal(group.filter, group.value)
        for group in filters.refused(plan, question)
        for place in group.clusters.nonzero()[0].tolist()
    }

    assert {
        place: why for place in range(len(members)) if (why := filters.refusal(plan, question, place)) is not None
    } == reasons


@given(clusters(), bindings(), bindings(), neighbours)
def test_a_filter_that_is_not_marked_per_binding_answers_all_bindings_of_a_policy_alike(
    members: list[Cluster], one: ResourceBindingSpec, other: ResourceBindingSpec, near: Neighbours
) -> None:
    other = replace(other, placement=one.placement, failover=one.failover)
    plan, first = asking(members, one, near)
    _, second = asking(members, other, Neighbours())

    for row in filters.FILTERS:
        if not row.per_binding:
            masks = [row.mask(plan, question) for question in (first, second)]
            assert [None if mask is None else mask.tolist() for mask in masks[:1]] == [
                None if mask is None else mask.tolist() for mask in masks[1:]
            ]


@given(clusters(), st.lists(bindings(), min_size=1, max_size=8), st.lists(neighbours, min_size=8, max_size=8))
def test_an_answer_that_was_kept_is_the_answer(
    members: list[Cluster], several: list[ResourceBindingSpec], near: list[Neighbours]
) -> None:
    first = several[0]
    fleet = Fleet.of(members, settings=SETTINGS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filters, "FEASIBLE_KEPT", 2)
        for one, them in zip([*several, *several], [*near, *near], strict=False):
            wanted = replace(one, placement=first.placement)
            alone, question = asking(members, wanted, them)
            plan = plan_of(fleet, question.placement, 0, workload=question.workload)
            assert filters.feasible(plan, question).tolist() == filters.feasible(alone, question).tolist()
