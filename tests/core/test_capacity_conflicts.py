"""How much others may promise while a decision is made: what is left of a cluster, resource by resource."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from controlplane.engine.capacity_conflicts import NewReservation, overcommitted_cluster
from controlplane.engine.decision import CapacityGuard
from controlplane.estimate.request import Asked, Bundle, Request
from controlplane.kinds.cluster import ResourceSummary
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import Ledger
from controlplane.settings import Settings
from tests.builders.objects import cluster

CORE = Request((("cpu", 1000),))
SMALL = Request((("cpu", 100),))
PAIR = Bundle(((2, CORE), (1, SMALL)))


def fleet(**allocatable: str) -> Fleet:
    one = cluster("a").with_status(resource_summary=ResourceSummary(allocatable=allocatable))
    return Fleet.of([one], settings=Settings())


def rooms(seen: Fleet, asked: Asked, count: int, *before: tuple[str, int, Asked]) -> tuple[CapacityGuard, ...]:
    """Return what a decision rests on that takes room for so many on the only cluster."""
    ledger, places = Ledger.of(seen, before), np.array([0])
    ledger.reserve(places, np.array([count]), asked)
    return ledger.capacity_guards(places, asked, seen=7)


def promised(replicas: int, asked: Asked, *, on: str = "a", number: int = 8) -> NewReservation:
    return NewReservation(on, number, replicas, msgspec.json.encode(asked).decode())


def test_what_is_left_is_counted_by_resource() -> None:
    (room,) = rooms(fleet(pods="10", cpu="8"), CORE, 3, ("a", 2, CORE))

    assert (room.cluster, room.seen, dict(room.spare)) == ("a", 7, {"": 5, "cpu": 3000})


def test_a_set_of_components_counts_as_all_its_pods() -> None:
    (room,) = rooms(fleet(pods="10", cpu="8"), PAIR, 1)

    assert dict(room.spare)[""] == 7
    assert overcommitted_cluster([room], [promised(2, PAIR)]) == ""
    assert overcommitted_cluster([room], [promised(3, PAIR)]) == "a"


@pytest.mark.parametrize(
    ("others", "taken"),
    [
        ([], ""),
        ([promised(3, CORE)], ""),
        ([promised(4, CORE)], "a"),
        ([promised(2, CORE), promised(2, CORE)], "a"),
        ([promised(9, CORE, on="b")], ""),
        ([promised(9, CORE, number=7)], ""),
        ([promised(5, Request())], ""),
        ([promised(6, Request())], "a"),
        ([promised(3, CORE), promised(1, SMALL)], "a"),
    ],
)
def test_a_decision_holds_as_long_as_what_others_promised_since_leaves_it_room(
    others: list[NewReservation], taken: str
) -> None:
    found = rooms(fleet(pods="10", cpu="8"), CORE, 3, ("a", 2, CORE))

    assert overcommitted_cluster(found, others) == taken


def test_a_decision_does_not_rest_on_room_that_was_never_there() -> None:
    """Copies go where their placement says although the report shows no room for them."""
    assert rooms(fleet(pods="10", cpu="2"), CORE, 3) == ()
