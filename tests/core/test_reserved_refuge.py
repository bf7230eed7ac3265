"""A reserved refuge: while it is valid, what of it stays, and the Event with the reason if it is not used."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from controlplane.engine.decision import Drop, Save
from controlplane.kinds.binding import ResourceBindingStatus, TargetCluster
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.policy import Placement
from controlplane.kinds.rows import CapacityReservation, PlacementHint
from controlplane.scheduling.reserved_refuge import Reserved, freed, hinted, replaced_text
from controlplane.scheduling.schedule import Placed
from tests.builders.objects import START, binding, cluster
from tests.builders.placements import DYNAMIC, by_room, by_weight, duplicated, placement
from tests.builders.scheduling import ask, spec

FULL = [Taint("full", "NoSchedule")]
LATER = START + timedelta(hours=1)


@pytest.mark.parametrize(
    ("refuge", "rescheduled_at", "why"),
    [
        ([], None, "the cluster no longer exists"),
        ([cluster("refuge", taints=FULL)], None, "taint full:NoSchedule is not tolerated"),
        ([cluster("refuge", room=2)], None, "it has room for 2 more replicas only"),
        (
            [cluster("refuge", room=3)],
            None,
            "the binding, its placement or the clusters have changed since then, and other clusters are preferred",
        ),
        ([cluster("refuge", room=9)], LATER, "a reschedule was requested, so all replicas were placed again"),
        (
            [cluster("refuge", room=9)],
            None,
            "the binding, its placement or the clusters have changed since then, and other clusters are preferred",
        ),
    ],
)
def test_an_unused_refuge_is_reported_with_the_reason(
    refuge: list[Cluster], rescheduled_at: datetime | None, why: str
) -> None:
    old = binding("web", by_room("refuge"), on={"failed": 3}, replicas=3)
    row = CapacityReservation("key", str(old.ref), "refuge", 3, made_at=START, reserved=True)
    reserved = Reserved(old, PlacementHint(str(old.ref), clusters={"refuge": 3}), [row])
    wanted = spec(placement(how=DYNAMIC), replicas=3, reschedule_triggered_at=rescheduled_at)
    status = ResourceBindingStatus(last_scheduled_time=START)

    verdict = ask([*refuge, cluster("other", room=30)], wanted, status=status)

    assert isinstance(verdict.outcome, Placed)
    message = reserved.replaced(verdict.outcome.clusters, verdict.explanation)
    assert message.startswith("the eviction had reserved refuge:3, but the scheduler placed the binding on ")
    assert message.endswith(f". refuge: {why}")


# A binding on member1 and member2 is evicted from both: member3 and member4 are reserved.
LEAVES = binding("web", by_room(), on={"member1": 2, "member2": 2}, replicas=4)
RESERVED = {"member3": 2, "member4": 2}


def reserved(
    rows: dict[str, int] = RESERVED, wanted: dict[str, int] | None = RESERVED, *, generation: int = 9
) -> Reserved:
    """Return what is reserved for LEAVES, which has generation 1. `wanted` None: there is no hint."""
    hint = None if wanted is None else PlacementHint(str(LEAVES.ref), generation, wanted)
    made = [
        CapacityReservation(name, str(LEAVES.ref), name, replicas, made_at=START, reserved=True)
        for name, replicas in rows.items()
    ]
    return Reserved(LEAVES, hint, made)


def result(clusters: dict[str, int]) -> tuple[TargetCluster, ...]:
    return tuple(TargetCluster(name, replicas) for name, replicas in clusters.items())


@pytest.mark.parametrize(
    ("found", "valid"),
    [
        (reserved(), True),
        (reserved({}), False),
        (reserved({}, generation=1), True),
        (reserved({}, generation=0), False),  # the binding has changed since then
        (reserved(generation=1), True),
        (reserved(wanted=None), False),
    ],
)
def test_a_hint_is_valid_with_a_reservation_or_for_the_generation_that_the_eviction_wrote(
    found: Reserved, valid: bool
) -> None:
    assert found.valid is valid
    assert found.targets == (result(RESERVED) if valid else None)
    assert (found.replaced(result({"other": 4}), ELSEWHERE) != "") is valid


@pytest.mark.parametrize(
    ("found", "placed", "rest"),
    [
        (reserved(), {"member2": 2, "member3": 2}, {"member4": 2}),
        (reserved(), {"member2": 2, "member3": 1}, {"member3": 1, "member4": 2}),
        (reserved(), {"member2": 2, "member3": 3}, {"member4": 2}),
        (reserved(), {"member1": 2, "member2": 2}, RESERVED),
        (reserved(), RESERVED, {}),  # nothing is left to be evicted
        (reserved(), {"member3": 1, "other": 3}, {}),
        (reserved({"member3": 1}, {"member3": 3}), {"member2": 2, "member3": 1}, {"member3": 1}),
        (reserved({"member3": 2, "member9": 2}, {"member3": 2}), {"member2": 2}, {"member3": 2}),  # of an older hint
        (reserved({"member2": 1}, {"member2": 3}), {"member2": 2}, {}),  # the refuge is a target already
        (reserved(wanted=None), {"member2": 2}, {}),
    ],
)
def test_reservations_stay_for_the_copies_that_are_still_to_be_evicted(
    found: Reserved, placed: dict[str, int], rest: dict[str, int]
) -> None:
    assert {row.cluster: row.replicas for row in found.rest(result(placed))} == rest


ELSEWHERE = ask([cluster("other", room=30)], spec(placement(how=DYNAMIC), replicas=4)).explanation
GONE = "the cluster no longer exists"


@pytest.mark.parametrize(
    ("placed", "message"),
    [
        (RESERVED, ""),
        ({"member3": 1, "member4": 1}, ""),  # scaled down
        ({"member3": 3, "member4": 2}, ""),  # scaled up
        ({"member1": 1, "member2": 1, "member3": 1, "member4": 1}, ""),  # the rest waits for both evictions
        ({"member2": 2, "member3": 2}, ""),  # the rest waits for its eviction
        (
            {"member2": 2, "member3": 1, "other": 1},
            "member3:2, member4:2|member2:2, member3:1, other:1|member3 member4",
        ),
        ({"member3": 2, "other": 2}, "member4:2|member3:2, other:2|member4"),
        ({"member3": 1, "member4": 2, "other": 1}, "member3:2|member3:1, member4:2, other:1|member3"),
        (
            {"member3": 1, "member4": 3, "other": 2},  # scaled up, and yet fewer than reserved
            "member3:2|member3:1, member4:3, other:2|member3",
        ),
        ({"member3": 2, "other": 0}, "member4:2|member3:2, other|member4"),
        ({}, "member3:2, member4:2|no cluster|member3 member4"),
    ],
)
def test_a_refuge_is_replaced_if_a_result_uses_other_clusters_than_those_it_had_to(
    placed: dict[str, int], message: str
) -> None:
    if message:
        had, instead, missed = message.split("|")
        why = "; ".join(f"{name}: {GONE}" for name in missed.split())
        message = f"the eviction had reserved {had}, but the scheduler placed the binding on {instead}. {why}"

    assert reserved().replaced(result(placed), ELSEWHERE) == message


COUNTED = CapacityReservation("counted", str(LEAVES.ref), "member1", 2, made_at=START)  # of a placement
PART = {"member2": 2, "member3": 1}


@pytest.mark.parametrize(
    ("found", "placed", "generation", "writes"),
    [
        (reserved(), {"member2": 2, "member3": 2}, 9, ["Drop member3"]),
        (reserved(), {"member2": 2, "member3": 2}, 10, ["Drop member3", "Save hint 10"]),
        (reserved(), PART, 9, ["Save member3 1"]),
        (reserved(), RESERVED, 9, ["Drop member3", "Drop member4", "Drop hint"]),
        (reserved({}), RESERVED, 9, ["Drop hint"]),
        (reserved(wanted=None), PART, 9, ["Drop member3", "Drop member4"]),
    ],
)
def test_what_a_result_uses_of_a_refuge_is_dropped_and_the_rest_stays_with_its_hint(
    found: Reserved, placed: dict[str, int], generation: int, writes: list[str]
) -> None:
    new = LEAVES.with_meta(generation=generation)

    changes = freed([COUNTED, *found.reservations], found, result(placed), new)

    assert [shown(change) for change in changes] == writes


def shown(change: Save | Drop) -> str:
    row, verb = change.row, type(change).__name__
    if isinstance(row, PlacementHint):
        return f"{verb} hint {row.generation}" if isinstance(change, Save) else "Drop hint"
    assert isinstance(row, CapacityReservation)
    return f"{verb} {row.cluster} {row.replicas}" if isinstance(change, Save) else f"{verb} {row.cluster}"


def test_an_eviction_names_the_clusters_that_it_no_longer_needs() -> None:
    before, now = reserved().reservations, reserved({"member3": 4}).reservations

    assert replaced_text(before, now) == "; instead of member4, which an earlier eviction had reserved"
    assert replaced_text(now, before) == ""


STATIC, COPIES = by_weight(member2=1, member3=1, member4=1), duplicated()


@pytest.mark.parametrize(
    ("where", "on", "again", "hints"),
    [
        (STATIC, "member3", {}, 0),
        (STATIC, "member3", {"again": True}, 1),  # an earlier eviction has left a hint
        (STATIC, "member2", {}, 1),  # another cluster is still to be left
        (COPIES, "member2", {"again": True}, 0),
        (by_room(), "member3", {}, 1),  # the result depends on free capacity
    ],
)
def test_shares_that_need_no_capacity_have_a_hint_only_between_the_evictions_of_a_binding(
    where: Placement, on: str, again: dict[str, bool], hints: int
) -> None:
    one = binding("web", where, on={on: 2}, replicas=4)

    assert len(list(hinted(one, result(RESERVED), **again))) == hints
