"""What a result writes: when a binding was scheduled, and which capacity is reserved for it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from controlplane.apimachinery.meta import Condition
from controlplane.engine.decision import Drop, Save
from controlplane.estimate.request import Asked, encoded, request_from
from controlplane.eviction.purge import with_task
from controlplane.kinds.binding import SCHEDULED, Binding, TargetCluster, origin
from controlplane.kinds.rows import CapacityReservation
from controlplane.scheduling.binding_outcome import (
    capacity_reservations,
    caught_up,
    give_back,
    ledger,
    placed,
    refuge_reservations,
    refused,
)
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.schedule import QUOTA_EXCEEDED, UNSCHEDULABLE, Placed, Refused
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster
from tests.builders.placements import by_room

WEB = binding("web", by_room("a", "b"), on={"a": 2}, cpu="1")
LATER = START + timedelta(minutes=1)
RESULT = Placed(WEB.spec.clusters)
STANDS = placed(WEB, RESULT, asked_again=False, now=START)
ELSEWHERE = Placed((TargetCluster("b", 2),))
NAMED = Placed(WEB.spec.clusters, "second")

RESULTS: dict[str, tuple[Binding, Placed, bool, bool]] = {
    # the binding, its result, whether a reschedule was requested, whether it counts as scheduled now
    "the first result, although it changes no target": (WEB, RESULT, False, True),
    "the same result": (STANDS, RESULT, False, False),
    "the same result of a reschedule": (STANDS, RESULT, True, True),
    "other targets": (STANDS, ELSEWHERE, False, True),
    "the same targets by another affinity term": (STANDS, NAMED, False, True),
    "the same targets for another placement": (STANDS.with_spec(placement=by_room("a")), RESULT, False, True),
}


@pytest.mark.parametrize("row", RESULTS)
def test_a_binding_counts_as_scheduled_when_a_result_changes_it_or_answers_a_request(row: str) -> None:
    before, result, again, scheduled = RESULTS[row]

    after = placed(before, result, asked_again=again, now=LATER)

    assert (after is not before) is scheduled
    assert after.status.last_scheduled_time == (LATER if scheduled else START)


SMALL, LARGE = request_from({"cpu": "2"}), request_from({"cpu": "9"})
KEPT: dict[str, tuple[Mapping[str, tuple[int, Asked]], Mapping[str, int], Mapping[str, int]]] = {
    # reserved before: replicas and request by cluster; wanted now; written: 0 is a row that is dropped
    "nothing before, nothing now": ({}, {"a": 0}, {}),
    "new replicas": ({}, {"a": 2, "b": 1}, {"a": 2, "b": 1}),
    "the same": ({"a": (2, SMALL)}, {"a": 2}, {}),
    "more replicas": ({"a": (2, SMALL)}, {"a": 3}, {"a": 3}),
    "fewer replicas": ({"a": (2, SMALL)}, {"a": 1}, {"a": 1}),
    "a smaller request": ({"a": (2, LARGE)}, {"a": 2}, {"a": 2}),
    "a larger request": ({"a": (2, request_from({"cpu": "1"}))}, {"a": 2}, {"a": 2}),
    "none there any more": ({"a": (2, SMALL)}, {"a": 0}, {"a": 0}),
    "moved": ({"a": (2, SMALL)}, {"b": 2}, {"a": 0, "b": 2}),
}


@pytest.mark.parametrize("row", KEPT)
def test_capacity_reservations_are_written_only_where_they_change(row: str) -> None:
    before, wanted, written = KEPT[row]
    known = {
        name: CapacityReservation(f"web|{name}", "web", name, replicas, encoded(asked), START)
        for name, (replicas, asked) in before.items()
    }

    found = list(capacity_reservations(WEB, wanted, known, asked=SMALL, now=LATER))

    kept = {each.row.cluster: each.row for each in found if isinstance(each, Save)}
    dropped = {each.row.cluster: 0 for each in found if isinstance(each, Drop)}
    assert {name: kept_row.replicas for name, kept_row in kept.items()} | dropped == written
    assert all((kept_row.request, kept_row.made_at) == (encoded(SMALL), LATER) for kept_row in kept.values())


def test_capacity_that_is_given_back_and_reserved_again_is_as_before() -> None:
    fleet = Fleet.of([cluster("a", room=20), cluster("b", room=20)], settings=Settings())
    reserved = refuge_reservations(WEB, {"a": 4, "b": 1, "gone": 2}, asked=SMALL, now=START)
    book = ledger(fleet, [(row.cluster, row.request, row.replicas) for row in reserved])
    assert all(row.reserved for row in reserved)

    free = [book.free(SMALL).tolist()]
    for times in (1, -1):
        give_back(book, fleet, reserved, times=times)
        free.append(book.free(SMALL).tolist())

    assert free == [[6, 9], [10, 10], [6, 9]]


@pytest.mark.parametrize(
    ("reason", "part", "counts"),
    [
        (QUOTA_EXCEEDED, (TargetCluster("member2", 2),), True),
        (QUOTA_EXCEEDED, None, False),
        (UNSCHEDULABLE, (TargetCluster("member2", 2),), False),
        (UNSCHEDULABLE, None, False),
    ],
)
def test_only_the_part_that_a_quota_allows_counts_as_the_last_result(
    reason: str, part: tuple[TargetCluster, ...] | None, counts: bool
) -> None:
    """It has all replicas that were evicted, so that a later eviction does not count them again."""
    old = binding("web", by_room(), on={"member1": 2}, replicas=4).with_status(last_scheduled_time=START)
    later = START + timedelta(seconds=60)

    new = refused(old, Refused(reason, "no room", retry=True), part=part, now=later)

    assert new.status.last_scheduled_time == (later if counts else START)
    assert new.spec.clusters == (part or old.spec.clusters)


@pytest.mark.parametrize("status", ["False", "True", ""])
def test_a_binding_that_needs_no_result_is_scheduled_if_it_was_said_not_to_be(status: str) -> None:
    """A person may have placed it by hand before the scheduler ever saw it; then nothing is said of it."""
    said = (Condition(SCHEDULED, status, "NoClusterFit"),) if status else ()
    one = WEB.with_meta(generation=7).with_status(conditions=said)

    new = caught_up(one, now=LATER)

    assert new.status.scheduler_observed_generation == 7
    assert [(each.type, each.status) for each in new.status.conditions] == ([(SCHEDULED, "True")] if status else [])
    assert (new.status.conditions == one.status.conditions) is (status != "False")


@pytest.mark.parametrize(("replicas", "counts"), [(1, False), (2, True), (3, True)])
def test_a_part_with_all_replicas_that_were_evicted_counts_too(replicas: int, counts: bool) -> None:
    """A user has asked for more than fits. This is no reason to keep the old copy [recovered-clusters-cancel]."""
    old = binding("web", by_room(), on={"member1": 2}, replicas=2)
    left = with_task(old, "member1", mode="Gracefully", reason="", producer="", message="", now=START)
    left = origin.with_departures(left, old, now=START).with_spec(replicas=4)
    part = (TargetCluster("member2", replicas),)

    new = refused(left, Refused(UNSCHEDULABLE, "no room", retry=True), part=part, now=LATER)

    assert new.status.last_scheduled_time == (LATER if counts else None)
    assert origin.placed_again(new, "member1") is counts
