"""Room that an eviction found is kept for it until the scheduler has placed the binding anew (D10)."""

from __future__ import annotations

from controlplane.controllers.scheduler import Scheduler
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Taint
from controlplane.kinds.rows import Eviction, Promise
from tests.core.fleet_story import Story, binding, by_room, cluster, no_execute


class Late:
    """A fleet whose scheduler has much else to do: it runs when told."""

    def __init__(self, *bindings: Binding, slots: int) -> None:
        full = [cluster(f"member{number}", taints=[FULL]) for number in range(3, 9)]
        self.story = Story(cluster("member1"), cluster("member2", slots=slots), *full, *bindings)
        self.everybody = self.story.controllers
        self.story.controllers = [one for one in self.everybody if not isinstance(one, Scheduler)]

    def schedule(self) -> None:
        self.story.controllers = self.everybody
        self.story.work()

    def reserved(self) -> dict[tuple[str, str], int]:
        rows = self.story.store.rows(Promise, "cluster", ["member1", "member2", "member3"]).values()
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
    """Its second copy leaves before anybody has placed the first one anew."""
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


def test_a_reservation_is_no_promise_of_the_binding_itself() -> None:
    """Two more replicas on a cluster that has two: four are promised there in the end, not six."""
    late = Late(web(member1=2, member2=2), slots=10)
    late.story.taint("member1", no_execute())
    late.story.pass_seconds(20)
    assert late.reserved() == {("web-deployment", "member2"): 2}

    late.schedule()

    assert late.story.placed("web") == {"member2": 4}
    (row,) = late.story.store.rows(Promise, "cluster", ["member2"])["member2"]
    assert (row.replicas, row.reserved) == (2, False)
