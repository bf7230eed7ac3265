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
from controlplane.scheduling.question import question_of
from controlplane.settings import Settings
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


@pytest.mark.parametrize(("term", "shown"), [(None, "b"), (0, "a"), (1, "b"), (2, "b"), (-1, "b")])
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
