"""What decides between feasible clusters at the edges: no replicas, many tiers, reservations that no longer hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.kinds.binding import ResourceBindingStatus, TargetCluster
from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import ClusterAffinityTerm, OverflowAffinity, Placement, SpreadConstraint
from tests.builders.objects import cluster
from tests.builders.placements import AGGREGATED, DYNAMIC, placement
from tests.builders.scheduling import ask, shares, spec
from tests.core.test_schedule import sentences, three

TWO_CLUSTERS = [SpreadConstraint("cluster", min_groups=2, max_groups=2)]
WITHOUT_REPLICAS = {  # what each cluster's line says
    "copies": (placement(), {}, ["chosen, gets 0 of 0"] * 3),
    "by free capacity": (placement(how=DYNAMIC), {}, ["chosen, gets 0 of 0"] * 3),
    "few clusters": (placement(how=AGGREGATED), {}, ["chosen, gets 0 of 0"] * 3),
    "two clusters, the first by name and not the roomiest": (
        placement(spread=TWO_CLUSTERS),
        {},
        ["chosen, gets 0 of 0", "chosen, gets 0 of 0", "feasible, not chosen: other clusters are preferred"],
    ),
    "two clusters, and one has been a target": (
        placement(spread=TWO_CLUSTERS),
        {"c": 0},
        [
            "chosen, gets 0 of 0",
            "feasible, not chosen: other clusters are preferred",
            "chosen (was a target), gets 0 of 0",
        ],
    ),
}


@pytest.mark.parametrize("row", WITHOUT_REPLICAS)
def test_without_replicas_free_capacity_neither_decides_nor_is_it_explained(row: str) -> None:
    where, on, said = WITHOUT_REPLICAS[row]

    assert list(sentences(three(a=1, b=5, c=9), spec(where, replicas=0, on=on)).values()) == said


def spilling(count: int) -> Placement:
    """Return a placement on cluster `a`, which overflows to `z` as the last of so many overflow terms."""
    tiers = [OverflowAffinity(cluster_names=("none",), affinity_name=f"more{number}") for number in range(1, count)]
    last = OverflowAffinity(cluster_names=("z",), affinity_name="last")
    term = ClusterAffinityTerm(cluster_names=("a",), affinity_name="own", overflow_affinities=(*tiers, last))
    return placement(groups=[term], how=DYNAMIC)


@pytest.mark.parametrize("count", [1, 2, 90])
def test_a_discouraged_cluster_is_used_after_every_overflow_term(count: int) -> None:
    members = [cluster("a", taints=[Taint("busy", "PreferNoSchedule")]), cluster("outside"), cluster("z", room=10)]

    assert shares(ask(members, spec(spilling(count), replicas=4))) == {"z": 4}
    assert shares(ask(members, spec(spilling(count), replicas=12))) == {"a": 2, "z": 10}


def test_a_reservation_that_no_longer_holds_is_not_preferred_to_a_cluster_with_room() -> None:
    one_region = [SpreadConstraint("region", "", 1, 1), SpreadConstraint("cluster", "", 1, 1)]
    wanted = spec(placement(how=DYNAMIC, spread=one_region), replicas=5)
    reserved = (TargetCluster("a", 5),)

    for room, expected in ((5, {"a": 5}), (1, {"b": 5})):
        members = [cluster("a", region="north", room=room), cluster("b", region="north", room=9)]
        assert shares(ask(members, wanted, hint=reserved)) == expected


@pytest.mark.parametrize(
    ("on", "expected"), [({}, "a"), ({"gone": 2}, "a"), ({"b": 2}, "b"), ({"gone": 1, "b": 1}, "b")]
)
def test_only_a_discouraged_cluster_that_is_a_target_itself_is_preferred(on: dict[str, int], expected: str) -> None:
    members = [cluster("a", room=5), cluster("b", room=9, taints=[Taint("busy", "PreferNoSchedule")])]
    one = placement(how=DYNAMIC, spread=[SpreadConstraint("cluster", "", 1, 1)])

    assert shares(ask(members, spec(one, replicas=2, on=on))) == {expected: 2}


LAST = datetime(2026, 1, 1, 9, tzinfo=UTC)
LISTED: dict[str, tuple[dict[str, int], int, bool, dict[str, int]]] = {
    # targets in their order, replicas wanted, whether a reschedule was requested, expected
    "removed: the last listed loses them": ({"b": 3, "a": 3}, 2, False, {"b": 2}),
    "removed by a reschedule: all are divided again": ({"b": 3, "a": 3}, 2, True, {"a": 2}),
    "added: the first by name grows": ({"b": 1, "a": 1}, 4, False, {"a": 3, "b": 1}),
    "moved back from the overflow: the first by name grows": ({"b": 1, "a": 1, "z": 2}, 4, False, {"a": 3, "b": 1}),
}


@pytest.mark.parametrize("row", LISTED)
def test_the_order_of_targets_decides_only_which_replicas_are_removed(row: str) -> None:
    on, replicas, again, expected = LISTED[row]
    more = OverflowAffinity(cluster_names=("z",), affinity_name="more")
    own = ClusterAffinityTerm(cluster_names=("a", "b"), affinity_name="own", overflow_affinities=(more,))
    asked = LAST + timedelta(hours=1) if again else None
    wanted = spec(placement(groups=[own], how=AGGREGATED), replicas=replicas, on=on, reschedule_triggered_at=asked)
    members = [cluster(name, room=9) for name in ("a", "b", "z")]

    assert shares(ask(members, wanted, status=ResourceBindingStatus(last_scheduled_time=LAST))) == expected
