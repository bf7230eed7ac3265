"""The origin of a binding: what failovers write into its annotation, and what ends it [recovered-clusters]."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from controlplane.apimachinery.names import BEFORE_FAILOVER_ANNOTATION
from controlplane.eviction.failback import FailbackPlan
from controlplane.eviction.purge import with_partial_task, with_task
from controlplane.kinds.binding import Binding, TargetCluster, manual_placement, origin
from tests.builders.objects import START, binding
from tests.builders.placements import by_room, by_weight
from tests.core.test_failback import EVEN, NOW, away, way


def test_home_is_where_it_was_before_the_first_failover() -> None:
    one = away(EVEN, was={"member1": 3, "member2": 3}, now={"member2": 3, "member3": 3})
    again = with_task(one, "member3", mode="Gracefully", reason="", producer="", message="", now=NOW)
    again = origin.with_departures(again, one, now=NOW)

    known = origin.origin_of(again)

    assert known is not None
    assert known.clusters == {"member1": 3, "member2": 3}
    assert known.left == {"member1": START}
    assert origin.left_clusters(again) == ["member1", origin.ANY]


def test_a_return_ends_the_departure_from_its_cluster_and_the_last_return_removes_the_home() -> None:
    names = {"member1": 1, "member2": 1, "member3": 1}
    one = away(by_room(), was=names, now={"member4": 3}, replicas=3)

    for left in ({"member1", "member3"}, {"member3"}, set()):
        (to,) = set(origin.left_clusters(one)) - left - {origin.ANY}
        found = way(one, to)
        assert isinstance(found, FailbackPlan), found
        one = found.binding.with_spec(graceful_eviction_tasks=())
        assert set(origin.departures(one)) == left
    assert BEFORE_FAILOVER_ANNOTATION not in one.metadata.annotations


def test_only_a_cluster_that_an_eviction_takes_away_is_left() -> None:
    """A target that the scheduler takes away has no task, and a target that gives some of its replicas stays."""
    old = binding("web", EVEN, on={"member1": 3, "member2": 3}, replicas=6)
    scaled = old.with_spec(clusters=(TargetCluster("member1", 3),))
    arguments: Any = {"reason": "FailbackInPart", "producer": "", "message": "", "now": START}

    for new in (scaled, with_partial_task(old, "member1", 2, **arguments)):
        assert origin.with_departures(new, old, now=START) == new


def test_a_failover_keeps_the_other_annotations_of_the_binding() -> None:
    old = binding("web", EVEN, on={"member1": 3}).with_meta(annotations={"team": "shop"})
    new = with_task(old, "member1", mode="Gracefully", reason="", producer="", message="", now=START)

    assert origin.with_departures(new, old, now=START).metadata.annotations["team"] == "shop"


def note(one: Binding) -> str:
    return one.metadata.annotations[BEFORE_FAILOVER_ANNOTATION]


def noted(one: Binding, text: str) -> Binding:
    return one.with_meta(annotations={BEFORE_FAILOVER_ANNOTATION: text})


@pytest.mark.parametrize(
    "edited",
    [
        lambda one: one.with_spec(placement=by_weight(member2=1, member3=1)),
        lambda one: one.with_spec(reschedule_triggered_at=NOW),
        lambda one: manual_placement.with_mark(one.with_spec(clusters=(TargetCluster("member4", 6),)), one),
        lambda one: one.with_spec(clusters=(TargetCluster("member1", 3), TargetCluster("member2", 3))),
        lambda one: noted(one, "not ours"),
        lambda one: noted(one, note(one).replace("T00:00:00Z", "T00:00:00")),
        lambda one: noted(one, note(one).replace('"left":{"member1"', '"left":{"member4"')),
    ],
    ids=[
        "placed by another rule",
        "placed again",
        "placed by hand",
        "back already",
        "no note",
        "no time",
        "none of its home",
    ],
)
def test_it_is_no_home_any_more(edited: Callable[[Binding], Binding]) -> None:
    one = away(EVEN, was={"member1": 3, "member2": 3}, now={"member2": 6})
    assert origin.origin_of(one) is not None

    assert origin.origin_of(edited(one)) is None


@pytest.mark.parametrize("weight", range(2, 8))
def test_a_home_ends_when_a_weight_of_the_placement_changes(weight: int) -> None:
    one = away(by_weight(member1=1, member2=weight), was={"member1": 3, "member2": 3}, now={"member2": 6})

    edited = one.with_spec(placement=by_weight(member1=1, member2=weight + 1))

    assert origin.origin_of(one) is not None
    assert origin.origin_of(edited) is None


@pytest.mark.parametrize("requested_at", [START - timedelta(hours=1), START], ids=["before", "in the same second"])
def test_a_reschedule_that_was_requested_before_the_failover_ends_nothing(requested_at: datetime) -> None:
    one = away(EVEN, was={"member1": 3, "member2": 3}, now={"member2": 6})

    known = origin.origin_of(one.with_spec(reschedule_triggered_at=requested_at))

    assert known is not None
    assert known.left == {"member1": START}


def test_a_new_failover_after_a_return_has_a_new_home() -> None:
    old = away(EVEN, was={"member1": 3, "member2": 3}, now={"member2": 6})
    back = old.with_spec(clusters=(TargetCluster("member1", 2), TargetCluster("member2", 4)))
    again = with_task(back, "member2", mode="Gracefully", reason="", producer="", message="", now=NOW)

    known = origin.origin_of(origin.with_departures(again, back, now=NOW))

    assert known is not None
    assert (known.clusters, known.left) == ({"member1": 2, "member2": 4}, {"member2": NOW})
