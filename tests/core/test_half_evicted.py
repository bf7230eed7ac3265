"""A binding that leaves several lost clusters, one eviction after the other: no step adds replicas on a cluster that is
still to be left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, with_condition
from controlplane.kinds.binding import (
    DRAINED,
    TAINT_UNTOLERATED,
    Binding,
    GracefulEvictionTask,
    ResourceBindingStatus,
    TargetCluster,
)
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.eviction_hold import EvictionHold
from controlplane.kinds.policy import (
    ClusterAffinityTerm,
    Placement,
    ReplicaSchedulingStrategy,
    SpreadConstraint,
    Toleration,
)
from controlplane.kinds.rows import PlacementHint
from controlplane.scheduling.batch import Batch, Item
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.half_evicted import targets_to_leave
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.reserved_refuge import Reserved
from controlplane.scheduling.schedule import Placed, Refused, Verdict
from tests.builders.objects import START, binding, cluster, no_execute
from tests.builders.placements import AGGREGATED, DYNAMIC, EVENLY, by_weight, placement
from tests.builders.scheduling import spec
from tests.builders.steering import hold
from tests.core.fleet_story import FAILOVER, Story

TERMS = [
    ClusterAffinityTerm(affinity_name="primary", cluster_names=("member1", "member2")),
    ClusterAffinityTerm(affinity_name="backup", cluster_names=("member3", "member4", "member5")),
]
ONE_REGION = [
    SpreadConstraint("region", min_groups=1, max_groups=1),
    SpreadConstraint("cluster", min_groups=1, max_groups=2),
]
ON = {"member1": 3, "member2": 3}
BY_ROOM = placement(how=DYNAMIC, groups=TERMS)


def web(where: Placement = BY_ROOM, replicas: int = 6) -> Binding:
    return binding("web", where, on=ON, replicas=replicas, cpu="1")


def member(number: int, room: int = 20) -> Cluster:
    return cluster(f"member{number}", region="own" if number < 3 else "other", room=room)


def lost(number: int) -> Cluster:
    return member(number).with_spec(taints=(no_execute(),))


class Outage:
    """Two clusters with half of a binding each are lost at the same moment."""

    def __init__(self, one: Binding, *holds: EvictionHold, followed: bool = True) -> None:
        members = [member(1), member(2), member(3), member(4)]
        self.story = Story(*members, *holds, one, settings=FAILOVER)
        for controller in () if followed else self.story.controllers:
            controller.followed_by = ()  # type: ignore[misc]
        self.story.pass_seconds(60)
        self.story.members.healthy = False  # so that tasks stay
        for name in ON:
            self.lose(name)
        self.story.work()

    def lose(self, name: str) -> None:
        old = self.story.cluster(name)
        conditions = with_condition(old.status.conditions, Condition("Ready", "False"), now=self.story.now)
        lost = old.with_spec(taints=(no_execute(at=self.story.now),)).with_status(conditions=conditions)
        self.story.store.put(lost, old)

    def scale(self, replicas: int) -> None:
        old = self.story.binding("web")
        self.story.store.put(old.with_spec(replicas=replicas), old)
        self.story.work()

    def steps(self) -> list[dict[str, int]]:
        """Return where the binding is placed in the next 10 seconds."""
        found = [self.story.placed("web")]
        for _ in range(100):
            self.story.pass_seconds(0.1)
            if self.story.placed("web") != found[-1]:
                found.append(self.story.placed("web"))
        return found


@pytest.mark.parametrize("followed", [True, False], ids=["in-one-write", "in-two-writes"])
@pytest.mark.parametrize("how", [DYNAMIC, AGGREGATED, EVENLY], ids=["dynamic", "aggregated", "static"])
def test_the_replicas_of_the_first_cluster_go_to_the_refuge_in_the_next_affinity_term(
    how: ReplicaSchedulingStrategy, followed: bool
) -> None:
    steps = Outage(web(placement(how=how, groups=TERMS)), followed=followed).steps()

    placed = [step for step in steps if sum(step.values()) == 6]
    assert [step.get("member2", 0) for step in placed] == [3, 0]
    assert all(set(step) <= {"member2", "member3", "member4"} for step in placed)


@pytest.mark.parametrize("how", [DYNAMIC, AGGREGATED], ids=["dynamic", "aggregated"])
def test_the_replicas_of_the_first_cluster_go_to_the_refuge_in_another_region(how: ReplicaSchedulingStrategy) -> None:
    members = [f"member{number}" for number in range(1, 5)]

    steps = Outage(web(placement(*members, how=how, spread=ONE_REGION))).steps()

    assert [step.get("member2", 0) for step in steps] == [3, 0]
    assert [sum(step.values()) for step in steps] == [6, 6]


def test_a_hold_on_the_second_cluster_keeps_its_replicas_and_adds_none() -> None:
    outage = Outage(web(), hold("second", clusters=("member2",)))
    outage.story.pass_seconds(700)

    placed = outage.story.placed("web")
    assert placed["member2"] == 3
    assert sum(placed.values()) == 6


# One decision of the scheduler about a binding with the targets LEFT, which has left member1. It is still to be evicted
# from member2, and member3 and member4 are reserved.
LEFT, REFUGE = {"member2": 3}, {"member3": 3, "member4": 3}
LATER = START + timedelta(hours=1)


def decided(
    where: Placement = BY_ROOM,
    *others: Cluster,
    replicas: int = 6,
    on: Mapping[str, int] = LEFT,
    rescheduled_at: datetime | None = None,
    leaving: tuple[str, ...] = ("member2",),
) -> Verdict:
    """Return the verdict on the binding in a fleet of member1, member2 and `others`."""
    fleet = Fleet.of([lost(1), lost(2), *others], settings=FAILOVER)
    wanted = spec(where, replicas=replicas, on=on, reschedule_triggered_at=rescheduled_at)
    status = ResourceBindingStatus(last_scheduled_time=START)
    hint = tuple(TargetCluster(*pair) for pair in REFUGE.items())
    item = Item(wanted, status, hint=hint, left=("member1",), leaving=leaving)
    return Batch(fleet, Ledger(fleet), FAILOVER).place(item)[1]


def shares(verdict: Verdict) -> dict[str, int]:
    assert isinstance(verdict.outcome, Placed)
    return {target.name: target.replicas for target in verdict.outcome.clusters}


def test_another_cluster_replaces_a_refuge_that_is_gone_and_is_reported() -> None:
    verdict = decided(BY_ROOM, member(5))
    old = binding("web", BY_ROOM, on=LEFT, replicas=6)
    hint = PlacementHint(str(old.ref), old.metadata.generation, REFUGE)

    assert shares(verdict) == {"member2": 3, "member5": 3}
    assert isinstance(verdict.outcome, Placed)
    message = Reserved(old, hint, []).replaced(verdict.outcome.clusters, verdict.explanation)
    assert "member3: the cluster no longer exists" in message


def test_too_little_room_elsewhere_is_reported_with_the_part_that_fits() -> None:
    outcome = decided(placement(how=DYNAMIC), member(3, room=1), member(4, room=1)).outcome

    assert isinstance(outcome, Refused)
    assert outcome.reason == "Unschedulable"
    assert outcome.part == tuple(TargetCluster(f"member{number}", 3 if number == 2 else 1) for number in (2, 3, 4))


@pytest.mark.parametrize(
    ("where", "replicas", "rescheduled_at", "placed"),
    [
        (BY_ROOM, 2, None, {"member2": 2}),  # scaled down meanwhile
        (BY_ROOM, 3, None, {"member2": 3}),
        (BY_ROOM, 2, LATER, {"member2": 2}),
        (placement(groups=TERMS), 4, None, {"member2": 4}),  # each copy has all replicas
    ],
)
def test_other_results_stand(
    where: Placement, replicas: int, rescheduled_at: datetime | None, placed: dict[str, int]
) -> None:
    verdict = decided(where, member(3), member(4), replicas=replicas, rescheduled_at=rescheduled_at)

    assert shares(verdict) == placed


@pytest.mark.parametrize(
    ("how", "placed"),
    [
        (DYNAMIC, {"member2": 1, "member3": 3, "member4": 2}),
        (EVENLY, {"member2": 1, "member3": 3, "member4": 2}),
        (AGGREGATED, {"member3": 6}),
    ],
    ids=["dynamic", "static", "aggregated"],
)
def test_a_reschedule_divides_the_replicas_again_and_adds_none_on_a_lost_cluster(
    how: ReplicaSchedulingStrategy, placed: dict[str, int]
) -> None:
    on = {"member2": 1, "member3": 5}

    assert shares(decided(placement(how=how), member(3), member(4), on=on, rescheduled_at=LATER)) == placed


@pytest.mark.parametrize(("replicas", "placed"), [(4, {"member2": 2, "member3": 2}), (6, {"member2": 3, "member3": 3})])
def test_a_cluster_to_be_left_counts_for_a_spread_constraint_and_is_scaled_down_as_the_others(
    replicas: int, placed: dict[str, int]
) -> None:
    on_two = placement(how=DYNAMIC, spread=[SpreadConstraint("cluster", min_groups=2, max_groups=2)])

    assert shares(decided(on_two, member(3), replicas=replicas, on={"member2": 3, "member3": 3})) == placed


@pytest.mark.parametrize("how", [DYNAMIC, AGGREGATED, EVENLY], ids=["dynamic", "aggregated", "static"])
def test_lost_clusters_in_two_terms_with_all_replicas_keep_what_they_have_until_their_evictions(
    how: ReplicaSchedulingStrategy,
) -> None:
    on = {"member2": 3, "member3": 3}

    placed = shares(
        decided(placement(how=how, groups=TERMS), lost(3), member(4), on=on, leaving=("member2", "member3"))
    )

    assert placed == on


@pytest.mark.parametrize("groups", [(), TERMS], ids=["one-term", "two-terms"])
@pytest.mark.parametrize("how", [DYNAMIC, AGGREGATED, EVENLY], ids=["dynamic", "aggregated", "static"])
@pytest.mark.parametrize("on", [{"member2": 1, "member3": 5}, {"member2": 3, "member3": 3}, {"member2": 5}])
def test_a_workload_scaled_down_below_what_lost_clusters_hold_moves_no_replicas_between_them(
    on: dict[str, int], how: ReplicaSchedulingStrategy, groups: Sequence[ClusterAffinityTerm]
) -> None:
    where = placement("member2", "member3", how=how) if not groups else placement(how=how, groups=groups)
    placed = shares(decided(where, lost(3), member(4), replicas=4, on=on, leaving=tuple(on)))

    assert sum(placed.values()) == 4
    assert all(replicas <= on.get(name, replicas) for name, replicas in placed.items())


THREE = {"member2": 1, "member3": 4, "member5": 3}


@pytest.mark.parametrize(
    ("weights", "replicas", "on", "kept"),
    [
        # 2 and 2 by their weights
        ({"member2": 1, "member3": 1}, 4, {"member2": 1, "member3": 5}, {"member2": 1, "member3": 3}),
        # 5, 1 and 1: member3 would lose most and keeps all that it has, member5 keeps the rest
        ({"member2": 5, "member3": 1, "member5": 1}, 7, THREE, {"member2": 1, "member3": 4, "member5": 2}),
        # 2, 2 and 2
        ({"member2": 1, "member3": 1, "member5": 1}, 6, THREE, {"member2": 1, "member3": 3, "member5": 2}),
        # 3, 3 and 1: member5 has less than member3, and would lose more
        ({"member2": 3, "member3": 3, "member5": 1}, 7, THREE, {"member2": 1, "member3": 3, "member5": 3}),
        # 3, 0 and 0: no target is left with no replicas
        (
            {"member2": 9, "member3": 1, "member5": 1},
            3,
            {"member2": 2, "member3": 5, "member5": 1},
            {"member2": 2, "member3": 1},
        ),
    ],
)
def test_lost_clusters_that_would_lose_most_keep_what_the_others_may_not_get(
    weights: dict[str, int], replicas: int, on: dict[str, int], kept: dict[str, int]
) -> None:
    where = by_weight(**weights)

    assert shares(decided(where, lost(3), lost(5), member(4), replicas=replicas, on=on, leaving=tuple(on))) == kept


def test_a_scaled_workload_grows_on_the_refuge_only() -> None:
    placed = shares(decided(BY_ROOM, member(3), member(4), replicas=12, on={**LEFT, "member3": 3}))

    assert placed["member2"] == 3
    assert sum(placed.values()) == 12


@pytest.mark.parametrize("seconds", [60, 600], ids=["reserved", "reservation-expired"])
def test_a_workload_scaled_while_a_hold_keeps_the_second_cluster_grows_on_the_refuge_only(seconds: float) -> None:
    outage = Outage(web(placement(how=DYNAMIC)), hold("second", clusters=("member2",)))
    outage.story.pass_seconds(seconds)

    outage.scale(12)

    assert outage.story.placed("web")["member2"] == 3
    assert sum(outage.story.placed("web").values()) == 12


def test_the_part_that_fits_after_a_scale_up_adds_no_replicas_on_the_cluster_to_be_left() -> None:
    outage = Outage(web(placement(how=DYNAMIC)), hold("second", clusters=("member2",)))
    outage.story.pass_seconds(10)

    outage.scale(500)
    outage.story.pass_seconds(60)

    placed = outage.story.placed("web")
    assert placed["member2"] == 3
    assert sum(placed.values()) > 6


FOR_EVER = Toleration(operator="Exists")
FOR_A_WHILE = Toleration(operator="Exists", toleration_seconds=60)


@pytest.mark.parametrize(
    ("toleration", "left", "leaving"),
    [
        (None, ("member1",), ("member2",)),
        (None, (), ()),  # it has left no cluster, so it is not half-evicted
        (FOR_A_WHILE, ("member1",), ("member2",)),
        (FOR_EVER, ("member1",), ()),
    ],
    ids=["untolerated", "not-evicted-yet", "tolerated-for-a-while", "tolerated"],
)
def test_targets_with_a_taint_that_evicts_the_binding_are_still_to_be_left(
    toleration: Toleration | None, left: tuple[str, ...], leaving: tuple[str, ...]
) -> None:
    tolerations = () if toleration is None else (toleration,)
    where = replace(placement(how=DYNAMIC), cluster_tolerations=tolerations)
    one = binding("web", where, on={**LEFT, "member3": 1, "gone": 1}, replicas=6)
    fleet = Fleet.of([lost(1), lost(2), member(3)], settings=FAILOVER)

    assert targets_to_leave(one, left, fleet) == leaving
    assert targets_to_leave(one, left, Fleet.of([member(2)], settings=FAILOVER)) == ()


@pytest.mark.parametrize(
    ("reasons", "leaving"),
    [((TAINT_UNTOLERATED,), ("member2",)), ((DRAINED, TAINT_UNTOLERATED), ("member2",)), ((DRAINED,), ())],
)
def test_a_binding_whose_departure_is_only_known_from_its_task_is_half_evicted(
    reasons: tuple[str, ...], leaving: tuple[str, ...]
) -> None:
    tasks = tuple(GracefulEvictionTask(f"gone{place}", reason=reason) for place, reason in enumerate(reasons))
    one = binding("web", BY_ROOM, on=LEFT, replicas=6).with_spec(graceful_eviction_tasks=tasks)
    fleet = Fleet.of([lost(1), lost(2), member(3)], settings=FAILOVER)

    assert targets_to_leave(one, (), fleet) == leaving
    assert targets_to_leave(one.with_spec(graceful_eviction_tasks=()), (), fleet) == ()


@pytest.mark.parametrize(
    ("left", "rescheduled_at", "leaving"),
    [
        (("member9",), None, ("member1",)),
        (("member9",), START, ("member1",)),
        (("member9",), LATER, ("member1", "member2")),
        ((), LATER, ()),  # see `divided_again`
    ],
)
def test_a_reschedule_leaves_alone_what_is_on_clusters_that_are_lost_or_silent(
    left: tuple[str, ...], rescheduled_at: datetime | None, leaving: tuple[str, ...]
) -> None:
    silent = member(2).with_status(conditions=(Condition("Ready", "False"),))
    on = {"member1": 1, "member2": 1, "member3": 1, "gone": 1}
    one = binding("web", placement(how=DYNAMIC), on=on, replicas=4).with_status(last_scheduled_time=START)
    one = one.with_spec(reschedule_triggered_at=rescheduled_at)

    assert targets_to_leave(one, left, Fleet.of([lost(1), silent, member(3)], settings=FAILOVER)) == leaving
