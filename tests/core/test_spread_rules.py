"""Spread constraints that can never be met are refused when they are written [policy-defaults] [spread-constraints]."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.documents import policy
from tests.core.admitted import created, refused

CLUSTERS = "spec.placement.spreadConstraints[0]"
REGIONS = "spec.placement.spreadConstraints[1]"
NONE_NAMED: dict[str, Any] = {}
TWO_NAMED = {"clusterNames": ["member1", "member2", "member1"]}
ONE_LEFT = {"clusterNames": ["member1", "member2"], "exclude": ["member2"]}
BY_STATIC_WEIGHT = {
    "replicaSchedulingType": "Divided",
    "replicaDivisionPreference": "Weighted",
    "weightPreference": {"staticWeightList": [{"targetCluster": {"clusterNames": ["member1"]}, "weight": 1}]},
}
BY_ROOM = {
    "replicaSchedulingType": "Divided",
    "replicaDivisionPreference": "Weighted",
    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
}


def spread(*, least: int = 1, most: int = 0, field: str = "cluster") -> dict[str, Any]:
    return {"spreadByField": field, "minGroups": least, **({"maxGroups": most} if most else {})}


def in_regions(*names: str) -> dict[str, Any]:
    return {"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": list(names)}]}}


def terms(*affinities: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"affinityName": f"term{index}", **one} for index, one in enumerate(affinities)]


def spilling(*affinities: dict[str, Any]) -> dict[str, Any]:
    return {"overflowAffinities": [{"affinityName": f"more{index}", **one} for index, one in enumerate(affinities)]}


@pytest.mark.parametrize(
    ("placement", "field", "says"),
    [
        ({"spreadConstraints": [spread(least=3, most=2)]}, CLUSTERS, "maxGroups lower than minGroups"),
        ({"spreadConstraints": [spread()]}, f"{CLUSTERS}.maxGroups", "no cluster is chosen"),
        (
            {"spreadConstraints": [spread(), spread(field="region")]},
            f"{REGIONS}.maxGroups",
            "no region is chosen",
        ),
        (
            {"clusterAffinity": TWO_NAMED, "spreadConstraints": [spread(least=3, most=3)]},
            f"{CLUSTERS}.minGroups",
            "names 2 clusters",
        ),
        (
            {"clusterAffinity": ONE_LEFT, "spreadConstraints": [spread(least=2, most=2)]},
            f"{CLUSTERS}.minGroups",
            "names 1 clusters",
        ),
        (
            {"clusterAffinities": terms(ONE_LEFT, TWO_NAMED), "spreadConstraints": [spread(least=3, most=3)]},
            f"{CLUSTERS}.minGroups",
            "names 2 clusters",
        ),
        (
            {
                "clusterAffinities": terms({**ONE_LEFT, **spilling(TWO_NAMED)}),
                "spreadConstraints": [spread(least=3, most=3)],
                "replicaScheduling": BY_ROOM,
            },
            f"{CLUSTERS}.minGroups",
            "names 2 clusters",
        ),
        (
            {
                "clusterAffinity": TWO_NAMED,
                "spreadConstraints": [spread(), spread(least=3, most=3, field="region")],
            },
            f"{REGIONS}.minGroups",
            "names 2 clusters",
        ),
        (
            {
                "clusterAffinity": in_regions("north", "south"),
                "spreadConstraints": [spread(), spread(least=3, most=3, field="region")],
            },
            f"{REGIONS}.minGroups",
            "names 2 regions",
        ),
    ],
)
def test_what_no_fleet_can_meet_is_refused_with_the_number_that_is_in_the_way(
    placement: dict[str, Any], field: str, says: str
) -> None:
    (cause,) = refused(policy(placement=placement))

    assert cause.field == field
    assert says in cause.message


@pytest.mark.parametrize(
    "placement",
    [
        {"clusterAffinity": TWO_NAMED, "spreadConstraints": [spread(least=2, most=5)]},
        {"clusterAffinity": NONE_NAMED, "spreadConstraints": [spread(least=500, most=500)]},
        {"clusterAffinities": terms(TWO_NAMED, NONE_NAMED), "spreadConstraints": [spread(least=3, most=3)]},
        {
            "clusterAffinities": terms({**TWO_NAMED, **spilling({"clusterNames": ["member3"]})}),
            "spreadConstraints": [spread(least=3, most=3)],
            "replicaScheduling": BY_ROOM,
        },
        # One cluster of each region is chosen where clusters have no most of their own.
        {"spreadConstraints": [spread(), spread(least=2, most=3, field="region")]},
        {"spreadConstraints": [spread(least=1, most=2), spread(least=2, most=2, field="region")]},
        # Zones do not choose clusters, and static weights name theirs themselves.
        {"spreadConstraints": [spread(most=1), spread(least=9, most=9, field="zone")]},
        {
            "clusterAffinity": TWO_NAMED,
            "spreadConstraints": [spread(least=9)],
            "replicaScheduling": BY_STATIC_WEIGHT,
        },
    ],
)
def test_what_some_fleet_can_meet_is_accepted(placement: dict[str, Any]) -> None:
    assert created(policy(placement=placement)).object.spec.placement.spread_constraints


@pytest.mark.parametrize(("most", "warned"), [(1, True), (2, False)])
def test_more_regions_than_clusters_are_taken_with_a_warning(most: int, warned: bool) -> None:
    """The original takes such a policy, and one cluster of each region with it."""
    placement = {"spreadConstraints": [spread(most=most), spread(least=2, most=2, field="region")]}

    warnings = created(policy(placement=placement)).warnings

    assert [f"{CLUSTERS}.maxGroups is 1, but 2 regions" in one for one in warnings] == [True] * warned
