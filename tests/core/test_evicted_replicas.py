"""How many evicted replicas wait for a place: they are no growth in a quota [federated-quotas]."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.controllers.reads.namespace_quotas import room_in_quota
from controlplane.engine.decision import Decision, Delete
from controlplane.engine.state import Actor
from controlplane.estimate.quota import evicted_replicas, replicas_before, use_of_evicted
from controlplane.eviction.purge import with_task
from controlplane.kinds.binding import (
    APPLICATION_FAILURE,
    DRAINED,
    FAILED_BACK,
    REVERTED,
    TAINT_UNTOLERATED,
    Binding,
    Component,
    GracefulEvictionTask,
    ReplicaRequirements,
    TargetCluster,
    origin,
)
from controlplane.kinds.federated_quota import FederatedResourceQuota
from controlplane.kinds.policy import DIRECTLY, GRACEFULLY, ClusterAffinityTerm, Placement
from controlplane.kinds.rows import CapacityReservation
from tests.builders.objects import START, binding, cluster, leaving
from tests.builders.placements import DYNAMIC, by_room, by_weight, duplicated, placement
from tests.core.fleet_story import Story
from tests.core.test_application_failover import UnhealthyMembers, app, without_refuge
from tests.core.test_federated_quotas import EVERYWHERE, ON, quota
from tests.core.test_quota_paths import Outage

AT = START + timedelta(seconds=60)
BUNDLED = {"MultiplePodTemplatesScheduling": True}
TAINTED = GracefulEvictionTask("member1", replicas=4, reason=TAINT_UNTOLERATED, creation_timestamp=AT)


def evicting(where: Placement = EVERYWHERE, *, result_at: datetime | None = None, **task: Any) -> Binding:
    """Return a binding on member2 with 3 replicas, whose 4 replicas on member1 were evicted AT."""
    one = binding("web", where, on={"member2": 3}, replicas=7, cpu="1")
    one = one.with_spec(graceful_eviction_tasks=(replace(TAINTED, **task),))
    return one.with_status(last_scheduled_time=result_at)


def refuges(*replicas: int, made_at: datetime | None = START) -> list[CapacityReservation]:
    return [
        CapacityReservation(f"key{place}", "web", f"member{place}", number, "", made_at, reserved=True)
        for place, number in enumerate(replicas, 3)
    ]


LATER = AT + timedelta(seconds=1)
WAITING: dict[str, tuple[Binding, list[CapacityReservation], tuple[str, ...], int]] = {
    "no result yet": (evicting(), refuges(4), (), 4),
    "the last result is older": (evicting(result_at=START), refuges(4, made_at=LATER), (), 4),
    "placed again since, and reserved for another eviction": (
        evicting(result_at=LATER),
        refuges(4, made_at=LATER),
        (),
        0,
    ),
    "a result of the same second, and reserved before": (evicting(result_at=AT), refuges(4), (), 4),
    "a result and a reservation of the same second": (
        evicting(result_at=AT),
        refuges(4, made_at=AT + timedelta(seconds=0.9)),
        (),
        4,
    ),
    "reserved at an unknown time": (evicting(result_at=LATER), refuges(4, made_at=None), (), 0),
    "a drained copy": (evicting(reason=DRAINED), refuges(4), (), 4),
    "an unhealthy copy": (evicting(reason=APPLICATION_FAILURE), refuges(4), (), 4),
    "a copy that a failback has replaced": (evicting(reason=FAILED_BACK), refuges(4), (), 0),
    "less is reserved": (evicting(), refuges(1, 2), (), 3),
    "more is reserved, for the next eviction too": (evicting(), refuges(5), ("member2",), 4),
    "less is reserved than the next eviction needs": (evicting(), refuges(1), ("member2",), 1),
    "another cluster is to be left": (evicting(), refuges(4), ("member9",), 4),
}


@pytest.mark.parametrize("case", WAITING)
def test_replicas_that_left_lost_clusters_wait_for_a_place(case: str) -> None:
    one, reserved, leaving, expected = WAITING[case]

    assert evicted_replicas(one, reserved, leaving) == expected
    assert use_of_evicted(one, reserved, leaving) == ({"cpu": expected * 1000} if expected > 0 else {})


@pytest.mark.parametrize(("observed", "waiting"), [(-1, 4), (0, 0), (1, 0)])
@pytest.mark.parametrize("reason", [TAINT_UNTOLERATED, APPLICATION_FAILURE])
def test_the_generation_that_left_says_whether_a_result_of_the_same_second_was_before(
    reason: str, observed: int, waiting: int
) -> None:
    """`observed`: the generation of the last complete result, counted from that which left."""
    old = binding("web", EVERYWHERE, on={"member1": 4, "member2": 3}, replicas=7, cpu="1")
    left = with_task(old, "member1", mode="Gracefully", reason=reason, producer="", message="", now=AT)
    left = origin.with_departures(left, old, now=AT)
    one = left.with_status(last_scheduled_time=AT, scheduler_observed_generation=left.metadata.generation + observed)

    assert evicted_replicas(one, ()) == waiting


@pytest.mark.parametrize("mode", [GRACEFULLY, DIRECTLY])
@pytest.mark.parametrize("others", [True, False], ids=["another cluster", "no other cluster"])
def test_an_unhealthy_copy_is_placed_again_in_a_namespace_over_its_quota(mode: str, others: bool) -> None:
    one = app(mode).with_spec(replica_requirements=ReplicaRequirements(resource_request={"cpu": "1"}))
    if others:
        story = UnhealthyMembers(quota(cpu="1"), one, settings=ON)
        story.report("member1", "Unhealthy")
        story.pass_seconds(62)
    else:
        one = one.with_spec(placement=duplicated("member1", least=1, most=1))
        story = without_refuge(one, "member1", others=(quota(cpu="1"),), settings=ON)
        story.pass_seconds(61)
    assert story.leaving("web") == ([] if others else ["member1"])

    story.report("member1", "Unhealthy" if mode == DIRECTLY else "Healthy")
    story.pass_seconds(ON.graceful_eviction_timeout)

    assert list(story.placed("web").values()) == [2]
    assert story.leaving("web") == []


@pytest.mark.parametrize(("first", "then", "last"), [(6, 3, 4), (3, 6, 6)], ids=["scaled-down", "scaled-up"])
def test_the_replicas_before_the_last_failover_count_and_not_those_before_an_earlier_one(
    first: int, then: int, last: int
) -> None:
    """A part of them is placed at once, which ends the reservations, and the rest later. More is growth."""
    web = binding("web", placement(how=DYNAMIC), on={"member1": first}, replicas=first, cpu="1")
    outage = Outage(web, cpu="9")
    for name in ("member3", "member4"):
        with_room(outage.story, name, 0)
    outage.lose("member1")
    outage.healthy("member2")
    outage.scale(then)
    limit = outage.story.store.objects[quota().ref]
    outage.story.store.put(limit.with_spec(overall={"cpu": "3"}), limit)
    with_room(outage.story, "member3", 1)
    outage.story.ready("member2", "False")
    assert outage.lose("member2") == {"member3": 1}

    if last != then:
        outage.scale(last)
    with_room(outage.story, "member3", 9)
    outage.story.pass_seconds(10)

    assert outage.story.placed("web") == {"member3": then}


@pytest.mark.parametrize("ended", [False, True], ids=["both tasks are left", "the first task has ended"])
def test_replicas_of_two_failovers_that_wait_together_are_counted_together(*, ended: bool) -> None:
    old = binding("web", EVERYWHERE, on={"member1": 4, "member2": 3}, replicas=7, cpu="1")
    for name in ("member1", "member2"):
        left = with_task(old, name, mode="Gracefully", reason=TAINT_UNTOLERATED, producer="", message="", now=AT)
        old = origin.with_departures(left, old, now=AT)
        if ended and name == "member1":
            old = old.with_spec(graceful_eviction_tasks=())

    assert evicted_replicas(old, ()) == 7
    assert evicted_replicas(old.with_spec(clusters=(TargetCluster("member3", 2),)), ()) == 5


@pytest.mark.parametrize("scaled", [4, 6], ids=["as-it-was", "growth"])
@pytest.mark.parametrize("where", [duplicated(least=1, most=1), placement(how=DYNAMIC)], ids=["duplicated", "divided"])
def test_replicas_wait_for_a_place_also_when_the_lost_cluster_is_removed_from_the_fleet(
    where: Placement, scaled: int
) -> None:
    """The task ends with the cluster. The quota was lowered below what runs."""
    web = binding("web", where, on={"member1": 4}, replicas=4, cpu="1")
    outage = Outage(web, cpu="2")
    story = outage.story
    outage.lose("member2", "member3", "member4", "member1")  # no other cluster is left
    old = story.binding("web")
    left = with_task(old, "member1", mode=GRACEFULLY, reason=TAINT_UNTOLERATED, producer="", message="", now=story.now)
    story.store.put(origin.with_departures(left, old, now=story.now), old)
    story.pass_seconds(10)
    assert (story.placed("web"), story.leaving("web")) == ({}, ["member1"])
    story.store.apply([(None, Decision(changes=(Delete(story.cluster("member1")),)))], by=Actor("operator"))
    story.pass_seconds(10)
    assert (story.placed("web"), story.leaving("web")) == ({}, [])
    if scaled != 4:
        outage.scale(scaled)

    story.untaint("member3")
    story.pass_seconds(600)

    assert story.placed("web") == {"member3": 4}


@pytest.mark.parametrize("ended", [False, True], ids=["the task is left", "the task has ended"])
@pytest.mark.parametrize("scaled", [4, 6], ids=["as-it-was", "growth"])
@pytest.mark.parametrize("how", [{}, {"how": DYNAMIC}], ids=["duplicated", "divided"])
def test_replicas_wait_for_a_place_also_when_a_person_lets_them_go_to_other_clusters(
    how: dict[str, Any], scaled: int, *, ended: bool
) -> None:
    """No cluster that the policy names is left, so its edit is what rescues the workload."""
    outage = Outage(binding("web", placement("member1", **how), on={"member1": 4}, replicas=4, cpu="1"), cpu="2")
    story = outage.story
    outage.lose("member1")
    old = story.binding("web")
    left = with_task(old, "member1", mode=GRACEFULLY, reason=TAINT_UNTOLERATED, producer="", message="", now=story.now)
    story.store.put(origin.with_departures(left, old, now=story.now), old)
    story.pass_seconds(10)
    if ended:
        old = story.binding("web")
        story.store.put(old.with_spec(graceful_eviction_tasks=()), old)
    if scaled != 4:
        outage.scale(scaled)

    old = story.binding("web")
    story.store.put(old.with_spec(placement=placement("member1", "member3", **how)), old)
    story.pass_seconds(10)

    assert story.placed("web") == {"member3": 4}


def with_room(story: Story, name: str, room: int) -> None:
    """Let a cluster report how much is free."""
    old = story.cluster(name)
    story.store.put(old.with_status(resource_summary=cluster(name, room=room).status.resource_summary), old)


@pytest.mark.parametrize(("scaled", "limit"), [(2, "2"), (5, "2"), (2, "1")], ids=["as-it-was", "growth", "over-quota"])
@pytest.mark.parametrize("parts", [(), (Component("jobs", 1, ReplicaRequirements(resource_request={"cpu": "2"})),)])
def test_a_copy_that_may_go_to_more_clusters_than_it_was_on_goes_to_as_many(
    scaled: int, limit: str, parts: tuple[Component, ...]
) -> None:
    """The affinity group after the lost one has three clusters."""
    terms = (
        ClusterAffinityTerm(affinity_name="primary", cluster_names=("member1",)),
        ClusterAffinityTerm(affinity_name="backup", cluster_names=("member2", "member3", "member4")),
    )
    web = binding("web", placement(groups=terms), on={"member1": 2}, replicas=2, cpu="1").with_spec(components=parts)
    outage = Outage(web, cpu=limit)
    outage.story.settings = replace(
        outage.story.settings, feature_gates={**outage.story.settings.feature_gates, **BUNDLED}
    )
    if scaled != 2 and not parts:
        outage.scale(scaled)

    placed = outage.lose("member1")

    assert placed == {"member2": 0 if parts else 2}
    assert outage.scheduled() == "QuotaExceeded"


def test_copies_that_stay_are_none_of_those_that_a_failover_makes() -> None:
    """The policy allows three copies, and the quota as many as there were."""
    outage = Outage(binding("web", duplicated(least=2, most=3), on={"member1": 2, "member2": 2}, cpu="1"), cpu="4")

    placed = outage.lose("member1")

    assert placed == {"member2": 2, "member3": 2}
    assert outage.scheduled() == "QuotaExceeded"


def test_an_edited_policy_that_a_quota_refuses_takes_no_copy_away() -> None:
    where = duplicated("member1", "member2")
    outage = Outage(binding("web", where, on={"member1": 2, "member2": 2}, cpu="1"), cpu="4")
    old = outage.story.binding("web")

    outage.story.store.put(old.with_spec(placement=duplicated("member2", "member3", "member4")), old)
    outage.story.pass_seconds(10)

    assert outage.story.placed("web") == {"member1": 2, "member2": 2}
    assert outage.scheduled() == "QuotaExceeded"


def test_the_room_of_a_copy_that_a_quota_allows_is_missing_to_the_next_binding_of_the_batch() -> None:
    terms = (
        ClusterAffinityTerm(affinity_name="primary", cluster_names=("member1",)),
        ClusterAffinityTerm(affinity_name="backup", cluster_names=("member2", "member3")),
    )
    parts = (Component("jobs", 1, ReplicaRequirements(resource_request={"cpu": "2"})),)
    web = binding("web", placement(groups=terms), on={"member1": 2}, priority=1).with_spec(components=parts)
    outage = Outage(web, cpu="2", alone=True)
    story = outage.story
    story.settings = replace(story.settings, feature_gates={**story.settings.feature_gates, **BUNDLED})
    with_room(story, "member2", 2)
    other = binding("other", by_room("member2"), replicas=1, cpu="1", scheduled=False).with_meta(namespace="shop")

    story.store.create(other)
    placed = outage.lose("member1")

    assert placed == {"member2": 0}
    assert story.store.get([other.ref])[other.ref].spec.clusters == ()


@pytest.mark.parametrize("reason", [TAINT_UNTOLERATED, APPLICATION_FAILURE, DRAINED])
@pytest.mark.parametrize(("ready", "placed"), [("False", {"member2": 2}), ("True", {})])
def test_replicas_of_a_cluster_that_is_not_ready_are_placed_as_far_as_they_fit(
    reason: str, ready: str, placed: dict[str, int]
) -> None:
    waits = binding("web", by_room("member1", "member2"), replicas=3, cpu="1", scheduled=False)
    left = waits.with_spec(graceful_eviction_tasks=(leaving("member1", reason=reason, replicas=3),))

    story = Story(cluster("member1", ready=ready, room=0), cluster("member2", room=2), left)

    assert story.placed("web") == placed


def test_sets_of_components_wait_for_a_place_as_replicas_do() -> None:
    parts = (Component("jobs", 1, ReplicaRequirements(resource_request={"cpu": "3"})),)
    one = evicting().with_spec(components=parts)

    assert [evicted_replicas(one, refuges(1, 1), leaving) for leaving in ((), ("member2",))] == [1, 1]
    assert [evicted_replicas(one, refuges(1), leaving) for leaving in ((), ("member2",))] == [1, 1]


@pytest.mark.parametrize(
    ("one", "evicted", "before"),
    [
        (evicting(), 4, 4),  # each copy has all replicas
        (evicting().with_spec(placement=None), 4, 4),
        (evicting().with_spec(graceful_eviction_tasks=()), 4, 3),
        (evicting(by_weight(member1=4, member2=3)), 4, 7),
        (evicting(by_weight(member1=4, member2=3)), 0, 0),
        (evicting(by_weight(member1=4, member2=3)), -1, 0),  # less is reserved than the next eviction needs
        (evicting().with_spec(components=(Component("jobs", 1),)), 4, 0),
    ],
)
def test_the_replicas_before_an_eviction_are_those_that_were_placed(one: Binding, evicted: int, before: int) -> None:
    assert replicas_before(one, evicted) == before


def used(**amounts: str) -> FederatedResourceQuota:
    return quota(cpu="4", memory="1Gi").with_status(overall_used=amounts)


@pytest.mark.parametrize(
    ("old", "new", "more"),
    [
        (None, used(), False),
        (used(), None, True),
        (used(), used().with_meta(deletion_timestamp=START), True),
        (used(), used().with_spec(overall={"cpu": "5"}), True),
        (used(cpu="2"), used(cpu="1900m"), True),
        (used(cpu="2"), used(), True),
        (used(cpu="2", memory="1Mi"), used(cpu="3", memory="1Ki"), True),
        (used(cpu="2"), used(cpu="3"), False),
        (used(cpu="2"), used(cpu="2000m"), False),
        (used(), used(cpu="1"), False),
    ],
)
def test_bindings_that_wait_for_room_are_due_when_a_quota_may_have_more(
    old: FederatedResourceQuota | None, new: FederatedResourceQuota | None, more: bool
) -> None:
    assert list(room_in_quota(old, new)) == ([quota().ref] if more else [])


@pytest.mark.parametrize("reason", [FAILED_BACK, REVERTED])
@pytest.mark.parametrize("before", [True, False], ids=["scaled-before", "scaled-after"])
@pytest.mark.parametrize("where", [duplicated(least=1, most=1), placement(how=DYNAMIC)], ids=["duplicated", "divided"])
def test_a_refused_growth_keeps_no_copy_that_a_failback_or_a_revert_has_replaced(
    where: Placement, reason: str, *, before: bool
) -> None:
    """Their targets are complete as they are: no replica waits for the scheduler."""
    outage = Outage(binding("web", where, on={"member1": 4}, replicas=4, cpu="1"), cpu="5")
    story = outage.story
    for step in ("scale", "return") if before else ("return", "scale"):
        if step == "scale":
            outage.scale(8)
            continue
        old = story.binding("web")
        left = with_task(old, "member1", mode=GRACEFULLY, reason=reason, producer="", message="", now=story.now)
        story.store.put(origin.with_return(left.with_spec(clusters=(TargetCluster("member2", 4),))), old)
        story.work()
    assert (story.placed("web"), story.leaving("web")) == ({"member2": 4}, ["member1"])

    outage.healthy("member2")

    assert (story.placed("web"), story.leaving("web")) == ({"member2": 4}, [])
    assert outage.scheduled() == "QuotaExceeded"
