"""Clusters that a binding has left for a taint, while that taint is still there [judged-once]."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from controlplane.kinds.binding import TargetCluster, origin
from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import Toleration
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.departures import left_for_taints
from controlplane.scheduling.dry_run import review
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster, no_execute
from tests.builders.placements import DYNAMIC, duplicated, placement
from tests.core.fleet_story import FAILOVER, Story
from tests.core.test_failback import away

BEFORE, AFTER = START - timedelta(seconds=1), START + timedelta(seconds=1)

TAINTS: dict[str, tuple[list[Taint], bool]] = {
    "no taint": ([], False),
    "there before it left": ([no_execute(at=BEFORE)], True),
    "added in the second in which it left": ([no_execute(at=START)], True),
    "added after it left": ([no_execute(at=AFTER)], False),
    "one after, one before": ([no_execute("new", at=AFTER), no_execute("old", at=BEFORE)], True),
    "PreferNoExecute evicts as well": ([Taint("gone", "PreferNoExecute", time_added=BEFORE)], True),
    "NoSchedule evicts nothing": ([Taint("gone", "NoSchedule", time_added=BEFORE)], False),
    "since an unknown time": ([Taint("gone", "NoExecute")], False),
}


@pytest.mark.parametrize("row", TAINTS)
def test_a_cluster_counts_as_left_while_a_taint_of_that_time_evicts(row: str) -> None:
    taints, counts = TAINTS[row]
    left = away(placement(), was={"member1": 1, "member2": 1}, now={"member2": 1})
    fleet = Fleet.of([cluster("member1", taints=taints), cluster("member2", taints=taints)], settings=Settings())

    assert left_for_taints(left, fleet) == (("member1",) if counts else ())


def test_clusters_left_are_sorted_and_those_that_are_gone_do_not_count() -> None:
    left = away(placement(), was={"b": 1, "gone": 1, "a": 1, "c": 1}, now={"c": 1})
    fleet = Fleet.of([cluster(name, taints=[no_execute(at=BEFORE)]) for name in "abc"], settings=Settings())

    assert left_for_taints(left, fleet) == ("a", "b")


def test_a_binding_that_has_left_no_cluster_has_no_departures() -> None:
    fleet = Fleet.of([cluster("a", taints=[no_execute(at=BEFORE)])], settings=Settings())

    assert left_for_taints(binding("web", placement(), on={"a": 1}), fleet) == ()


def test_a_return_to_one_cluster_keeps_what_is_known_of_the_other() -> None:
    gone = away(placement(), was={"a": 1, "b": 2}, now={})

    back = origin.with_return(gone.with_spec(clusters=(TargetCluster("a", 1),)))

    assert [origin.is_noted(back, name) for name in "ab"] == [False, True]
    assert origin.had(back) == 3


@pytest.mark.parametrize(("requested_at", "left"), [(BEFORE, ("a",)), (START, ("a",)), (AFTER, ())])
def test_a_reschedule_ends_the_departures_before_it(requested_at: datetime, left: tuple[str, ...]) -> None:
    one = away(placement(), was={"a": 1, "b": 1}, now={"b": 1}).with_spec(reschedule_triggered_at=requested_at)
    fleet = Fleet.of([cluster("a", taints=[no_execute(at=BEFORE)])], settings=Settings())

    assert left_for_taints(one, fleet) == left


def test_a_review_gives_back_no_cluster_that_the_scheduler_would_not() -> None:
    left = away(placement(), was={"member1": 6, "member2": 6}, now={"member2": 6})
    taint = Taint("gone", "PreferNoExecute", time_added=BEFORE)

    for taints, expected in (((taint,), {"member2"}), ((), {"member1", "member2"})):
        members = [cluster("member1", taints=taints), cluster("member2")]
        answer = review(left, members, settings=Settings(), now=START)
        assert {target.name for target in answer.clusters} == expected


A_WHILE = Toleration(key="gone", operator="Exists", effect="NoExecute", toleration_seconds=10)
ONE_OF_THREE = {
    "duplicated": duplicated("member1", "member2", "member3", least=1, most=1, tolerations=(A_WHILE,)),
    "divided": replace(
        duplicated("member1", "member2", "member3", least=1, most=1, tolerations=(A_WHILE,)), replica_scheduling=DYNAMIC
    ),
}


@pytest.mark.parametrize("how", ONE_OF_THREE)
def test_a_copy_goes_back_to_none_of_the_clusters_that_failovers_have_left(how: str) -> None:
    names = [f"member{number}" for number in range(1, 10)]
    story = Story(*map(cluster, names), binding("web", ONE_OF_THREE[how], on={"member1": 2}), settings=FAILOVER)
    story.pass_seconds(5)
    lost = []
    for _ in range(3):
        (at,) = story.placed("web")
        lost.append(at)
        story.taint(at, no_execute(at=story.now))
        for _ in range(15):
            story.pass_seconds(1)

    assert sorted(lost) == ["member1", "member2", "member3"]
    assert list(story.placed("web")) == [lost[-1]]  # no cluster is left for it
    assert story.queue() == {f"web|{lost[-1]}": "Held"}
