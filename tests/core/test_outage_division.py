"""Replicas that are added in an outage go where they start, and those that are removed are those that do not run: on
clusters that are lost, and not left yet [replica-division]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import Placement, ReplicaSchedulingStrategy, SpreadConstraint, Toleration
from controlplane.scheduling.dry_run import review
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster, no_execute
from tests.builders.placements import AGGREGATED, DYNAMIC, EVENLY, placement
from tests.builders.steering import hold
from tests.core.fleet_story import Story
from tests.core.test_affinity_groups import term

BY_ROOM = (DYNAMIC, AGGREGATED)
IDS = ("dynamic", "aggregated")
ON = {"member1": 3, "member2": 3}
FOR_EVER = Toleration(operator="Exists")


def scaled(
    how: ReplicaSchedulingStrategy,
    *,
    to: int = 12,
    ready: str = "False",
    taints: Sequence[Taint] = (),
    room: int = 1000,
    **where: Any,
) -> dict[str, int]:
    """Return where a workload is after it was scaled while its first cluster is lost, before it leaves that.

    `where`: as in `placement`. `room`: of the other clusters.
    """
    web = binding("web", placement(how=how, **where), on=ON, replicas=6)
    members = [cluster("member1"), *(cluster(name, room=room) for name in ("member2", "member3", "member4"))]
    story = Story(*members, hold("it", clusters=("member1",)), web)
    story.pass_seconds(5)
    story.ready("member1", ready)
    story.taint("member1", *taints)
    old = story.binding("web")

    story.store.put(old.with_spec(replicas=to), old)
    story.work()

    return story.placed("web")


@pytest.mark.parametrize("how", BY_ROOM, ids=IDS)
@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_a_scaled_workload_grows_on_clusters_that_answer(ready: str, how: ReplicaSchedulingStrategy) -> None:
    placed = scaled(how, ready=ready)

    assert placed["member1"] == 3
    assert sum(placed.values()) == 12


@pytest.mark.parametrize("how", BY_ROOM, ids=IDS)
@pytest.mark.parametrize(
    ("where", "grows"), [({}, False), ({"tolerations": (FOR_EVER,)}, True)], ids=["is-evicted", "tolerates-it"]
)
def test_it_does_not_grow_on_a_cluster_that_it_is_to_be_evicted_from(
    where: dict[str, Any], grows: bool, how: ReplicaSchedulingStrategy
) -> None:
    placed = scaled(how, ready="True", taints=(no_execute(at=START),), **where)

    assert (placed["member1"] > 3) is grows
    assert sum(placed.values()) == 12


TERMS = [term("one", "member1", "member2"), term("two", "member3", "member4")]
TWO = [SpreadConstraint("cluster", min_groups=1, max_groups=2)]


@pytest.mark.parametrize("how", BY_ROOM, ids=IDS)
@pytest.mark.parametrize("where", [{"groups": TERMS}, {"spread": TWO}], ids=["next-term", "spread"])
def test_it_grows_there_rather_than_where_its_policy_does_not_allow_it(
    where: dict[str, Any], how: ReplicaSchedulingStrategy
) -> None:
    placed = scaled(how, room=10, to=20, **where)

    assert sum(placed.values()) == 20
    assert set(placed) == {"member1", "member2"}


@pytest.mark.parametrize("how", BY_ROOM, ids=IDS)
def test_it_grows_on_those_clusters_of_a_spread_constraint_that_answer(how: ReplicaSchedulingStrategy) -> None:
    both = [SpreadConstraint("cluster", min_groups=2, max_groups=2)]

    assert scaled(how, spread=both) == {"member1": 3, "member2": 9}


def test_replicas_that_fit_nowhere_else_are_placed_there() -> None:
    placed = scaled(DYNAMIC, to=100, room=20)

    assert sum(placed.values()) == 100
    assert placed["member1"] > 3


def test_static_weights_say_how_many_replicas_a_lost_cluster_gets() -> None:
    assert scaled(EVENLY, to=16) == {"member1": 4, "member2": 4, "member3": 4, "member4": 4}


@pytest.mark.parametrize(
    ("to", "left"),
    [
        (5, {"member1": 2, "member2": 3}),
        (3, {"member2": 3}),
        (2, {"member2": 2}),
        (0, {}),
    ],
)
@pytest.mark.parametrize("how", BY_ROOM, ids=IDS)
def test_replicas_are_removed_from_a_lost_cluster_first(
    how: ReplicaSchedulingStrategy, to: int, left: dict[str, int]
) -> None:
    assert scaled(how, to=to) == left


UNDER_CONSTRAINTS = [
    (5, {"member1": 2, "member2": 3}),
    (4, {"member1": 1, "member2": 3}),
    (3, {"member1": 1, "member2": 2}),
    (2, {"member1": 1, "member2": 1}),
    (1, {"member2": 1}),
    (0, {}),
]


@pytest.mark.parametrize(("to", "left"), UNDER_CONSTRAINTS)
@pytest.mark.parametrize("how", BY_ROOM, ids=IDS)
@pytest.mark.parametrize("least", [1, 2])
def test_they_are_under_a_spread_constraint_as_well_but_for_one_replica_on_each_cluster(
    least: int, how: ReplicaSchedulingStrategy, to: int, left: dict[str, int]
) -> None:
    assert scaled(how, to=to, spread=[SpreadConstraint("cluster", min_groups=least, max_groups=2)]) == left


def test_static_weights_remove_them_as_ever() -> None:
    assert scaled(EVENLY, to=4) == {"member1": 1, "member2": 1, "member3": 1, "member4": 1}


def divided_again(
    how: ReplicaSchedulingStrategy, *, to: int = 6, on: dict[str, int] | None = None, **where: Any
) -> dict[str, int]:
    """Return where a workload is after a reschedule was requested while its first cluster is lost, and after it was
    scaled then. Most room is reported by the lost cluster, and least by its second one."""
    on = on or {"member1": 1, "member2": 5}
    web = binding("web", placement(how=how, **where), on=on, replicas=6).with_status(last_scheduled_time=START)
    rooms = {"member1": 1000, "member2": 20, "member3": 40, "member4": 40}
    story = Story(*(cluster(name, room=room) for name, room in rooms.items()), hold("it", clusters=("member1",)), web)
    story.pass_seconds(5)
    story.ready("member1", "False")
    old = story.binding("web")
    story.store.put(old.with_spec(reschedule_triggered_at=story.now), old)
    story.work()
    old = story.binding("web")

    story.store.put(old.with_spec(replicas=to), old)
    story.work()

    return story.placed("web")


@pytest.mark.parametrize("to", [6, 8])
@pytest.mark.parametrize("how", BY_ROOM, ids=IDS)
@pytest.mark.parametrize("least", [1, 2])
def test_a_reschedule_uses_no_more_clusters_than_a_spread_constraint_allows(
    least: int, how: ReplicaSchedulingStrategy, to: int
) -> None:
    placed = divided_again(how, to=to, spread=[SpreadConstraint("cluster", min_groups=least, max_groups=2)])

    assert placed["member1"] == 1
    assert len(placed) == 2
    assert sum(placed.values()) == to


@pytest.mark.parametrize("to", [6, 8])
@pytest.mark.parametrize("how", BY_ROOM, ids=IDS)
def test_a_reschedule_does_not_leave_the_affinity_term_because_one_of_its_clusters_is_lost(
    how: ReplicaSchedulingStrategy, to: int
) -> None:
    both = [SpreadConstraint("cluster", min_groups=2, max_groups=2)]

    assert divided_again(how, to=to, groups=TERMS, spread=both) == {"member1": 1, "member2": to - 1}


def test_a_reschedule_divides_again_what_is_on_other_clusters() -> None:
    assert divided_again(DYNAMIC) == {"member1": 1, "member2": 1, "member3": 2, "member4": 2}


def reviewed(where: Placement, on: dict[str, int], *, replicas: int, lost: Sequence[str]) -> dict[str, int]:
    """Return where a workload would be after it was scaled while some of its clusters are lost."""
    members = [cluster(name, ready="Unknown" if name in lost else "True") for name in on]
    answer = review(binding("web", where, on=on, replicas=replicas), members, settings=Settings(), now=START)
    return {target.name: target.replicas for target in answer.clusters}


@pytest.mark.parametrize(
    ("replicas", "left"), [(8, {"member1": 4, "member2": 1, "member3": 3}), (4, {"member1": 1, "member3": 3})]
)
def test_two_lost_clusters_keep_the_rest_by_what_they_had(replicas: int, left: dict[str, int]) -> None:
    on = {"member1": 5, "member2": 2, "member3": 3}

    assert reviewed(placement(how=DYNAMIC), on, replicas=replicas, lost=("member1", "member2")) == left


def test_a_cluster_that_the_policy_does_not_allow_any_more_is_left_also_when_replicas_are_removed() -> None:
    on, allowed = {"member1": 2, "member2": 2, "member3": 2}, placement("member1", "member2", how=DYNAMIC)

    assert "member3" not in reviewed(allowed, on, replicas=5, lost=("member1",))


def test_a_fleet_that_is_lost_as_a_whole_removes_replicas_everywhere() -> None:
    web = binding("web", placement(how=DYNAMIC), on=ON, replicas=4)
    members = [cluster(name, ready="Unknown") for name in ON]

    answer = review(web, members, settings=Settings(), now=START)

    assert {target.name: target.replicas for target in answer.clusters} == {"member1": 2, "member2": 2}


def test_a_review_says_so_as_well() -> None:
    web = binding("web", placement(how=AGGREGATED), on=ON, replicas=12)
    members = [cluster("member1", ready="False"), cluster("member2")]

    answer = review(web, members, settings=Settings(), now=START)

    assert {target.name: target.replicas for target in answer.clusters} == {"member1": 3, "member2": 9}
