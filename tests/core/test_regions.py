"""Choosing regions and the clusters in them: scores, bounds and what is missing where nothing can be chosen."""

from __future__ import annotations

import numpy as np
import pytest

from controlplane.kinds.policy import ClusterAffinity, ClusterPreferences, Placement, ReplicaSchedulingStrategy
from controlplane.kinds.policy import SpreadConstraint as Spread
from controlplane.scheduling import regions
from controlplane.scheduling.candidates import Unselectable, rank
from controlplane.scheduling.fleet import Fleet
from controlplane.scheduling.plan import plan_of
from controlplane.scheduling.regions import Region, best_path
from controlplane.settings import Settings
from tests.core.fleet_story import cluster

DIVIDED = ReplicaSchedulingStrategy("Divided", "Weighted", ClusterPreferences(dynamic_weight="AvailableReplicas"))


def chosen(
    layout: dict[str, tuple[str, int, int]],
    by_region: Spread,
    by_cluster: Spread | None = None,
    *,
    replicas: int = 1,
    divided: bool = False,
) -> list[str]:
    """Return the clusters chosen, in the order they are chosen. `layout`: by cluster, its region, score and room."""
    found = [cluster(name) for name in sorted(layout)]
    fleet = Fleet.of([one.with_spec(region=layout[one.metadata.name][0]) for one in found], settings=Settings())
    constraints = tuple(one for one in (by_region, by_cluster) if one is not None)
    placement = Placement(
        ClusterAffinity(), spread_constraints=constraints, replica_scheduling=DIVIDED if divided else None
    )
    scores, room = (np.array([layout[name][column] for name in fleet.names]) for column in (1, 2))
    candidates = rank(np.arange(fleet.size), scores, room, np.zeros(fleet.size, dtype=np.int64))
    plan = plan_of(fleet, placement, 0, workload=True)
    places = regions.select(plan, candidates, by_region, by_cluster, replicas=replicas)
    return [fleet.names[place] for place in places.tolist()]


def test_the_best_of_each_region_comes_first_then_the_best_of_the_rest() -> None:
    layout = {"a1": ("a", 0, 9), "a2": ("a", 0, 8), "b1": ("b", 0, 7), "b2": ("b", 0, 6), "b3": ("b", 0, 5)}
    two = Spread("region", min_groups=2, max_groups=2)

    assert chosen(layout, two, Spread("cluster", min_groups=2, max_groups=4)) == ["b1", "a1", "a2", "b2"]
    assert len(chosen(layout, two, Spread("cluster", min_groups=2, max_groups=9))) == 5
    assert len(chosen(layout, two, Spread("cluster", min_groups=2, max_groups=2))) == 2
    assert len(chosen(layout, two)) == 2  # without a bound on clusters: one of each region


@pytest.mark.parametrize(("least", "met"), [(2, True), (3, False)])
def test_as_many_regions_as_are_asked_for_suffice(least: int, met: bool) -> None:
    layout = {"a1": ("a", 0, 9), "b1": ("b", 0, 9)}

    if met:
        assert sorted(chosen(layout, Spread("region", min_groups=least, max_groups=least))) == ["a1", "b1"]
        return
    with pytest.raises(Unselectable, match="2 regions have feasible clusters, spreadConstraints ask for at least 3"):
        chosen(layout, Spread("region", min_groups=least, max_groups=least))


def test_regions_with_too_few_clusters_are_said_to_be_so() -> None:
    layout = {"a1": ("a", 0, 9), "b1": ("b", 0, 9)}

    with pytest.raises(Unselectable, match="no 1 to 2 regions together have the 3 feasible clusters"):
        chosen(layout, Spread("region", min_groups=1, max_groups=2), Spread("cluster", min_groups=3, max_groups=3))


def test_a_cluster_without_a_region_is_in_none() -> None:
    layout = {"a1": ("a", 0, 1), "x": ("", 0, 99)}

    assert chosen(layout, Spread("region", min_groups=1, max_groups=1)) == ["a1"]


def test_copies_prefer_the_region_with_more_clusters_that_hold_a_whole_copy() -> None:
    layout = {"a1": ("a", 100, 9), "a2": ("a", 100, 4), "b1": ("b", 0, 5), "b2": ("b", 0, 5)}
    one = Spread("region", min_groups=1, max_groups=1)

    assert chosen(layout, one, replicas=5)[0] == "b1"
    assert chosen(layout, one, replicas=4)[0] == "a1"  # both hold two copies: the higher score
    assert chosen(layout, one, replicas=99)[0] == "a1"  # none holds any: by name


def score(division: str, room: list[int], scores: list[int], **asked: int) -> int:
    one, two = np.array(room), np.array(scores)
    if division == "copies":
        return regions._able(one, two, asked["replicas"])
    return regions._reach(one, two, least=asked["least"], goal=asked["goal"])


@pytest.mark.parametrize(
    ("room", "scores", "replicas", "found"),
    [
        ([5, 5], [100, 0], 5, 2050),
        ([5, 4], [100, 0], 5, 1100),
        ([4, 5], [100, 0], 5, 1000),
        ([6], [7], 5, 1007),
        ([4], [100], 5, 0),
    ],
)
def test_a_region_scores_for_copies_by_the_clusters_that_hold_one(
    room: list[int], scores: list[int], replicas: int, found: int
) -> None:
    assert score("copies", room, scores, replicas=replicas) == found


MANY = [1] * 40


@pytest.mark.parametrize(
    ("room", "scores", "least", "goal", "found"),
    [
        ([5, 5], [100, 0], 1, 5, 5100),  # the first cluster suffices
        ([5, 5], [100, 0], 1, 6, 6050),  # two are needed
        ([5, 5], [100, 0], 2, 5, 5050),  # two are asked for
        ([5, 5], [100, 0], 1, 10, 10050),  # all of it
        ([5, 5], [100, 0], 1, 11, 10050),  # not enough: as much as there is
        ([5, 5], [100, 20], 3, 5, 5060),  # fewer clusters than asked for
        ([5, 5], [100, 20], 3, 20, 10060),
        ([0], [50], 1, 0, 50),  # nothing is needed
        (MANY, [100] * 40, 1, 32, 32100),  # the last of those that are added up one by one
        (MANY, [100] * 33 + [0] * 7, 1, 33, 33100),  # the first beyond them
        (MANY, [100] * 39 + [0], 1, 40, 40097),
        (MANY, [100] * 40, 1, 41, 40100),
        (MANY, [100] * 34 + [0] * 6, 35, 1, 1097),
    ],
)
def test_a_region_scores_for_shares_by_what_its_first_clusters_hold(
    room: list[int], scores: list[int], least: int, goal: int, found: int
) -> None:
    assert score("shares", room, scores, least=least, goal=goal) == found


def test_each_region_is_to_hold_its_share_rounded_up() -> None:
    """5 replicas over two regions: 3 for each."""
    layout = {"a1": ("a", 0, 2), "b1": ("b", 0, 3), "c1": ("c", 0, 3)}

    found = chosen(layout, Spread("region", min_groups=2, max_groups=2), replicas=5, divided=True)

    assert sorted(found) == ["b1", "c1"]


def test_the_clusters_asked_for_count_in_each_region() -> None:
    """A region is scored by as many clusters as are asked for, or regions if these are more."""
    layout = {"a1": ("a", 100, 9), "a2": ("a", 0, 9), "b1": ("b", 60, 9), "b2": ("b", 60, 9)}

    one = chosen(layout, Spread("region", min_groups=1, max_groups=1), divided=True, replicas=2)
    two = chosen(
        layout,
        Spread("region", min_groups=1, max_groups=1),
        Spread("cluster", min_groups=2, max_groups=2),
        divided=True,
        replicas=2,
    )

    assert one == ["a1"]
    assert sorted(two) == ["b1", "b2"]


def some(*sizes: tuple[int, int]) -> list[Region]:
    return [Region(f"r{number}", np.arange(count), score) for number, (count, score) in enumerate(sizes)]


def names(found: list[Region]) -> list[str]:
    return [one.name for one in found]


def test_a_shorter_row_of_the_best_regions_is_taken_where_it_suffices() -> None:
    assert names(best_path(some((1, 10), (4, 50)), least=1, most=2, clusters=4)) == ["r1"]
    assert names(best_path(some((1, 10), (4, 50)), least=2, most=2, clusters=4)) == ["r1", "r0"]


def test_of_equal_scores_the_set_with_more_clusters_is_taken() -> None:
    assert names(best_path(some((1, 50), (3, 50)), least=1, most=1, clusters=1)) == ["r1"]


@pytest.mark.parametrize(("most", "clusters", "found"), [(40, 401, 0), (40, 400, 40), (39, 391, 0), (39, 390, 39)])
def test_the_bounds_of_many_regions_are_kept_exactly(most: int, clusters: int, found: int) -> None:
    equal = some(*[(10, 1000)] * 40)

    assert len(best_path(equal, least=most, most=most, clusters=clusters)) == found
