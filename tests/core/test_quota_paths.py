"""Every way in which a binding gets more replicas asks the quotas of its namespace [federated-quotas].

Writes by users are in tests/api/test_quotas.py, the scheduler and policies in tests/core/test_federated_quotas.py.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, ObjectMeta, Ref, condition, to_seconds
from controlplane.controllers import CONTROLLERS
from controlplane.controllers.failbacks import Failbacks
from controlplane.controllers.federated_quotas import FederatedQuotas
from controlplane.controllers.graceful_eviction import GracefulEviction
from controlplane.controllers.reads.namespace_quotas import NamespaceQuotas
from controlplane.engine import run
from controlplane.engine.controller import Controller
from controlplane.engine.memory import MemoryStore
from controlplane.engine.state import Actor
from controlplane.estimate.quota import changes
from controlplane.eviction.purge import with_partial_task, with_task
from controlplane.kinds import BINDINGS
from controlplane.kinds.binding import (
    DRAINED,
    SCHEDULED,
    AggregatedStatusItem,
    Binding,
    GracefulEvictionTask,
    ReplicaRequirements,
    TargetCluster,
    origin,
)
from controlplane.kinds.cluster import Taint
from controlplane.kinds.failback import FAILBACK, Failback, FailbackSpec
from controlplane.kinds.policy import (
    DIRECTLY,
    GRACEFULLY,
    ApplicationFailoverBehavior,
    DecisionConditions,
    FailoverBehavior,
    Placement,
)
from controlplane.kinds.rows import CapacityReservation
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster, no_execute
from tests.builders.placements import AGGREGATED, DYNAMIC, by_weight, duplicated, placement
from tests.core.desk import pending
from tests.core.fleet_story import FAILOVER, Story
from tests.core.test_failbacks import API_VERSION
from tests.core.test_federated_quotas import EVERYWHERE, ON, QuotaDesk, quota

# Why no write of a controller exceeds a quota.
ASKS, TAKES_AWAY, NO_TARGETS = "asks", "takes away", "writes no targets"
WRITERS_OF_CLUSTERS = {
    "scheduler": ASKS,
    "failbacks": ASKS,
    "graceful_eviction": ASKS,
    "evictions": TAKES_AWAY,
    "drains": TAKES_AWAY,
    "application_failover": TAKES_AWAY,
    "policies": ASKS,
    "dependencies": NO_TARGETS,  # its bindings have spec.requiredBy
}


class Place:
    """A store with one controller and the controller of quotas, and a clock moved by hand."""

    def __init__(self, controller: Controller, *objects: Any, settings: Settings = ON) -> None:
        self.now, self.settings = START + timedelta(hours=1), settings
        self.controllers = [controller, FederatedQuotas()]
        self.store = MemoryStore(controllers=self.controllers, clock=lambda: self.now)
        self.store.create(*objects)

    def work(self, *, seconds: float = 0.0) -> None:
        failures: list[run.Failure] = []
        self.now += timedelta(seconds=seconds)
        run.run_until_idle(self.controllers, self.store, self.settings, world=run.World(report=failures.append))
        assert not failures, failures[0].trace

    def get(self, ref: Ref) -> Any:
        return self.store.get([ref])[ref]

    def places(self, one: Binding) -> dict[str, int]:
        return {target.name: target.replicas for target in self.get(one.ref).spec.clusters}

    def use_up(self, other: Binding) -> None:
        self.store.create(other)


def test_every_controller_that_writes_targets_is_known_to_ask_quotas_or_to_take_targets_away() -> None:
    writing = {
        controller.name
        for controller in CONTROLLERS
        if any({"spec.clusters", "spec", "*", "create"} & set(controller.owns.kinds.get(kind, ())) for kind in BINDINGS)
    }

    assert writing == set(WRITERS_OF_CLUSTERS)


def evicted() -> Binding:
    """Return a binding whose two replicas left member1, and for which the scheduler found no other cluster."""
    one = binding("web", EVERYWHERE, replicas=2, cpu="1").with_spec(
        graceful_eviction_tasks=(
            GracefulEvictionTask(
                "member1", "Gracefully", replicas=2, reason="TaintUntolerated", creation_timestamp=START
            ),
        )
    )
    return one.with_status(conditions=(Condition(SCHEDULED, "False", "NoClusterFit", observed_generation=9),))


def taken(replicas: int) -> Binding:
    """Return another binding of the namespace, whose replicas request one cpu each."""
    return binding("other", EVERYWHERE, on={"member2": replicas}, replicas=replicas, cpu="1")


def test_a_recovered_cluster_gets_its_copies_back_only_while_the_quota_has_room() -> None:
    place = Place(GracefulEviction(), cluster("member1"), cluster("member2"), quota(cpu="3"), taken(2), evicted())

    place.work()
    place.work(seconds=2)
    assert place.places(evicted()) == {}
    assert [task.from_cluster for task in place.get(evicted().ref).spec.graceful_eviction_tasks] == ["member1"]
    (event,) = [one for one in place.store.list("Event") if getattr(one, "reason", "") == "CopyNotRestored"]
    assert "exceeded quota: team, requested: cpu=2, used: cpu=2, limited: cpu=3" in event.message  # type: ignore[attr-defined]

    place.store.put(place.get(taken(2).ref).with_spec(clusters=(TargetCluster("member2", 1),)), place.get(taken(2).ref))
    place.work(seconds=61)
    assert place.places(evicted()) == {"member1": 2}
    assert place.get(evicted().ref).spec.graceful_eviction_tasks == ()


def test_a_recovered_cluster_gets_its_copies_back_while_quotas_are_not_enforced() -> None:
    place = Place(
        GracefulEviction(), cluster("member1"), cluster("member2"), quota(cpu="1"), evicted(), settings=Settings()
    )

    place.work()
    place.work(seconds=2)

    assert place.places(evicted()) == {"member1": 2}


def away(*names: str, most: int) -> Binding:
    """Return a binding that has left home, of which a failback makes `most` copies of two cpu each."""
    old = binding("web", duplicated(*names, least=1, most=most), on={"home": 2}, cpu="1")
    left = with_task(old, "home", mode="Gracefully", reason="", producer="", message="", now=START)
    gone = origin.with_departures(left, old, now=START)
    return gone.with_spec(clusters=(TargetCluster("spare", 2),), graceful_eviction_tasks=())


def going_back(one: Binding, *objects: Any, cpu: str = "3") -> Place:
    asked = Failback(API_VERSION, "Failback", ObjectMeta(name="back"), FailbackSpec("home", rate=100))
    return Place(Failbacks(), cluster("home"), cluster("spare"), quota(cpu=cpu), one, asked, *objects)


def test_a_failback_that_would_exceed_a_quota_stays_with_the_reason_until_there_is_room() -> None:
    one = away("home", "spare", most=2)
    place = going_back(one)
    place.work()
    place.work(seconds=2)

    status = place.get(Ref(FAILBACK, "", "back")).status
    assert place.places(one) == {"spare": 2}
    assert [(staying.cluster, staying.message) for staying in status.cannot_return] == [
        ("home", "exceeded quota: team, requested: cpu=2, used: cpu=2, limited: cpu=3")
    ]

    live = place.get(quota().ref)
    place.store.put(live.with_spec(overall={"cpu": "4"}), live)
    place.work(seconds=10)
    assert place.places(one) == {"home": 2, "spare": 2}


def test_a_failback_that_requests_no_more_than_before_needs_no_room() -> None:
    one = away("home", "spare", most=1)
    place = going_back(one, cpu="2")

    place.work()
    place.work(seconds=2)

    assert place.places(one) == {"home": 2}


@pytest.mark.parametrize("path", ["failback", "restored"])
def test_room_that_another_write_takes_meanwhile_is_missed_under_the_write_lock(path: str) -> None:
    one = away("home", "spare", most=2) if path == "failback" else evicted()
    if path == "failback":
        place, controller = going_back(one, cpu="4"), Failbacks()
        place.work()
        key = Ref(FAILBACK, "", "back")
    else:
        place, controller = Place(GracefulEviction(), cluster("member1"), quota(cpu="2"), one), GracefulEviction()  # type: ignore[assignment]
        key = one.ref
    (snapshot,) = controller.load(place.store, [key])
    decision = controller.decide(snapshot, ON, now=place.now + timedelta(seconds=2))  # type: ignore[arg-type]
    decided = (decision, *decision.separate_decisions)
    assert any(each.quota_guards for each in decided)

    place.use_up(taken(1))
    outcomes = place.store.apply([(None, each) for each in decided], by=Actor(controller.name))

    assert any(outcome.lost for outcome in outcomes)
    assert "home" not in place.places(one)
    assert "member1" not in place.places(one)


def test_what_evictions_write_requests_no_more_than_before() -> None:
    """Purge, drain, unjoin and application failover write targets with these two functions only."""
    old = binding("web", by_weight(a=1, b=1), on={"a": 2, "b": 3}, replicas=5, cpu="1")
    arguments: Any = {"reason": "", "producer": "", "message": "", "now": START}

    assert changes(old, with_task(old, "a", mode="Gracefully", **arguments)) == {"cpu": -2000}
    assert changes(old, with_partial_task(old, "b", 2, **arguments)) == {"cpu": -2000}


def test_an_evicted_copy_finds_its_new_place_in_a_full_quota_and_no_other_workload_gets_its_room() -> None:
    desk = QuotaDesk(cluster("a"), cluster("b"), quota(cpu="2"), pending("web", EVERYWHERE, replicas=1))
    assert desk.places("web") == {"a": 1, "b": 1}
    task = GracefulEvictionTask("a", "Gracefully", replicas=1, reason="TaintUntolerated", creation_timestamp=START)

    desk.store.create(cluster("c"), pending("other", by_weight(b=1)))
    desk.change(desk.cluster("a").with_spec(taints=(Taint("failed", "NoExecute", time_added=START),)))
    desk.change(desk.binding("web").with_spec(clusters=(TargetCluster("b", 1),), graceful_eviction_tasks=(task,)))

    assert desk.places("web") == {"b": 1, "c": 1}
    assert (desk.places("other"), desk.said("other")[1]) == ({}, "QuotaExceeded")
    assert desk.used() == {"cpu": "2"}


@pytest.mark.parametrize("trigger", ["new cluster", "rebalancer", "failed affinity"])
def test_what_triggers_the_scheduler_places_no_more_than_the_quota_has_room_for(trigger: str) -> None:
    desk = QuotaDesk(cluster("a"), quota(cpu="2"), pending("web", duplicated(), replicas=2))
    assert desk.places("web") == {"a": 2}

    if trigger != "new cluster":
        desk.store.create(cluster("b"))
        desk.settle()
    if trigger == "rebalancer":
        desk.wait(1)
        desk.change(desk.binding("web").with_spec(reschedule_triggered_at=to_seconds(desk.now)))
    elif trigger == "failed affinity":
        desk.change(desk.binding("web").with_spec(placement=duplicated("a", "b")))
    else:
        desk.store.create(cluster("b"))
        desk.settle()

    assert desk.places("web") == {"a": 2}
    assert desk.said("web") == ("False", "QuotaExceeded")


class Outage:
    """Four clusters in a namespace with a quota, some of which are lost."""

    def __init__(self, web: Binding, *, cpu: str, alone: bool = False) -> None:
        gates = {**FAILOVER.feature_gates, "FederatedQuotaEnforcement": True}
        settings = replace(FAILOVER, feature_gates=gates)
        members = [cluster(f"member{n}", room=20) for n in range(1, 5)]
        self.story = Story(*members, quota(cpu=cpu), web, settings=settings)
        for controller in self.story.controllers if alone else ():
            controller.followed_by = ()
        self.story.members.healthy = False  # so that tasks stay
        self.story.pass_seconds(60)  # the bucket holds tokens then

    def scale(self, replicas: int) -> None:
        old = self.story.binding("web")
        self.story.store.put(old.with_spec(replicas=replicas), old)
        self.story.work()

    def lose(self, *names: str, seconds: float = 10) -> dict[str, int]:
        """Return where the binding is placed some time after these clusters are lost."""
        for name in names:
            self.story.taint(name, no_execute(at=self.story.now))
        self.story.pass_seconds(seconds)
        return self.story.placed("web")

    def healthy(self, *names: str) -> None:
        """Let members report that the copies are healthy, and nothing else."""
        old = self.story.binding("web")
        items = tuple(AggregatedStatusItem(name, applied=True, health="Healthy") for name in names)
        self.story.store.put(old.with_status(aggregated_status=items), old)
        self.story.pass_seconds(10)

    def scheduled(self) -> str:
        found = condition(self.story.binding("web").status.conditions, SCHEDULED)
        return "" if found is None else found.reason


IN_WRITES = pytest.mark.parametrize("alone", [False, True], ids=["in-one-write", "in-two-writes"])
ONE_COPY = duplicated(least=1, most=1)


@IN_WRITES
@pytest.mark.parametrize("where", [ONE_COPY, placement(how=DYNAMIC)], ids=["duplicated", "divided"])
def test_a_failover_in_a_namespace_over_its_quota_moves_the_copies(where: Placement, alone: bool) -> None:
    """Its use does not grow, although the evicted copy does not count until it is placed again."""
    outage = Outage(binding("web", where, on={"member1": 4}, replicas=4, cpu="1"), cpu="2", alone=alone)

    placed = outage.lose("member1")

    assert sum(placed.values()) == 4
    assert "member1" not in placed


@IN_WRITES
@pytest.mark.parametrize("where", [ONE_COPY, placement(how=DYNAMIC)], ids=["duplicated", "divided"])
def test_a_failover_moves_the_replicas_of_a_workload_whose_growth_a_quota_refuses(
    where: Placement, alone: bool
) -> None:
    outage = Outage(binding("web", where, on={"member1": 4}, replicas=4, cpu="1"), cpu="4", alone=alone)
    outage.scale(8)
    assert outage.story.placed("web") == {"member1": 4}

    placed = outage.lose("member1")

    assert sum(placed.values()) == 4
    assert "member1" not in placed
    assert outage.scheduled() == "QuotaExceeded"


def test_a_second_failover_of_a_workload_whose_growth_a_quota_refuses_moves_as_many_replicas() -> None:
    """The task of the first eviction is still there, but its replicas are placed again."""
    web = binding("web", placement(how=AGGREGATED), on={"member1": 1, "member2": 3}, replicas=4, cpu="1")
    outage = Outage(web, cpu="4")
    outage.healthy()  # so that the first task stays
    outage.scale(8)

    first = outage.lose("member1")
    second = outage.lose("member2", *first)

    assert sum(first.values()) == sum(second.values()) == 4
    assert outage.story.leaving("web")[0] == "member1"


@pytest.mark.parametrize("before", [True, False], ids=["scaled-before", "scaled-after"])
@pytest.mark.parametrize("where", [ONE_COPY, placement(how=AGGREGATED)], ids=["duplicated", "divided"])
def test_a_refused_growth_keeps_no_old_copy_beside_the_new_ones(where: Placement, before: bool) -> None:
    """Neither while the cluster is lost, nor when it recovers: the task has a new placement and runs to its end."""
    outage = Outage(binding("web", where, on={"member1": 4}, replicas=4, cpu="1"), cpu="5")
    for step in ("scale", "lose") if before else ("lose", "scale"):
        outage.scale(8) if step == "scale" else outage.lose("member1")
    placed = outage.story.placed("web")
    assert outage.story.leaving("web") == ["member1"]

    outage.story.untaint("member1")
    outage.story.pass_seconds(60)
    assert outage.story.leaving("web") == ["member1"]
    outage.healthy(*placed)

    assert (outage.story.leaving("web"), outage.story.placed("web")) == ([], placed)
    assert outage.scheduled() == "QuotaExceeded"
    assert outage.story.events("CopyNotRestored") == []


def test_replicas_that_are_not_placed_again_keep_the_old_copy_although_all_targets_are_healthy() -> None:
    web = binding("web", placement("member1", "member2", how=DYNAMIC), on={"member1": 4, "member2": 2}, replicas=6)
    outage = Outage(web.with_spec(replica_requirements=ReplicaRequirements(resource_request={"cpu": "8"})), cpu="48")
    outage.story.ready("member1", "False")

    outage.lose("member1")
    outage.healthy("member2")

    assert sum(outage.story.placed("web").values()) < 6
    assert outage.story.leaving("web") == ["member1"]


def test_growth_between_two_evictions_of_a_binding_needs_room_in_the_quota() -> None:
    """What is reserved for the second eviction, and the task of the first one, are no room for growth."""
    web = binding("web", placement(how=DYNAMIC), on={"member1": 3, "member2": 3}, replicas=6, cpu="1")
    outage = Outage(web, cpu="6")
    outage.lose("member1", "member2", seconds=0.5)

    outage.scale(9)
    assert sum(outage.story.placed("web").values()) == 6
    outage.story.pass_seconds(10)

    placed = outage.story.placed("web")
    assert not {"member1", "member2"} & set(placed)
    assert sum(placed.values()) == 6
    assert outage.scheduled() == "QuotaExceeded"


@pytest.mark.parametrize("mode", [GRACEFULLY, DIRECTLY])
@pytest.mark.parametrize("where", [ONE_COPY, placement(how=DYNAMIC)], ids=["duplicated", "divided"])
def test_an_unhealthy_copy_in_a_namespace_over_its_quota_is_placed_again(where: Placement, mode: str) -> None:
    grace = 120 if mode == GRACEFULLY else None
    behaviour = ApplicationFailoverBehavior(DecisionConditions(5), mode, grace)
    web = binding("web", where, on={"member1": 4}, replicas=4, cpu="1")
    web = web.with_spec(failover=FailoverBehavior(application=behaviour), propagate_deps=True)
    unhealthy = AggregatedStatusItem("member1", applied=True, health="Unhealthy")

    outage = Outage(web.with_status(aggregated_status=(unhealthy,)), cpu="2")

    assert sum(outage.story.placed("web").values()) == 4
    assert "member1" not in outage.story.placed("web")


def test_a_drained_copy_in_a_namespace_over_its_quota_is_placed_again() -> None:
    web = binding("web", ONE_COPY, on={"member1": 4}, replicas=4, cpu="1")
    outage = Outage(web, cpu="2")
    left = with_task(web, "member1", mode=DIRECTLY, reason=DRAINED, producer="", message="", now=outage.story.now)

    old = outage.story.binding("web")
    departed = origin.with_departures(
        old.with_spec(clusters=(), graceful_eviction_tasks=left.spec.graceful_eviction_tasks), old, now=outage.story.now
    )
    outage.story.store.put(departed, old)
    outage.story.work()

    assert sum(outage.story.placed("web").values()) == 4
    assert "member1" not in outage.story.placed("web")


@pytest.mark.parametrize("room", [4, 5])
def test_the_first_eviction_of_a_binding_moves_its_replicas_if_there_is_no_room_for_the_second(room: int) -> None:
    """What the eviction has reserved is less than the replicas that are still to leave the other lost cluster."""
    gates = {**FAILOVER.feature_gates, "FederatedQuotaEnforcement": True}
    lost = [cluster(name, ready="False", taints=[no_execute()]) for name in ("member1", "member2")]
    full = [cluster(name, room=0) for name in ("member4", "member5", "member6")]
    web = binding("web", placement(how=DYNAMIC), on={"member1": 4, "member2": 4}, replicas=8, cpu="1")
    story = Story(
        *(*lost, cluster("member3", room=room), *full, quota(cpu="2"), web),
        settings=replace(FAILOVER, feature_gates=gates),
    )
    story.members.healthy = False  # so that tasks stay

    while not story.leaving("web"):
        story.pass_seconds(0.5)

    assert len(story.leaving("web")) == 1
    assert story.placed("web")["member3"] == 4


def test_replicas_that_find_no_room_at_once_are_placed_later_in_a_namespace_over_its_quota() -> None:
    """The first part of them, which was placed, has ended the reservations."""
    gates = {**FAILOVER.feature_gates, "FederatedQuotaEnforcement": True}
    full = [cluster(name, room=0) for name in ("member3", "member4")]
    web = binding("web", placement(how=DYNAMIC), on={"member1": 4}, replicas=4, cpu="1")
    story = Story(
        *(cluster("member1", ready="False", taints=[no_execute()]), cluster("member2", room=2), *full),
        *(quota(cpu="2"), web),
        settings=replace(FAILOVER, feature_gates=gates),
    )
    story.members.healthy = False  # so that the task stays
    while not story.leaving("web"):
        story.pass_seconds(0.5)
    assert story.placed("web") == {"member2": 2}

    old = story.cluster("member3")
    story.store.put(old.with_status(resource_summary=cluster("member3", room=9).status.resource_summary), old)
    story.pass_seconds(120)

    assert story.placed("web") == {"member2": 2, "member3": 2}


@pytest.mark.parametrize(("evicted", "room"), [(4, 3), (4, 6), (2, 3)])
def test_a_part_of_the_replicas_that_fits_needs_room_in_the_quota(evicted: int, room: int) -> None:
    """A user asks for 8 replicas while the evicted ones still have no place, or have got one. `room`: on member2."""
    web = binding("web", placement(how=DYNAMIC), on={"member1": evicted}, replicas=evicted, cpu="1")
    outage = Outage(web, cpu=str(evicted))
    for name, cpu in (("member2", room), ("member3", 0), ("member4", 0)):
        old = outage.story.cluster(name)
        outage.story.store.put(old.with_status(resource_summary=cluster(name, room=cpu).status.resource_summary), old)
    outage.story.ready("member1", "False")
    outage.lose("member1")

    outage.scale(8)

    assert outage.story.placed("web") == {"member2": min(evicted, room)}
    assert outage.scheduled() in ("QuotaExceeded", "Unschedulable")


@pytest.mark.parametrize(("replicas", "fits"), [(4, True), (5, False)])
def test_more_replicas_than_were_evicted_are_growth(replicas: int, fits: bool) -> None:
    task = GracefulEvictionTask("member1", replicas=4, reason="TaintUntolerated", creation_timestamp=START)
    before = binding("web", EVERYWHERE, replicas=replicas, cpu="1").with_spec(graceful_eviction_tasks=(task,))
    after = before.with_spec(clusters=(TargetCluster("member2", replicas),))
    reserved = [CapacityReservation("key", str(before.ref), "member2", replicas, "", START, reserved=True)]
    room = NamespaceQuotas({"default": [quota(cpu="2")]}, {}).room()

    assert (room.take(before, after, reserved=reserved) is None) == fits
    assert (room.guards(before, after, reserved=reserved) == ()) == fits
    assert room.take(before, after) is not None  # a task without a reservation, as after its use
