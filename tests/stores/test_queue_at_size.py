"""A queue longer than one look reads of it: what is held, or out of tokens, keeps no other eviction waiting
[eviction-queue] [refuge-first]."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Object, ObjectMeta, Ref
from controlplane.controllers.eviction_queue import EvictionQueue
from controlplane.controllers.evictions import HEADS, Evictions
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.engine.decision import Decision, Put, Save
from controlplane.engine.memory import MemoryStore
from controlplane.engine.run import World, run_batch
from controlplane.eviction import operator_orders
from controlplane.eviction.rate import Bucket, TakeTokens, Tokens, take_tokens
from controlplane.kinds import CLUSTER, RESOURCE_BINDING
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Taint
from controlplane.kinds.eviction_hold import EvictionHold, EvictionHoldSpec
from controlplane.kinds.maintenance_window import MaintenanceWindow, MaintenanceWindowSpec
from controlplane.kinds.rows import EVICTED, HELD, QUEUED, Eviction, FleetState
from controlplane.settings import GATES, Settings
from tests.builders.objects import binding, cluster
from tests.builders.placements import by_room
from tests.stores.grounds import USER

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

MANY = 1200  # more than two looks read
FAST = Settings(feature_gates={**GATES, "Failover": True}, resource_eviction_rate=1000.0)
SLOW = replace(FAST, resource_eviction_rate=0.5)
API = "failover.lifeboat.io/v1alpha1"


class Fleet:
    """A fleet whose clusters "first" and "second" are lost; evictions are decided when a test asks for it."""

    def __init__(self, store: type, *objects: Object, settings: Settings = FAST, slots: int = 3) -> None:
        self.controllers = [EvictionQueue(), Evictions()]
        self.store: Any = store(controllers=self.controllers)
        self.settings = settings
        self.now: datetime = self.store.now()
        self.buckets: dict[str, Bucket] = {}
        self.churned = 0
        self.store.apply(
            [(None, Decision(changes=(Save(FleetState("default", failover_on_since=self.now)),)))], by=USER
        )
        spare = (cluster(f"spare{number}", room=0) for number in range(4))
        self.create(cluster("first"), cluster("second"), cluster("refuge", room=slots), *spare, *objects)
        for name in ("first", "second"):
            self.edit(Ref(CLUSTER, "", name), lambda one: one.with_spec(taints=(gone(self.now),)))

    def create(self, *objects: Object) -> None:
        outcomes = self.store.apply([(None, Decision(changes=(Put(one, None),))) for one in objects], by=USER)
        assert not any(one.lost for one in outcomes)

    def edit(self, ref: Ref, change: Callable[[Any], Any]) -> None:
        old = self.store.get([ref])[ref]
        assert not self.store.apply([(None, Decision(changes=(Put(change(old), old),)))], by=USER)[0].lost

    def capacity_moves(self) -> None:
        """Let a full cluster report something that helps no eviction."""
        self.churned += 1
        cpu = {"pods": "0", "cpu": str(self.churned)}
        self.edit(
            Ref(CLUSTER, "", "spare0"),
            lambda one: one.with_status(resource_summary=replace(one.status.resource_summary, allocatable=cpu)),
        )

    def fill(self) -> None:
        """Work until the queue is built."""
        while run_batch(self.controllers[0], self.store, self.settings, world=World()).claimed:
            pass

    def look(self) -> None:
        """Look at the queue once, a second after the last time."""
        self.now += timedelta(seconds=1)
        self.store.mark("evictions", [FLEET])
        run_batch(self.controllers[1], self.store, self.settings, world=World(answer=self._answer))

    def _answer(self, question: TakeTokens) -> Tokens:
        granted = {}
        for name, wanted in question.wanted.items():
            taken = take_tokens(self.buckets.get(name), wanted, rate=question.rate, at=self.now.timestamp())
            granted[name], self.buckets[name] = taken.granted, taken.bucket
        return Tokens(granted, 0.5)

    def looks_until_evicted(self, name: str, *, most: int, between: Callable[[], None] = lambda: None) -> int:
        for number in range(1, most + 1):
            self.look()
            between()
            if any(row.binding == str(ref(name)) for row in self.rows(EVICTED)):
                return number
        raise AssertionError(f"{name} waits after {most} looks: {[row.reason for row in self.rows(HELD)][:1]}")

    def rows(self, state: str) -> list[Eviction]:
        return list(self.store.rows(Eviction, "state", [state]).get(state, ()))


def gone(at: datetime) -> Taint:
    return Taint("gone", "NoExecute", time_added=at)


def ref(name: str) -> Ref:
    return Ref(RESOURCE_BINDING, "default", f"{name}-deployment")


def on(name: str, where: str, *, replicas: int = 1, priority: int = 0) -> Binding:
    return binding(name, by_room(where, "refuge"), on={where: replicas}, replicas=replicas, priority=priority)


def many(*, replicas: int = 1) -> Iterable[Binding]:
    return (on(f"many-{number:04}", "first", replicas=replicas) for number in range(MANY))


def ordered(verb: str, one: Binding, fleet: Fleet) -> Binding:
    (row,) = fleet.store.rows(Eviction, "binding", [str(one.ref)])[str(one.ref)]
    return operator_orders.with_order(one, row, verb, reason="as ordered", by="jane", now=fleet.now)


def order(fleet: Fleet, verb: str, names: Iterable[Binding]) -> None:
    refs = [one.ref for one in names]
    found = fleet.store.get(refs)
    puts = [(None, Decision(changes=(Put(ordered(verb, found[one], fleet), found[one]),))) for one in refs]
    assert not any(one.lost for one in fleet.store.apply(puts, by=USER))
    fleet.fill()


def api_object(type_: type, kind: str, spec: object) -> Any:
    return type_(API, kind, ObjectMeta(name="held", uid="uid-held", generation=1), spec)


def no_room(fleet: Fleet) -> None:
    """They ask for five replicas each, and there is room for three."""


def on_hold(fleet: Fleet) -> None:
    spec = EvictionHoldSpec(reason="wait for us", clusters=("first",))
    fleet.create(api_object(EvictionHold, "EvictionHold", spec))


def maintained(fleet: Fleet) -> None:
    spec = MaintenanceWindowSpec(("first",), until=fleet.store.now() + timedelta(hours=1), reason="new switches")
    fleet.create(api_object(MaintenanceWindow, "MaintenanceWindow", spec))


def held_by_hand(fleet: Fleet) -> None:
    order(fleet, operator_orders.HOLD, many())


def skipped(fleet: Fleet) -> None:
    order(fleet, operator_orders.SKIP, many())


class InFront(NamedTuple):
    """What stands at the head of the queue, and in how many looks one behind it has left."""

    keep: Callable[[Fleet], None]
    replicas: int
    looks: int


READ = MANY // HEADS + 2  # looks that read past all of them, the first of which finds no token yet
CASES = {
    "without room": InFront(no_room, 5, READ),
    "on hold": InFront(on_hold, 1, READ),
    "maintained": InFront(maintained, 1, READ),
    "held by hand": InFront(held_by_hand, 1, 2),
    "skipped": InFront(skipped, 1, 2),
}


@pytest.fixture(params=["memory", "postgres"])
def kept_in(request: pytest.FixtureRequest) -> type:
    from apps.objects.store import DjangoStore

    return MemoryStore if request.param == "memory" else DjangoStore


@pytest.mark.parametrize("moving", [False, True], ids=["steady", "capacity moves"])
@pytest.mark.parametrize("case", CASES)
def test_what_is_held_keeps_no_other_waiting(kept_in: type, case: str, moving: bool) -> None:
    """Also while capacity moves with every look, so that what is held is looked at again and again."""
    keep, replicas, looks = CASES[case]
    fleet = Fleet(kept_in, *many(replicas=replicas), on("zz-behind", "second"))
    fleet.fill()
    keep(fleet)

    fleet.looks_until_evicted("zz-behind", most=looks, between=fleet.capacity_moves if moving else lambda: None)


@pytest.mark.parametrize("moving", [False, True], ids=["steady", "capacity moves"])
def test_what_is_held_is_looked_at_to_the_last_when_room_comes(kept_in: type, moving: bool) -> None:
    """What may leave at last is the least of them all."""
    small = binding("zz-small", by_room("first", "refuge"), on={"first": 4}, replicas=4, priority=-1)
    fleet = Fleet(kept_in, *many(replicas=5), small)
    fleet.fill()
    for _ in range(READ):
        fleet.look()
    assert len(fleet.rows(HELD)) == MANY + 1

    room = {"pods": "4"}
    fleet.edit(
        Ref(CLUSTER, "", "refuge"),
        lambda one: one.with_status(resource_summary=replace(one.status.resource_summary, allocatable=room)),
    )

    fleet.looks_until_evicted("zz-small", most=2 * READ, between=fleet.capacity_moves if moving else lambda: None)
    assert len(fleet.rows(HELD)) == MANY


def test_what_finds_no_place_again_is_not_written_again(kept_in: type) -> None:
    fleet = Fleet(kept_in, *many(replicas=5))
    fleet.fill()
    for _ in range(READ):
        fleet.look()
    before = fleet.rows(HELD)

    for _ in range(READ):
        fleet.capacity_moves()
        fleet.look()

    assert fleet.rows(HELD) == before
    assert fleet.rows(QUEUED) == []


def test_of_what_is_held_the_first_in_order_gets_the_room_that_comes(kept_in: type) -> None:
    """Priority decides among two thousand that wait for room, whatever they are called."""
    first = binding("zz-first", by_room("first", "refuge"), on={"first": 5}, replicas=5, priority=7)
    fleet = Fleet(kept_in, *many(replicas=5), first)
    fleet.fill()
    for _ in range(READ):
        fleet.look()
    room = {"pods": "5"}
    fleet.edit(
        Ref(CLUSTER, "", "refuge"),
        lambda one: one.with_status(resource_summary=replace(one.status.resource_summary, allocatable=room)),
    )

    for _ in range(2 * READ):
        fleet.look()

    assert [row.binding for row in fleet.rows(EVICTED)] == [str(first.ref)]


def test_what_is_expedited_leaves_at_once(kept_in: type) -> None:
    fleet = Fleet(kept_in, *many(), on("zz-behind", "second"), settings=SLOW, slots=MANY)
    fleet.fill()
    order(fleet, operator_orders.EXPEDITE, [on("zz-behind", "second")])

    fleet.looks_until_evicted("zz-behind", most=3)

    assert len(fleet.rows(EVICTED)) == 1


def test_with_a_bucket_for_each_cluster_a_long_queue_keeps_no_other_waiting(kept_in: type) -> None:
    """One cluster failed earlier and with more than is read at once; each leaves at its own rate."""
    scope = replace(SLOW, eviction=replace(SLOW.eviction, bucket_scope="Cluster"))
    behind = [on(f"zz-behind-{number}", "second") for number in range(5)]
    fleet = Fleet(kept_in, *many(), *behind, settings=scope, slots=2 * MANY)
    fleet.fill()

    for _ in range(10):
        fleet.look()

    left = [row.cluster for row in fleet.rows(EVICTED)]
    assert (left.count("first"), left.count("second")) == (4, 4)
