"""The table of clusters and filters agrees with the decision, and shows every obstacle of a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.kinds.binding import ResourceBindingSpec, ResourceBindingStatus
from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import ClusterAffinityTerm, Toleration
from controlplane.scheduling import filters
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.filter_table import COLUMNS, KEEPS, PASSES, REFUSES, UNASKED, FilterTable, filter_table
from controlplane.scheduling.placement_plan import plan_of
from controlplane.scheduling.question import Neighbours, question_of
from controlplane.settings import Compat, Settings
from tests.builders.objects import APPS, cluster, leaving, no_execute
from tests.builders.placements import placement
from tests.builders.scheduling import spec

NO_SCHEDULE = Taint("gpu", "NoSchedule")


def table(*clusters: Any, wanted: ResourceBindingSpec, term: int | None = None) -> FilterTable:
    fleet = Fleet.of(clusters, settings=Settings())
    return filter_table(fleet, question_of(wanted, ResourceBindingStatus(), settings=Settings()), term=term)


def said(found: FilterTable, name: str) -> dict[str, str]:
    (row,) = (row for row in found.rows if row.name == name)
    return {column: cell.says for column, cell in zip(COLUMNS, row.cells, strict=True) if cell.says != UNASKED}


def test_every_obstacle_of_a_cluster_is_shown_and_not_only_the_first() -> None:
    found = table(cluster("a"), cluster("b", taints=[NO_SCHEDULE], apis=()), wanted=spec(placement("a")))

    assert found.rows[0].feasible
    assert (found.affinity_name, found.term_count) == ("", 1)
    refused = {column for column, says in said(found, "b").items() if says == REFUSES}
    assert refused == {"ClusterAffinity", "TaintToleration", "APIEnablement"}
    reasons = {cell.why for cell in found.rows[1].cells if cell.why}
    assert "taint gpu:NoSchedule is not tolerated" in reasons


def test_a_target_is_kept_where_a_new_copy_would_be_refused() -> None:
    found = table(cluster("a", taints=[NO_SCHEDULE]), wanted=spec(placement(), on={"a": 2}))

    (row,) = found.rows
    assert (row.feasible, row.replicas, said(found, "a")["TaintToleration"]) == (True, 2, KEEPS)


def test_a_tolerated_taint_passes() -> None:
    found = table(cluster("a", taints=[NO_SCHEDULE]), wanted=spec(placement(tolerations=[Toleration("gpu", "Exists")])))

    assert said(found, "a")["TaintToleration"] == PASSES


def test_each_affinity_term_has_a_table_of_its_own() -> None:
    groups = [ClusterAffinityTerm(affinity_name=name, cluster_names=(name,)) for name in ("a", "b")]
    wanted = spec(placement(groups=groups))

    first, second = (table(cluster("a"), cluster("b"), wanted=wanted, term=term) for term in (None, 1))

    assert (first.affinity_name, second.affinity_name, first.term_count) == ("a", "b", 2)
    assert [row.feasible for row in (*first.rows, *second.rows)] == [True, False, False, True]


@pytest.mark.parametrize(("term", "shown"), [(None, "b"), (0, "a"), (1, "b"), (2, "b"), (3, "b"), (-1, "b")])
def test_a_term_that_does_not_exist_is_replaced_by_the_one_that_is_tried_first(term: int | None, shown: str) -> None:
    groups = [ClusterAffinityTerm(affinity_name=name, cluster_names=(name,)) for name in ("a", "b")]
    fleet = Fleet.of((cluster("a"), cluster("b")), settings=Settings())
    status = ResourceBindingStatus(scheduler_observed_affinity_name="b")
    question = question_of(spec(placement(groups=groups)), status, settings=Settings())
    assert question.first_term == 1

    assert filter_table(fleet, question, term=term).affinity_name == shown


def test_bindings_of_one_plan_with_targets_of_their_own_get_answers_of_their_own() -> None:
    fleet = Fleet.of([cluster(name, taints=[NO_SCHEDULE]) for name in ("a", "b")], settings=Settings())
    everywhere = placement()
    plan = plan_of(fleet, everywhere, 0, workload=True)

    def refused(*targets: str) -> list[bool]:
        wanted = spec(everywhere, on=dict.fromkeys(targets, 1))
        (found,) = filters.refused(plan, question_of(wanted, ResourceBindingStatus(), settings=Settings()))
        return [bool(mark) for mark in found.clusters]

    assert (refused("a"), refused("b"), refused(), refused("a")) == (
        [False, True],
        [True, False],
        [True, True],
        [False, True],
    )


BY_TASK = "a graceful eviction task removes the binding from it"
BY_TAINT = "the binding was evicted from it because of a taint, and it still has a taint that evicts"


@pytest.mark.parametrize(
    ("tasks", "on", "karmada", "shown"),
    [
        ({"a": "ApplicationFailure"}, (), False, (REFUSES, BY_TASK)),  # the other filter is not asked
        ({"a": "TaintUntolerated"}, (), False, (REFUSES, BY_TAINT)),
        ({"a": "ApplicationFailure", "b": "TaintUntolerated"}, (), False, (REFUSES, BY_TASK)),  # the other lets it pass
        ({"a": "TaintUntolerated", "b": "ApplicationFailure"}, (), False, (REFUSES, BY_TAINT)),
        ({"a": "TaintUntolerated", "b": "ApplicationFailure"}, ("a",), False, (KEEPS, BY_TAINT)),
        ({"a": "TaintUntolerated"}, (), True, (REFUSES, BY_TASK)),  # both refuse it: the first
        ({"b": "TaintUntolerated"}, (), False, (PASSES, "")),
        ({}, (), False, (UNASKED, "")),
    ],
)
def test_of_two_filters_with_one_name_the_gravest_answer_is_shown_and_of_equal_ones_the_first(
    tasks: dict[str, str], on: tuple[str, ...], karmada: bool, shown: tuple[str, str]
) -> None:
    leaves = [leaving(name, reason=reason) for name, reason in tasks.items()]
    wanted = spec(placement(tolerations=[Toleration(operator="Exists")]), on=dict.fromkeys(on, 1), tasks=leaves)
    settings = Settings(compat=Compat(cluster_eviction_filter=karmada))
    fleet = Fleet.of([cluster(name, taints=[no_execute()]) for name in ("a", "b")], settings=settings)

    found = filter_table(fleet, question_of(wanted, ResourceBindingStatus(), settings=settings))

    assert found.rows[0].cells[COLUMNS.index("ClusterEviction")] == shown


def test_clusters_with_different_taints_are_refused_for_different_reasons() -> None:
    members = [cluster(name, taints=[Taint(key, "NoSchedule")]) for name, key in {"a": "x", "b": "y", "c": "x"}.items()]
    fleet = Fleet.of(members, settings=Settings())
    question = question_of(spec(placement()), ResourceBindingStatus(), settings=Settings())

    found = filters.refused(plan_of(fleet, question.placement, 0, workload=True), question)

    assert {group.value: group.clusters.tolist() for group in found} == {
        "taint x:NoSchedule is not tolerated": [True, False, True],
        "taint y:NoSchedule is not tolerated": [False, True, False],
    }


@pytest.mark.parametrize(
    ("fields", "near", "shared"),
    [
        ({}, Neighbours(), True),
        ({"fails_over": True}, Neighbours(), True),
        ({"on": {"a": 1}}, Neighbours(), False),
        ({"tasks": [leaving("a", reason="ApplicationFailure")]}, Neighbours(), True),
        ({"tasks": [leaving("a", reason="TaintUntolerated")]}, Neighbours(), True),
        ({}, Neighbours(together=frozenset({frozenset({"a"})})), False),
        ({}, Neighbours(apart=frozenset()), False),
    ],
)
def test_bindings_share_an_answer_only_if_nothing_of_their_own_is_asked(
    fields: dict[str, Any], near: Neighbours, shared: bool
) -> None:
    settings = Settings(feature_gates={"WorkloadAffinity": True})
    fleet = Fleet.of([cluster("a")], settings=settings)
    question = question_of(spec(placement(), **fields), ResourceBindingStatus(), settings=settings, neighbours=near)
    plan = plan_of(fleet, question.placement, 0, workload=True)

    assert (filters.shared_key(plan, question) is not None) is shared


def test_bindings_share_an_answer_only_if_they_leave_the_same_clusters() -> None:
    fleet = Fleet.of([cluster("a"), cluster("b")], settings=Settings())

    def key(*tasks: Any) -> Any:
        question = question_of(spec(placement(), tasks=tasks), ResourceBindingStatus(), settings=Settings())
        return filters.shared_key(plan_of(fleet, question.placement, 0, workload=True), question)

    keys = [key(*(leaving(name, reason=why) for name, why in tasks)) for tasks in LEAVINGS]
    assert len(set(keys)) == len(keys)
    assert [key(*(leaving(name, reason=why) for name, why in tasks)) for tasks in LEAVINGS] == keys


LEAVINGS: list[list[tuple[str, str]]] = [
    [],
    [("a", "TaintUntolerated")],
    [("b", "TaintUntolerated")],
    [("a", "ApplicationFailure")],
    [("a", "TaintUntolerated"), ("b", "TaintUntolerated")],
]

NAMES = ("a", "b", "c")
TAINTS = st.sampled_from([(), (NO_SCHEDULE,), (no_execute(),), (Taint("soft", "PreferNoExecute"),)])


@given(
    taints=st.tuples(TAINTS, TAINTS, TAINTS),
    served=st.tuples(*[st.sampled_from([APPS, ()])] * 3),
    on=st.dictionaries(st.sampled_from(NAMES), st.integers(1, 3), max_size=2),
    named=st.sets(st.sampled_from(NAMES)),
    evicting=st.sets(st.sampled_from(NAMES), max_size=1),
    fails_over=st.booleans(),
)
def test_the_feasible_clusters_of_the_table_are_those_of_the_decision(
    taints: Any, served: Any, on: dict[str, int], named: set[str], evicting: set[str], fails_over: bool
) -> None:
    clusters = [cluster(name, taints=taints[i], apis=served[i]) for i, name in enumerate(NAMES)]
    tasks = [leaving(name, reason="TaintUntolerated") for name in sorted(evicting - set(on))]
    wanted = spec(placement(*sorted(named)), on=on, tasks=tasks, fails_over=fails_over)
    fleet = Fleet.of(clusters, settings=Settings())
    question = question_of(wanted, ResourceBindingStatus(), settings=Settings())
    plan = plan_of(fleet, question.placement, question.first_term, workload=question.workload)

    rows = filter_table(fleet, question).rows

    feasible = {fleet.names[place] for place in filters.feasible(plan, question).tolist()}
    assert {row.name for row in rows if row.feasible} == feasible
    for position, row in enumerate(rows):
        first = filters.refusal(plan, question, position)
        refused = [(name, cell.why) for name, cell in zip(COLUMNS, row.cells, strict=True) if cell.says == REFUSES]
        assert (first is None) == (not refused)
        assert first is None or (first.filter, first.value) in refused
