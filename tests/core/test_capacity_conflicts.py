"""How much others may reserve while a decision is made: what is left of a cluster, resource by resource."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pytest

from controlplane.engine.capacity_conflicts import (
    NewReservation,
    NewReservations,
    ReservationNumbers,
    overcommitted_cluster,
)
from controlplane.engine.decision import CapacityGuard
from controlplane.estimate.request import Asked, Bundle, Request
from controlplane.kinds.cluster import AllocatableModeling, ResourceModel, ResourceModelRange, ResourceSummary
from controlplane.kinds.rows import CapacityReservation
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import RESERVATION_EXPIRY, Ledger, live
from controlplane.settings import Settings
from tests.builders.objects import START, cluster

CORE = Request((("cpu", 1000),))
SMALL = Request((("cpu", 100),))
MEMORY, LARGE = Request((("memory", 2**30),)), Request((("cpu", 1000), ("memory", 2**30)))
PAIR = Bundle(((2, CORE), (1, SMALL)))


def fleet(**allocatable: str) -> Fleet:
    one = cluster("a").with_status(resource_summary=ResourceSummary(allocatable=allocatable))
    return Fleet.of([one], settings=Settings())


def rooms(seen: Fleet, asked: Asked, count: int, *before: tuple[str, int, Asked]) -> tuple[CapacityGuard, ...]:
    """Return what a decision rests on that takes room for so many on the only cluster."""
    ledger, places = Ledger.of(seen, before), np.array([0])
    ledger.reserve(places, np.array([count]), asked)
    return ledger.capacity_guards(places, asked, seen=7)


def reserved_row(replicas: int, asked: Asked, *, on: str = "a", number: int = 8) -> NewReservation:
    return NewReservation(on, number, replicas, msgspec.json.encode(asked).decode())


def test_what_is_left_is_counted_by_resource() -> None:
    (room,) = rooms(fleet(pods="10", cpu="8"), CORE, 3, ("a", 2, CORE))

    assert (room.cluster, room.seen, dict(room.spare)) == ("a", 7, {"": 5, "cpu": 3000})


def test_a_set_of_components_counts_as_all_its_pods() -> None:
    (room,) = rooms(fleet(pods="10", cpu="8"), PAIR, 1)

    assert dict(room.spare)[""] == 7
    assert overcommitted_cluster([room], NewReservations([reserved_row(2, PAIR)])) == ""
    assert overcommitted_cluster([room], NewReservations([reserved_row(3, PAIR)])) == "a"


@pytest.mark.parametrize(
    ("others", "taken"),
    [
        ([], ""),
        ([reserved_row(3, CORE)], ""),
        ([reserved_row(4, CORE)], "a"),
        ([reserved_row(2, CORE), reserved_row(2, CORE)], "a"),
        ([reserved_row(9, CORE, on="b")], ""),
        ([reserved_row(9, CORE, number=7)], ""),
        ([reserved_row(5, Request())], ""),
        ([reserved_row(6, Request())], "a"),
        ([reserved_row(3, CORE), reserved_row(1, SMALL)], "a"),
    ],
)
def test_a_decision_holds_while_later_reservations_leave_it_room(others: list[NewReservation], taken: str) -> None:
    found = rooms(fleet(pods="10", cpu="8"), CORE, 3, ("a", 2, CORE))

    assert overcommitted_cluster(found, NewReservations(others)) == taken


def test_a_decision_does_not_rest_on_room_that_was_never_there() -> None:
    """Copies go where their placement says although the report shows no room for them."""
    assert rooms(fleet(pods="10", cpu="2"), CORE, 3) == ()


SECOND = timedelta(seconds=1)
NOW = START + RESERVATION_EXPIRY


@pytest.mark.parametrize(
    ("made", "applied", "collected", "counts"),
    [
        (START + SECOND, None, None, True),
        (START + SECOND, None, NOW, True),  # its Work was not applied yet
        (START + SECOND, NOW - SECOND, None, True),  # the cluster has no report
        (START + SECOND, NOW - SECOND, NOW - 2 * SECOND, True),
        (START + SECOND, NOW - SECOND, NOW - SECOND, True),  # the report may have been read before
        (START + SECOND, NOW - SECOND, NOW, False),
        (START, None, None, False),  # it has expired
        (START - SECOND, None, None, False),
        (NOW + SECOND, None, None, True),
        (None, None, None, False),
    ],
)
def test_a_reservation_counts_for_300_seconds_or_until_a_newer_report_has_its_replicas(
    made: datetime | None, applied: datetime | None, collected: datetime | None, counts: bool
) -> None:
    row = CapacityReservation("key", "web", "a", 3, made_at=made, applied_at=applied)
    reports = {"b": NOW} if collected is None else {"a": collected}

    assert timedelta(seconds=300) == RESERVATION_EXPIRY
    assert live([row], collected_at=reports, now=NOW) == ([row] if counts else [])


@pytest.mark.parametrize(
    ("seen", "by", "numbers"),
    [
        ((0,), "reader", [1, 2]),
        ((1,), "reader", [2]),
        ((2,), "reader", []),
        ((1, 0), "reader", [1, 2]),
        ((0,), "one", [2]),
    ],
)
def test_a_decision_is_compared_with_what_others_stored_since_its_oldest_reading(
    seen: tuple[int, ...], by: str, numbers: list[int]
) -> None:
    known = ReservationNumbers()
    known.stored(CapacityReservation("1", "web", "a", 3), by="one")
    known.stored(CapacityReservation("2", "web", "a", 3), by="two")

    found = known.since([CapacityGuard("a", number, ()) for number in seen], by=by)

    assert sorted(new.number for new in found) == numbers


def test_what_others_stored_is_summed_up_once_for_all_decisions_of_one_reading() -> None:
    others = NewReservations(
        [reserved_row(2, CORE, number=8), reserved_row(1, CORE, number=9), reserved_row(4, CORE, on="b")]
    )

    assert others.used("a", after=7) == {"": 3, "cpu": 3000}
    assert others.used("a", after=8) == {"": 1, "cpu": 1000}
    assert others.used("a", after=9) == {}
    assert others.used("a", after=7) is others.used("a", after=7)


def test_a_decision_that_takes_the_last_room_leaves_none_to_others() -> None:
    (room,) = rooms(fleet(pods="10", cpu="3"), CORE, 3)

    assert dict(room.spare) == {"": 7, "cpu": 0}
    assert overcommitted_cluster([room], NewReservations([reserved_row(1, SMALL)])) == "a"


def test_a_reservation_on_a_cluster_that_is_gone_takes_no_room() -> None:
    seen = fleet(pods="10", cpu="8")

    assert Ledger.of(seen, [("gone", 3, CORE), ("a", 0, CORE), ("a", 2, CORE)]).free(CORE).tolist() == [6]


@pytest.mark.parametrize(("before", "free"), [((3, Request()), 1), ((9, Request()), 0), ((9, CORE), 0)])
def test_reserved_pods_take_room_although_they_request_nothing(before: tuple[int, Asked], free: int) -> None:
    assert Ledger.of(fleet(pods="4", cpu="8"), [("a", *before)]).free(CORE).tolist() == [free]


@pytest.mark.parametrize(
    ("before", "asked", "free"),
    [
        ((3, SMALL), CORE, 7),  # a part of a core displaces a whole replica
        ((10, SMALL), CORE, 7),
        ((2, CORE), SMALL, 18),  # pod slots are scarce, and 6 cores are left
        ((7, CORE), SMALL, 10),
        ((3, Request()), PAIR, 5),  # 17 pods are left, and a set has 3
        ((1, PAIR), PAIR, 5),
        ((10, MEMORY), LARGE, 8),  # cores are scarce, and 90 Gi of memory are left
    ],
)
def test_whole_replicas_and_whole_sets_fit_beside_what_is_reserved(
    before: tuple[int, Asked], asked: Asked, free: int
) -> None:
    seen = fleet(pods="20", cpu="99" if asked is PAIR else "8050m", memory="100Gi")

    assert Ledger.of(seen, [("a", *before)]).free(asked).tolist() == [free]


def test_reservations_take_room_from_resource_models_and_pod_slots_each_for_itself() -> None:
    """Ten nodes with a core or more have room for 100 small replicas, and the cluster has 20 pod slots."""
    bounds = (("0", "1"), ("1", "9223372036854775807"))
    models = tuple(ResourceModel(grade, (ResourceModelRange("cpu", *ends),)) for grade, ends in enumerate(bounds))
    summary = ResourceSummary(
        allocatable={"pods": "20", "cpu": "3"}, allocatable_modelings=(AllocatableModeling(1, 10),)
    )
    one = cluster("a").with_spec(resource_models=models).with_status(resource_summary=summary)
    seen = Fleet.of([one], settings=Settings())

    assert [Ledger.of(seen, [("a", count, CORE)]).free(SMALL).tolist() for count in (0, 7, 9)] == [[20], [13], [10]]


def test_others_may_use_what_is_left_of_a_resource_although_pod_slots_are_scarcer() -> None:
    (room,) = rooms(fleet(pods="20", cpu="8"), SMALL, 3, ("a", 2, CORE))

    assert dict(room.spare) == {"": 15, "cpu": 5700}


@pytest.mark.parametrize("asked", [CORE, SMALL, PAIR])
def test_what_is_free_follows_each_reservation_and_an_answer_given_before_stays(asked: Asked) -> None:
    """Few changed clusters are counted again, many lead to a count of all: the answers are the same."""
    seen = Fleet.of([cluster(f"member{number}", room=20 + number) for number in range(9)], settings=Settings())
    ledger, made, given = Ledger(seen), list[tuple[str, int, Asked]](), list[tuple[Any, list[int]]]()
    for places in ([3], [3, 4], [0, 1, 2, 5], [8], [7]):
        counts = np.array(places) % 3 + 1
        ledger.reserve(np.array(places), counts, CORE)
        made += [(seen.names[place], int(count), CORE) for place, count in zip(places, counts, strict=True)]

        free = ledger.free(asked)

        assert free.tolist() == Ledger.of(seen, made).free(asked).tolist()
        assert ledger.free(asked) is free  # as long as nothing is reserved
        given.append((free, free.tolist()))
    assert all(free.tolist() == before for free, before in given)
