"""Replicas that were evicted and wait for a place count in the quotas of their namespace, as pods that no node takes do
[federated-quotas]."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.admission import quota_checks
from controlplane.apimachinery.errors import Forbidden
from controlplane.apimachinery.names import BEFORE_FAILOVER_ANNOTATION
from controlplane.controllers.reads.namespace_quotas import NamespaceQuotas
from controlplane.estimate.quota import changes, counted_replicas
from controlplane.eviction.purge import with_task
from controlplane.kinds.binding import (
    TAINT_UNTOLERATED,
    Binding,
    Component,
    ReplicaRequirements,
    TargetCluster,
    manual_placement,
    origin,
)
from controlplane.kinds.policy import GRACEFULLY, Placement
from controlplane.scheduling import binding_outcome
from controlplane.scheduling.schedule import Refused
from tests.builders.objects import START, binding, policy
from tests.builders.placements import DYNAMIC, placement
from tests.builders.templates import deployment
from tests.core.propagation_story import MEMBERS
from tests.core.test_federated_quotas import ON, QuotaStory, asking, quota
from tests.core.test_quota_paths import Outage
from tests.core.test_refused_requests import requested

HOW = pytest.mark.parametrize("how", [{}, {"how": DYNAMIC}], ids=["duplicated", "divided"])


def leaving(old: Binding, *names: str) -> Binding:
    """Return a binding whose copies on these clusters are evicted, as the controllers of evictions write it."""
    for name in names:
        left = with_task(old, name, mode=GRACEFULLY, reason=TAINT_UNTOLERATED, producer="", message="", now=START)
        old = origin.with_departures(left, old, now=START)
    return old


def other(where: Placement, replicas: int) -> Binding:
    return binding("other", where, replicas=replicas, cpu="1", scheduled=False)


class Waiting(Outage):
    """A workload of four replicas that may run on member1 only, and was evicted from there. The quota is full."""

    def __init__(self, how: dict[str, Any]) -> None:
        super().__init__(binding("web", placement("member1", **how), on={"member1": 4}, replicas=4, cpu="1"), cpu="4")
        self.lose("member1")
        old = self.story.binding("web")
        self.story.store.put(leaving(old, "member1"), old)
        self.story.pass_seconds(10)
        assert self.story.placed("web") == {}

    def used(self) -> int:
        return self.story.store.quota_use(["default"]).get("default", {}).get("cpu", 0)


@HOW
@pytest.mark.parametrize("ended", [False, True], ids=["the task is left", "the task has ended"])
def test_no_other_workload_gets_the_room_of_replicas_that_wait_for_a_place(how: dict[str, Any], *, ended: bool) -> None:
    outage = Waiting(how)
    story = outage.story
    if ended:
        old = story.binding("web")
        story.store.put(old.with_spec(graceful_eviction_tasks=()), old)
    assert outage.used() == 4000

    story.store.create(other(Placement(), 1))
    story.pass_seconds(400)
    assert (story.placed("other"), outage.used()) == ({}, 4000)
    story.untaint("member1")
    story.pass_seconds(400)

    assert (story.placed("web"), story.placed("other")) == ({"member1": 4}, {})
    assert outage.used() == 4000


@HOW
@pytest.mark.parametrize("scaled", [0, 1])
def test_a_workload_that_is_scaled_down_while_it_waits_gives_its_room_to_others(
    how: dict[str, Any], scaled: int
) -> None:
    outage = Waiting(how)

    outage.scale(scaled)

    assert outage.used() == 1000 * scaled
    outage.story.store.create(other(placement("member2"), 4 - scaled))
    outage.story.pass_seconds(10)
    assert outage.story.placed("other") == {"member2": 4 - scaled}


@HOW
def test_replicas_that_are_asked_for_again_after_a_scale_down_are_growth(how: dict[str, Any]) -> None:
    outage = Waiting(how)
    story = outage.story
    outage.scale(1)
    story.store.create(other(placement("member2"), 2))
    story.pass_seconds(10)

    outage.scale(4)
    assert outage.used() == 3000
    story.untaint("member1")
    story.pass_seconds(400)

    assert story.placed("other") == {"member2": 2}
    assert story.placed("web") == {"member1": 1}, "as many as it asked for when the others got their room"
    assert outage.scheduled() == "QuotaExceeded"
    assert outage.used() == 3000


def test_requests_that_are_raised_while_replicas_wait_need_room_in_the_quota() -> None:
    web = deployment(replicas=2)
    story = QuotaStory(*MEMBERS, quota(cpu="3"), policy("all"), web)
    story.place(web, member1=2)
    placed = story.binding(web)
    assert placed is not None
    story.edit(leaving(placed, "member1"))

    story.edit(asking(story.template(web), "2"))

    assert requested(story.binding(web)) == (2, "1")
    assert story.events("ApplyPolicyFailed")


PARTS = (Component("jobs", 1, ReplicaRequirements(resource_request={"cpu": "3"})),)
TWO_COPIES = binding("web", Placement(), on={"member1": 2, "member2": 2}, replicas=2, cpu="1")
IN_SHARES = binding("web", placement(how=DYNAMIC), on={"member1": 3, "member2": 2}, replicas=5, cpu="1")
IN_PARTS = binding("job", Placement(), on={"member1": 0, "member2": 0}, replicas=0).with_spec(components=PARTS)


@pytest.mark.parametrize(
    ("old", "left", "scaled", "counted"),
    [
        (TWO_COPIES, ("member1",), 2, 4),
        (TWO_COPIES, ("member1", "member2"), 2, 4),
        (TWO_COPIES, ("member1", "member2"), 5, 4),  # more is growth
        (TWO_COPIES, ("member1", "member2"), 1, 2),
        (TWO_COPIES, ("member1", "member2"), 0, 0),
        (TWO_COPIES, ("member1",), 1, 2),
        (IN_SHARES, ("member1",), 5, 5),
        (IN_SHARES, ("member1", "member2"), 4, 4),
        (IN_SHARES, ("member1",), 1, 2),  # those placed count in any case
        (IN_SHARES, ("member1", "member2"), 9, 5),
        (IN_PARTS, ("member1",), 0, 2),
        (IN_PARTS, ("member1", "member2"), 0, 2),
    ],
)
def test_what_was_placed_and_is_still_asked_for_counts(
    old: Binding, left: tuple[str, ...], scaled: int, counted: int
) -> None:
    """Those that are asked for again, after the scheduler has found no place for fewer, are growth."""
    one = leaving(old, *left).with_spec(replicas=scaled)
    refused = binding_outcome.refused(one, Refused("NoClusterFit", "none", retry=True), part=None, now=START)

    assert [counted_replicas(each) for each in (one, refused)] == [counted, counted]
    assert changes(one, refused) == {}
    if counted:  # else the result is complete
        assert counted_replicas(refused.with_spec(replicas=9)) == counted


def test_an_eviction_changes_no_use_and_neither_does_the_new_place() -> None:
    left = leaving(IN_SHARES, "member1")
    placed = binding_outcome.as_seen(left, (TargetCluster("member2", 2), TargetCluster("member3", 3)))

    assert changes(IN_SHARES, left) == changes(left, placed) == {}
    assert changes(left, placed.with_spec(clusters=(TargetCluster("member3", 9),))) == {"cpu": 4000}
    assert changes(left, binding_outcome.as_seen(left, left.spec.clusters)) == {"cpu": -3000}
    assert changes(left, None) == {"cpu": -5000}


def test_the_use_follows_every_part_of_a_binding_that_it_depends_on() -> None:
    left = leaving(IN_SHARES, "member1")
    seen = left.with_status(scheduler_observed_generation=left.metadata.generation)
    forgotten = left.with_meta(annotations={"team": "shop"})

    for fewer in (seen, forgotten):
        assert changes(left, fewer) == {"cpu": -3000}
        assert changes(fewer, left) == {"cpu": 3000}
    assert changes(left, left.with_meta(annotations={**left.metadata.annotations, "team": "shop"})) == {}
    stale = left.with_spec(replicas=2)
    assert changes(left, stale) == {"cpu": -3000}


def test_copies_of_a_failover_before_an_upgrade_count_until_the_workload_is_scaled_to_zero() -> None:
    """It is not known how many replicas each of them had."""
    left = leaving(TWO_COPIES, "member1", "member2")
    noted = json.loads(left.metadata.annotations[BEFORE_FAILOVER_ANNOTATION])
    text = json.dumps({key: value for key, value in noted.items() if key != "each"})
    before = left.with_meta(annotations={BEFORE_FAILOVER_ANNOTATION: text})

    assert [counted_replicas(before.with_spec(replicas=number)) for number in (0, 1, 2)] == [0, 4, 4]


def test_what_a_complete_result_does_not_need_is_free_for_the_next_binding_of_the_batch() -> None:
    room = NamespaceQuotas({"default": [quota(cpu="4")]}, {"default": {"cpu": 4000}}).room()
    left, next_one = leaving(TWO_COPIES, "member1", "member2"), other(Placement(), 2)
    placed = binding_outcome.as_seen(left, (TargetCluster("member3", 2),))

    assert room.take(left, placed, reserved=()) is None
    assert room.take(next_one, next_one.with_spec(clusters=(TargetCluster("member3", 2),)), reserved=()) is None


def test_a_person_may_place_waiting_replicas_by_hand_in_a_full_quota_and_no_more() -> None:
    outage = Waiting({"how": DYNAMIC})
    old = outage.story.binding("web")

    def by_hand(replicas: int) -> Binding:
        return manual_placement.with_mark(old.with_spec(clusters=(TargetCluster("member2", replicas),)), old)

    quota_checks.check_binding(outage.story.store, by_hand(4), old, ON)
    with pytest.raises(Forbidden, match="requested: cpu=1, used: cpu=4, limited: cpu=4"):
        quota_checks.check_binding(outage.story.store, by_hand(5), old, ON)
