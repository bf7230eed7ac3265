"""Room that an eviction found is kept for it until the scheduler has placed the binding again."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controlplane.controllers.scheduler import Scheduler
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import ResourceSummary, Taint
from controlplane.kinds.policy import Placement, ReplicaSchedulingStrategy, SpreadConstraint
from controlplane.kinds.rows import CapacityReservation, Eviction, PlacementHint
from controlplane.scheduling.trigger import APPLIED_PLACEMENT, applied_text
from controlplane.settings import Settings
from tests.builders.objects import binding, cluster, no_execute
from tests.builders.placements import by_room, duplicated
from tests.core.fleet_story import FAILOVER, Story


class Late:
    """A fleet whose scheduler has much else to do: it runs when a test says."""

    def __init__(self, *bindings: Binding, slots: int) -> None:
        full = [cluster(f"member{number}", taints=[FULL]) for number in range(3, 9)]
        self.story = Story(cluster("member1"), cluster("member2", room=slots), *full, *bindings)
        self.everybody = self.story.controllers
        self.story.controllers = [one for one in self.everybody if not isinstance(one, Scheduler)]

    def schedule(self) -> None:
        self.story.controllers = self.everybody
        self.story.work()

    def reserved(self) -> dict[tuple[str, str], int]:
        rows = self.story.store.rows(CapacityReservation, "cluster", ["member1", "member2", "member3"]).values()
        return {
            (row.binding.rpartition("/")[2], row.cluster): row.replicas
            for found in rows
            for row in found
            if row.reserved
        }


FULL = Taint("full", "NoSchedule")


def web(name: str = "web", **on: int) -> Binding:
    where = on or {"member1": 2}
    return binding(name, by_room("member1", "member2", "member3"), on=where, replicas=sum(where.values()))


def test_room_for_one_lets_one_leave_however_late_the_scheduler_is() -> None:
    late = Late(web(), web("api"), slots=2)
    late.story.taint("member1", no_execute())

    late.story.pass_seconds(20)

    assert late.reserved() == {("api-deployment", "member2"): 2}
    assert (late.story.leaving("api"), late.story.leaving("web")) == (["member1"], [])
    held = late.story.store.rows(Eviction, "state", ["Held"])["Held"]
    assert [row.reason for row in held] == ["NoRefuge"]

    late.schedule()

    assert (late.story.placed("api"), late.story.placed("web")) == ({"member2": 2}, {"member1": 2})
    assert late.reserved() == {}


def test_a_binding_is_not_in_its_own_way() -> None:
    """Its second copy leaves before the scheduler has placed the first one again."""
    late = Late(web(member1=1, member3=1), slots=2)
    for name in ("member1", "member3"):
        late.story.taint(name, no_execute())

    late.story.pass_seconds(20)
    assert late.story.leaving("web") == ["member1", "member3"]

    late.schedule()

    assert late.story.placed("web") == {"member2": 2}
    assert late.reserved() == {}


def test_what_is_reserved_is_given_back_where_nothing_comes_of_it() -> None:
    late = Late(web(), slots=2)
    late.story.taint("member1", no_execute())
    late.story.pass_seconds(20)
    assert late.reserved() == {("web-deployment", "member2"): 2}

    late.story.taint("member2", FULL)
    late.schedule()

    assert (late.story.placed("web"), late.reserved()) == ({}, {})


def test_a_reservation_does_not_count_against_the_binding_itself() -> None:
    """Two more replicas on a cluster that has two: four are reserved there in the end, not six."""
    late = Late(web(member1=2, member2=2), slots=10)
    late.story.taint("member1", no_execute())
    late.story.pass_seconds(20)
    assert late.reserved() == {("web-deployment", "member2"): 2}

    late.schedule()

    assert late.story.placed("web") == {"member2": 4}
    (row,) = late.story.store.rows(CapacityReservation, "cluster", ["member2"])["member2"]
    assert (row.replicas, row.reserved) == (2, False)


SIX = [f"member{number}" for number in range(1, 7)]
TWO = (SpreadConstraint("cluster", min_groups=2, max_groups=2),)
FEWEST = replace(by_room(*SIX), replica_scheduling=ReplicaSchedulingStrategy("Divided", "Aggregated"))
CHOICES = {
    "copies": duplicated(*SIX, least=2, most=2),
    "by room": by_room(*SIX),
    "by room on two": replace(by_room(*SIX), spread_constraints=TWO),
    "on the fewest": FEWEST,
}
AT_ONCE = replace(FAILOVER, eviction=replace(FAILOVER.eviction, bucket_scope="Cluster"))  # a token for each cluster


class TwoLost:
    """A binding with a copy on member1 and on member2, which are both lost; its scheduler runs when a test says."""

    def __init__(self, placement: Placement, *others: Binding, settings: Settings = FAILOVER, **slots: int) -> None:
        given = {"member3": 10, "member4": 10, "member5": 9, "member6": 9, **slots}
        count = 2 if placement.divided else 1
        web = binding("web", placement, on={"member1": 1, "member2": 1}, replicas=count)
        web = web.with_meta(annotations={APPLIED_PLACEMENT: applied_text(placement)})
        fleet = [cluster(name, room=given.get(name, 50)) for name in SIX]
        self.story = Story(*fleet, web, *others, settings=settings)
        self.everybody = self.story.controllers
        self.story.controllers = [one for one in self.everybody if not isinstance(one, Scheduler)]
        for name in ("member1", "member2"):
            old = self.story.cluster(name)
            self.story.store.put(old.with_spec(taints=(no_execute(at=self.story.now),)), old)

    def evict(self, *names: str) -> None:
        """Let time pass until the binding has left these clusters."""
        for _ in range(20):
            if self.story.placed("web").keys().isdisjoint(names):
                break
            self.story.pass_seconds(0.5)
        assert {"member1", "member2"} - self.story.placed("web").keys() == set(names)

    def schedule(self) -> None:
        """Let the scheduler work, and no other controller."""
        whole, self.story.controllers = self.story.controllers, [Scheduler()]
        self.story.work()
        self.story.controllers = whole

    def named(self) -> list[set[str]]:
        """Return the clusters that each eviction's Event named, in the order of the evictions."""
        found = [
            one for one in self.story.events("EvictWorkloadFromClusterSucceed") if "Binding" in one.involved_object.kind
        ]
        return [{name for name in SIX if name in one.message.partition(";")[2]} for one in found]

    def replaced(self) -> list[str]:
        found = self.story.events("EvictionRefugeReplaced")
        return sorted(one.message for one in found if "Binding" in one.involved_object.kind)

    def reserved(self) -> dict[str, int]:
        rows = self.story.store.rows(CapacityReservation, "binding", [str(self.story.binding("web").ref)]).values()
        return {row.cluster: row.replicas for found in rows for row in found if row.reserved}

    def slots(self, name: str, count: int) -> None:
        old = self.story.cluster(name)
        summary = ResourceSummary(allocatable={"pods": str(count)})
        self.story.store.put(old.with_status(resource_summary=summary), old)


@pytest.mark.parametrize("choice", CHOICES)
def test_two_evictions_of_a_binding_in_one_look_have_one_refuge(choice: str) -> None:
    """The room that the first of them reserves is not missing for the second."""
    lost = TwoLost(CHOICES[choice], settings=AT_ONCE, member3=2, member4=2, member5=0, member6=0)

    lost.evict("member1", "member2")

    first, second = lost.named()
    assert first == second == lost.reserved().keys()
    lost.schedule()
    assert lost.story.placed("web").keys() == first
    assert (lost.reserved(), lost.replaced()) == ({}, [])


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("settings", [FAILOVER, AT_ONCE], ids=["one after the other", "at once"])
def test_what_an_eviction_named_is_taken_although_others_have_more_room_by_then(
    choice: str, settings: Settings
) -> None:
    lost = TwoLost(CHOICES[choice], settings=settings)
    lost.evict("member1", "member2")
    lost.slots("member5", 40)
    lost.slots("member6", 40)

    lost.schedule()

    assert [lost.story.placed("web").keys()] * 2 == lost.named()
    assert lost.replaced() == []


@pytest.mark.parametrize("choice", ["copies", "by room", "by room on two"])
def test_what_was_named_stays_reserved_until_the_second_eviction_has_its_token(choice: str) -> None:
    """The scheduler places the first copy meanwhile, and other workloads take the room that is free."""
    lost = TwoLost(CHOICES[choice], member3=1, member4=1, member5=0, member6=0)
    lost.evict("member1")
    assert lost.reserved() == {"member3": 1, "member4": 1}

    lost.schedule()
    (first,) = lost.story.placed("web").keys() - {"member2"}
    (other,) = {"member3", "member4"} - {first}
    assert lost.reserved() == {other: 1}
    lost.story.store.create(binding("late", by_room("member3", "member4"), on={}, replicas=1))
    lost.schedule()
    assert lost.story.placed("late") == {}

    lost.evict("member1", "member2")
    lost.schedule()
    assert lost.story.placed("web") == {"member3": 1, "member4": 1}
    assert lost.named() == [{"member3", "member4"}] * 2
    assert (lost.reserved(), lost.replaced()) == ({}, [])
    assert lost.story.store.rows(PlacementHint, "key", [str(lost.story.binding("web").ref)]) == {}


def test_a_refuge_is_taken_although_a_task_of_the_binding_ended_meanwhile() -> None:
    """Ending a task raises the generation; what the eviction found is as good as before."""
    lost = TwoLost(CHOICES["copies"])
    lost.evict("member1", "member2")
    old = lost.story.binding("web")
    lost.story.store.put(old.with_spec(graceful_eviction_tasks=old.spec.graceful_eviction_tasks[1:]), old)
    lost.slots("member5", 40)

    lost.schedule()

    assert lost.story.placed("web").keys() == lost.named()[-1]


def test_what_replaces_a_reserved_refuge_is_reported_with_the_reason() -> None:
    lost = TwoLost(CHOICES["copies"])
    lost.evict("member1", "member2")
    assert lost.named()[-1] == {"member3", "member4"}
    old = lost.story.cluster("member4")
    lost.story.store.put(old.with_spec(taints=(FULL,)), old)

    lost.schedule()

    assert lost.story.placed("web") == {"member3": 1, "member5": 1}
    assert lost.replaced() == [
        "the eviction had reserved member4:1, but the scheduler placed the binding on member3:1, member5:1. "
        "member4: taint full:NoSchedule is not tolerated"
    ]
    reported = lost.story.events("EvictionRefugeReplaced")
    assert sorted(one.involved_object.kind for one in reported) == ["Deployment", "ResourceBinding"]


def test_the_second_eviction_says_which_reserved_cluster_it_does_not_use() -> None:
    lost = TwoLost(CHOICES["copies"])
    lost.evict("member1")
    lost.schedule()
    assert lost.reserved() == {"member4": 1}
    old = lost.story.cluster("member4")
    lost.story.store.put(old.with_spec(taints=(FULL,)), old)

    lost.evict("member1", "member2")

    assert lost.reserved() == {"member5": 1}
    last = lost.story.events("EvictWorkloadFromClusterSucceed")[-1].message
    assert last.endswith("member3:1, member5:1; instead of member4, which an earlier eviction had reserved")
