"""Choosing regions and the clusters in them: scores, bounds and what is missing where nothing can be chosen."""

from __future__ import annotations

import numpy as np
import pytest

from controlplane.kinds.policy import ClusterAffinity, ClusterPreferences, Placement, ReplicaSchedulingStrategy
from controlplane.kinds.policy import SpreadConstraint as Spread
from controlplane.scheduling import regions
from controlplane.scheduling.candidates import Unselectable, rank
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.placement_plan import plan_of
from controlplane.scheduling.regions import Region, best_path
from controlplane.settings import Settings
from tests.builders.objects import cluster

DIVIDED = ReplicaSchedulingStrategy("Divided", "Weighted", ClusterPreferences(dynamic_weight="AvailableReplicas"))


def chosen(
    layout: dict[str, tuple[str, int, int]],
    by_region: Spread,
    by_cluster: Spread | None = None,
    *,
    replicas: int = 1,
    divided: bool = False,
    unfeasible: str = "",
) -> list[str]:
    """Return the clusters chosen, in the order they are chosen. `layout`: by cluster, its region, score and room;
    `unfeasible`: a cluster of the fleet that is no candidate."""
    found = [cluster(name) for name in sorted(layout)]
    fleet = Fleet.of([one.with_spec(region=layout[one.metadata.name][0]) for one in found], settings=Settings())
    constraints = tuple(one for one in (by_region, by_cluster) if one is not None)
    placement = Placement(
        ClusterAffinity(), spread_constraints=constraints, replica_scheduling=DIVIDED if divided else None
    )
    scores, room = (np.array([layout[name][column] for name in fleet.names]) for column in (1, 2))
    feasible = np.array([place for place in range(fleet.size) if fleet.names[place] != unfeasible])
    tiers = np.zeros(len(feasible), dtype=np.int64)
    candidates = rank(feasible, scores, room, tiers)
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
        assert sorted(chosen(layout, Spread("region", min_groups=least, max_groups=9))) == ["a1", "b1"]
        return
    with pytest.raises(Unselectable, match="2 regions have feasible clusters, spreadConstraints ask for at least 3"):
        chosen(layout, Spread("region", min_groups=least, max_groups=9))


def test_regions_with_too_few_clusters_are_said_to_be_so() -> None:
    layout = {"a1": ("a", 0, 9), "b1": ("b", 0, 9)}

    with pytest.raises(Unselectable, match="no 1 to 2 regions together have the 3 feasible clusters"):
        chosen(layout, Spread("region", min_groups=1, max_groups=2), Spread("cluster", min_groups=3, max_groups=9))


THREE = {"a1": ("a", 0, 9), "b1": ("b", 0, 8), "c1": ("c", 0, 7)}


@pytest.mark.parametrize(
    ("regions_", "clusters", "found"),
    [
        ((1, 3), None, 1),  # maxGroups is a limit: no region beyond minGroups is taken without need
        ((2, 3), None, 2),
        ((1, 9), None, 1),  # fewer regions than maxGroups are no reason to refuse
        ((1, 2), (2, 2), 2),  # as many regions as the clusters need
        ((1, 3), (3, 3), 3),
        ((1, 2), (3, 3), 0),  # more than maxGroups are needed
        ((3, 3), (1, 2), 3),  # regions go before maxGroups of clusters
    ],
)
def test_regions_are_taken_from_the_least_number_on_up_to_the_largest(
    regions_: tuple[int, int], clusters: tuple[int, int] | None, found: int
) -> None:
    by_region = Spread("region", min_groups=regions_[0], max_groups=regions_[1])
    by_cluster = None if clusters is None else Spread("cluster", min_groups=clusters[0], max_groups=clusters[1])

    if found:
        assert len(chosen(THREE, by_region, by_cluster)) == found
        return
    with pytest.raises(Unselectable, match="no 1 to 2 regions together have the 3 feasible clusters"):
        chosen(THREE, by_region, by_cluster)


def test_with_fewer_clusters_allowed_than_regions_each_region_has_its_best_alone() -> None:
    layout = {f"{region}{n}": (region, 0, 9 - n) for region in "ab" for n in range(1, 4)}

    found = chosen(layout, Spread("region", min_groups=2, max_groups=2), Spread("cluster", min_groups=1, max_groups=1))

    assert sorted(found) == ["a1", "b1"]


def test_a_region_without_a_candidate_does_not_count_and_those_after_it_do() -> None:
    with_one = Spread("region", min_groups=2, max_groups=2)

    assert sorted(chosen(THREE, with_one, unfeasible="b1")) == ["a1", "c1"]
    with pytest.raises(Unselectable, match="2 regions have feasible clusters"):
        chosen(THREE, Spread("region", min_groups=3, max_groups=3), unfeasible="b1")


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
        ([5, 5], [100, 1], 5, 2050),  # averages are cut to whole numbers
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
        ([5, 5], [100, 1], 2, 5, 5050),  # averages are cut to whole numbers
        ([5, 5], [100, 1], 1, 11, 10050),
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
    layout = {"a1": ("a", 50, 2), "b1": ("b", 0, 3), "c1": ("c", 0, 3)}

    found = chosen(layout, Spread("region", min_groups=2, max_groups=5), replicas=5, divided=True)

    assert sorted(found) == ["b1", "c1"]


def test_a_share_is_rounded_up_before_regions_are_compared() -> None:
    """5 replicas over two regions: f holds its share of 3 and x 1 more; y and z hold 2 each, and have lower scores."""
    layout = {
        **{"f1": ("f", 50, 3), "x1": ("x", 0, 1), "x2": ("x", 0, 0), "x3": ("x", 0, 0)},
        **{"y1": ("y", 0, 1), "y2": ("y", 0, 1), "z1": ("z", 0, 1), "z2": ("z", 0, 1)},
    }
    two, four = Spread("region", min_groups=2, max_groups=2), Spread("cluster", min_groups=4, max_groups=9)

    assert {name[0] for name in chosen(layout, two, four, replicas=5, divided=True)} == {"f", "x"}


def test_room_beyond_its_share_does_not_make_a_region_better() -> None:
    """5 replicas over two regions: 3 for each. Where minGroups is 0, the one region is to hold all of them."""
    layout = {"a1": ("a", 0, 9), "b1": ("b", 50, 3), "c1": ("c", 50, 3)}

    two = chosen(layout, Spread("region", min_groups=2, max_groups=2), replicas=5, divided=True)
    least_unset = Spread("region", min_groups=0, max_groups=1), Spread("cluster", min_groups=1, max_groups=1)

    assert sorted(two) == ["b1", "c1"]
    assert chosen(layout, *least_unset, replicas=5, divided=True) == ["a1"]


# The best region by the average score of its first cluster, of its first two, and of its first three.
BY_NUMBER = {
    **{"a1": ("a", 100, 9), "a2": ("a", 0, 9), "a3": ("a", 0, 9)},
    **{"b1": ("b", 60, 9), "b2": ("b", 60, 9), "b3": ("b", 0, 9)},
    **{"c1": ("c", 50, 9), "c2": ("c", 50, 9), "c3": ("c", 50, 9)},
}


@pytest.mark.parametrize(
    ("regions_", "clusters", "found"),
    [
        ((1, 1), None, "a"),
        ((1, 1), (1, 3), "a"),
        ((1, 1), (2, 3), "b"),  # minGroups of clusters, and not maxGroups
        ((1, 1), (3, 3), "c"),
        ((2, 3), None, "bd"),  # minGroups of regions, and not maxGroups
        ((2, 3), (1, 3), "bd"),  # the larger of both minimums
        ((2, 3), (3, 3), "cd"),
    ],
)
def test_a_region_is_scored_by_as_many_clusters_as_minimums_ask_for(
    regions_: tuple[int, int], clusters: tuple[int, int] | None, found: str
) -> None:
    always_best = {f"d{number}": ("d", 99, 9) for number in (1, 2, 3)}
    layout = BY_NUMBER | (always_best if "d" in found else {})
    by_cluster = None if clusters is None else Spread("cluster", min_groups=clusters[0], max_groups=clusters[1])

    got = chosen(
        layout, Spread("region", min_groups=regions_[0], max_groups=regions_[1]), by_cluster, replicas=2, divided=True
    )

    assert "".join(sorted({name[0] for name in got})) == found


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


@pytest.mark.parametrize(
    ("sizes", "least", "most", "clusters", "found"),
    [
        (((1, 10), (2, 20), (3, 30)), 1, 1, 3, ["r2"]),
        (((1, 10), (2, 20), (3, 30)), 1, 1, 4, []),  # one region is allowed, and none has four clusters
        (((1, 10), (2, 20), (3, 30)), 1, 2, 4, ["r2", "r1"]),
        (((1, 10), (2, 20), (3, 30)), 1, 2, 6, []),
        (((1, 10), (2, 20), (3, 30)), 1, 3, 6, ["r2", "r1", "r0"]),
        (((1, 10), (2, 20), (3, 30)), 3, 3, 1, ["r2", "r1", "r0"]),
        (((1, 10), (2, 20), (3, 30)), 4, 4, 1, []),  # more regions are asked for than there are
        (((2, 10), (2, 20)), 1, 3, 4, ["r1", "r0"]),  # more are allowed than there are
        (((1, 90), (1, 80), (4, 10)), 1, 2, 4, ["r0", "r2"]),  # the best has too few clusters alone
        (((1, 10), (1, 20), (4, 90)), 2, 3, 4, ["r2", "r1"]),  # one region has the clusters: not the minimum of regions
    ],
)
def test_regions_are_the_best_that_keep_all_bounds(
    sizes: tuple[tuple[int, int], ...], least: int, most: int, clusters: int, found: list[str]
) -> None:
    assert names(best_path(some(*sizes), least=least, most=most, clusters=clusters)) == found


@pytest.mark.parametrize(
    ("tries", "least", "clusters", "found"),
    [
        (1, 1, 4, ["r2", "r1"]),  # no set was found that suffices: the regions with most clusters
        (1, 1, 5, ["r2", "r1"]),
        (1, 2, 4, ["r2", "r1"]),
        (1, 1, 6, []),  # two regions have five at most
        (1, 3, 4, []),  # more than two are not allowed
        (2, 1, 4, ["r2", "r0"]),  # the best so far
        (4, 1, 4, ["r2", "r0"]),
        (5, 1, 4, ["r2", "r1"]),  # the best of all
    ],
)
def test_after_so_many_tries_the_best_set_so_far_is_taken_or_the_largest_regions(
    tries: int, least: int, clusters: int, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regions, "_MOST_TRIES", tries)

    assert names(best_path(some((1, 10), (2, 20), (3, 30)), least=least, most=2, clusters=clusters)) == found


@pytest.mark.parametrize(
    ("sizes", "tries", "most", "clusters", "found"),
    [
        (((3, 30), (4, 50), (3, 50)), 3, 3, 2, ["r1", "r2"]),  # the best of equally large regions first
        (((3, 40), (2, 0), (4, 0)), 4, 3, 4, ["r0", "r2"]),  # a set that cannot win is not tried
        (((3, 10), (3, 10), (2, 0)), 4, 2, 4, ["r0", "r1"]),  # nor is a set that can only be as good
    ],
)
def test_tries_are_spent_on_the_sets_that_can_win(
    sizes: tuple[tuple[int, int], ...],
    tries: int,
    most: int,
    clusters: int,
    found: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(regions, "_MOST_TRIES", tries)

    assert names(best_path(some(*sizes), least=2, most=most, clusters=clusters)) == found
