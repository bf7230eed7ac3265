"""An eviction that is stored while the scheduler reads keeps what it reserved, and its room is given to no other
[refuge-first]."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from apps.objects import batch
from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import Ref
from controlplane.controllers.eviction_queue import EvictionQueue
from controlplane.controllers.evictions import Evictions
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.controllers.reads.readiness_state import situation_of
from controlplane.controllers.reservations import Reservations
from controlplane.controllers.scheduler import Scheduler
from controlplane.engine.controller import Controller
from controlplane.engine.decision import CapacityGuard, Decision, Put, Save
from controlplane.engine.memory import MemoryStore
from controlplane.engine.run import World, run_batch
from controlplane.engine.state import Actor
from controlplane.estimate.request import NOTHING_ASKED, encoded
from controlplane.eviction.rate import TakeTokens, Tokens
from controlplane.kinds import CLUSTER
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import ResourceSummary
from controlplane.kinds.rows import HELD, NO_REFUGE, CapacityReservation, Eviction, FleetState, PlacementHint
from controlplane.scheduling.binding_outcome import refuge_reservations
from controlplane.scheduling.ledger import RESERVATION_EXPIRY
from controlplane.scheduling.trigger import APPLIED_PLACEMENT, applied_text
from controlplane.settings import GATES, Settings
from tests.builders.objects import binding, cluster, no_execute
from tests.builders.placements import by_room, duplicated
from tests.stores.grounds import USER, create, stored, write

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

ON = Settings(feature_gates={**GATES, "Failover": True})
READS = ("get", "list", "rows", "reserved_capacity", "by_index", "page_by_index")
BEFORE_WRITING = -2
ROOM = 2  # free replicas at "refuge"


def interrupted(base: type) -> type:
    """Return a store that lets something happen before one of its reads, or before it writes."""

    class Interrupted(base):  # type: ignore[misc]
        reads: list[str]
        before: int = -1
        reading: bool = False
        happens: Callable[[], None]

    def watched(name: str) -> Callable[..., Any]:
        plain = getattr(base, name)

        def read(self: Any, *args: Any, **kwargs: Any) -> Any:
            if self.reading:  # one look may be made of several
                return plain(self, *args, **kwargs)
            place = self.before
            if place >= 0:
                self.before -= 1
            if place == 0:
                seen = list(self.reads)
                self.happens()
                self.reads = seen
            self.reads.append(
                "reservations" if name == "reserved_capacity" or args[:1] == (CapacityReservation,) else name
            )
            self.reading = True
            try:
                return plain(self, *args, **kwargs)
            finally:
                self.reading = False

        return read

    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.before == BEFORE_WRITING:
            self.before = -1
            self.happens()
        return base.apply(self, *args, **kwargs)

    for name in READS:
        setattr(Interrupted, name, watched(name))
    Interrupted.apply = apply  # type: ignore[attr-defined]
    return Interrupted


class Race:
    """A copy on a lost cluster, with room for it at "refuge" only."""

    def __init__(self, base: type, *, web: Binding, room: int = ROOM) -> None:
        self.queue, self.evictions, self.scheduler = EvictionQueue(), Evictions(), Scheduler()
        self.reservations = Reservations()
        self.store: Any = interrupted(base)(controllers=[self.queue, self.evictions, self.scheduler, self.reservations])
        self.store.reads = []
        self.web = web
        gate = FleetState("default", failover_on_since=self.store.now() - timedelta(hours=1))
        self.store.apply([(None, Decision(changes=(Save(gate),)))], by=USER)
        lost = cluster("lost", taints=(no_execute(at=self.store.now() - timedelta(minutes=1)),))
        create(self.store, lost, cluster("refuge", room=room), *(cluster(f"full{n}", room=0) for n in range(3)))
        self.work_off(self.scheduler)
        create(self.store, web)
        self.work_off(self.queue)

    def work_off(self, controller: Controller) -> None:
        while run_batch(controller, self.store, ON, world=World()).claimed:
            pass

    def evict(self, before_writing: Callable[[], None] = lambda: None) -> None:
        def answer(question: TakeTokens) -> Tokens:
            before_writing()
            return _all(question)

        self.store.mark("evictions", [FLEET])
        run_batch(self.evictions, self.store, ON, world=World(answer=answer))

    def held(self) -> list[str]:
        return [row.reason for row in self.store.rows(Eviction, "state", [HELD]).get(HELD, ())]

    def schedule(self, *others: Binding, evicted_before: int = -1) -> None:
        self.store.mark("scheduler", [one.ref for one in (self.web, *others)])
        self.store.reads, self.store.before, self.store.happens = [], evicted_before, self.evict
        run_batch(self.scheduler, self.store, ON, world=World())

    def end_reservations(self, on: str, *, evicted_before: int) -> None:
        self.store.mark("reservations", [Ref(CLUSTER, "", on)])
        self.store.reads, self.store.before, self.store.happens = [], evicted_before, self.evict
        run_batch(self.reservations, self.store, ON, world=World())

    def reserved(self) -> dict[str, int]:
        rows = self.store.rows(CapacityReservation, "binding", [str(self.web.ref)]).get(str(self.web.ref), ())
        return {row.cluster: row.replicas for row in rows if row.reserved}

    def left(self) -> bool:
        return bool(stored(self.store, self.web.ref).spec.graceful_eviction_tasks)

    def placed(self, one: Binding) -> dict[str, int]:
        return {target.name: target.replicas for target in stored(self.store, one.ref).spec.clusters}


def _all(question: TakeTokens) -> Tokens:
    return Tokens(dict(question.wanted), 0.0)


ANYWHERE = by_room("lost", "refuge")
ANEW = binding("web", ANYWHERE, on={"lost": ROOM}, replicas=ROOM, priority=9)
STANDS = ANEW.with_meta(annotations={APPLIED_PLACEMENT: applied_text(ANYWHERE)})
CAUGHT_UP = STANDS.with_status(scheduler_observed_generation=0)
OTHER = binding("other", ANYWHERE, on={}, replicas=ROOM)
CASES = {"its result stands": STANDS, "its result is noted as seen": CAUGHT_UP, "it is placed again": ANEW}


@pytest.fixture(params=["memory", "postgres"])
def kept_in(request: pytest.FixtureRequest) -> type:
    return MemoryStore if request.param == "memory" else DjangoStore


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("read", range(6))
def test_what_is_reserved_while_the_scheduler_reads_is_kept(kept_in: type, read: int, case: str) -> None:
    """Whichever of its reads the eviction comes before."""
    race = Race(kept_in, web=CASES[case])

    race.schedule(evicted_before=read)

    assert race.left() == (read < len(race.store.reads)), race.store.reads
    assert not race.left() or race.placed(race.web) or race.reserved() == {"refuge": ROOM}, race.store.reads
    race.evict()
    race.schedule()
    assert (race.placed(race.web), race.reserved()) == ({"refuge": ROOM}, {})


def test_a_decision_that_only_drops_a_reservation_leaves_what_an_eviction_stores_meanwhile(kept_in: type) -> None:
    """The scheduler gives back an old reservation of a binding whose result stands, and has read nothing newer."""
    race = Race(kept_in, web=STANDS)
    old = refuge_reservations(STANDS, {"full0": ROOM}, asked=NOTHING_ASKED, now=race.store.now())
    hint = PlacementHint(str(STANDS.ref), 0, {"full0": ROOM})
    write(race.store, *map(Save, (*old, hint)))

    race.schedule(evicted_before=BEFORE_WRITING)

    assert (race.left(), race.reserved()) == (True, {"refuge": ROOM})
    (found,) = race.store.rows(PlacementHint, "key", [hint.key])[hint.key]
    assert found.clusters == {"refuge": ROOM}


@pytest.mark.parametrize("read", range(5))
def test_what_is_reserved_again_while_an_old_reservation_ends_is_kept(kept_in: type, read: int) -> None:
    """An earlier one of the same binding and refuge, which was not taken for 300 s, has the same key."""
    race = Race(kept_in, web=ANEW)
    forgotten = race.store.now() - RESERVATION_EXPIRY
    old = refuge_reservations(ANEW, {"refuge": ROOM}, asked=NOTHING_ASKED, now=forgotten)
    race.store.apply([(None, Decision(changes=tuple(map(Save, old))))], by=USER)

    race.end_reservations("refuge", evicted_before=read)

    assert race.left() == (read < len(race.store.reads)), race.store.reads
    assert not race.left() or race.reserved() == {"refuge": ROOM}, race.store.reads


@pytest.mark.parametrize("read", range(5))
def test_what_is_given_back_to_a_binding_has_been_counted(kept_in: type, read: int) -> None:
    """Until the scheduler has read the reservations, an eviction takes its room from everybody else."""
    race = Race(kept_in, web=ANEW)
    race.store.apply([(None, Decision(changes=(Put(OTHER, None),)))], by=USER)

    race.schedule(OTHER, evicted_before=read)

    ledger_read = max(place for place, name in enumerate(race.store.reads) if name == "reservations")
    if read <= ledger_read:
        assert race.left()
        assert race.placed(OTHER) == {}, race.store.reads


def test_an_eviction_does_not_count_on_room_that_the_scheduler_takes_meanwhile(kept_in: type) -> None:
    """Both have read the ledger before either writes; the scheduler writes first."""
    race = Race(kept_in, web=STANDS)
    create(race.store, OTHER)

    race.evict(before_writing=lambda: race.work_off(race.scheduler))

    assert race.placed(OTHER) == {"refuge": ROOM}
    assert (race.left(), race.reserved()) == (False, {})
    race.evict()
    assert (race.left(), race.held()) == (False, [NO_REFUGE])


def test_the_scheduler_does_not_count_on_room_that_an_eviction_reserves_meanwhile(kept_in: type) -> None:
    """Both have read the ledger before either writes; the eviction writes first."""
    race = Race(kept_in, web=STANDS)
    create(race.store, OTHER)

    race.schedule(OTHER, evicted_before=BEFORE_WRITING)

    assert (race.left(), race.reserved(), race.placed(OTHER)) == (True, {"refuge": ROOM}, {})
    race.work_off(race.scheduler)
    assert (race.placed(race.web), race.placed(OTHER)) == ({"refuge": ROOM}, {})


@pytest.mark.parametrize("first", ["scheduler", "eviction"])
def test_where_there_is_room_for_both_neither_waits_for_the_other(kept_in: type, first: str) -> None:
    race = Race(kept_in, web=STANDS, room=2 * ROOM)
    create(race.store, OTHER)

    if first == "scheduler":
        race.evict(before_writing=lambda: race.work_off(race.scheduler))
    else:
        race.schedule(OTHER, evicted_before=BEFORE_WRITING)

    assert (race.left(), race.placed(OTHER)) == (True, {"refuge": ROOM})


def test_what_the_scheduler_decides_in_one_batch_is_no_conflict_with_itself(
    kept_in: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is stored in several transactions, and its last reservation takes the last room."""
    monkeypatch.setattr(batch, "MAX_OBJECTS", 4)
    race = Race(kept_in, web=STANDS, room=10)
    others = [binding(f"other{number}", by_room("refuge"), on={}, replicas=1) for number in range(10)]
    create(race.store, *others)

    report = run_batch(race.scheduler, race.store, ON, world=World())

    assert report.lost == 0
    assert all(race.placed(one) == {"refuge": 1} for one in others)


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")])
def test_each_decision_of_a_batch_is_compared_with_what_came_after_its_own_reading(
    kept_in: type, order: tuple[str, str]
) -> None:
    store = kept_in(controllers=[Scheduler()])
    row = CapacityReservation("x", "x", "refuge", ROOM, encoded(NOTHING_ASKED), store.now())
    write(store, Save(row))
    newest = store.reserved_capacity(within=RESERVATION_EXPIRY).seen
    seen = {"old": newest - 1, "new": newest}
    decisions = [
        Decision(
            changes=(Put(binding(name, ANYWHERE), None),),
            capacity_guards=(CapacityGuard("refuge", seen[name], (("", ROOM - 1),)),),
        )
        for name in order
    ]

    outcomes = store.apply([(None, decision) for decision in decisions], by=Actor("another"))

    assert {name: outcome.lost for name, outcome in zip(order, outcomes, strict=True)} == {
        "old": "room on cluster refuge",
        "new": "",
    }


def test_reservations_are_summed_up_only_where_that_is_asked_for(kept_in: type) -> None:
    store = kept_in(controllers=[])
    row = CapacityReservation("x", "x", "refuge", ROOM, encoded(NOTHING_ASKED), store.now())
    write(store, Save(row))

    with_totals, without = (
        store.reserved_capacity(within=RESERVATION_EXPIRY, bindings=["x"], totals=totals) for totals in (True, False)
    )

    assert (list(with_totals.totals), list(without.totals)) == ([("refuge", encoded(NOTHING_ASKED), ROOM)], [])
    assert with_totals.own == without.own
    assert with_totals.seen == without.seen


@pytest.mark.parametrize("depending", [False, True], ids=["no binding", "one of two bindings"])
def test_reservations_are_summed_up_only_for_bindings_that_depend_on_free_capacity(
    kept_in: type, depending: bool
) -> None:
    store = kept_in(controllers=[])
    row = CapacityReservation("x", "x", "refuge", ROOM, encoded(NOTHING_ASKED), store.now())
    write(store, Save(row))
    second = ANYWHERE if depending else duplicated("lost", "refuge")
    both = create(store, binding("first", duplicated("lost", "refuge")), binding("second", second))

    loaded = Scheduler().load(store, [one.ref for one in both])

    by_scheduler = [bool(snapshot.reserved_capacity.totals) for snapshot in loaded if snapshot is not None]
    assert by_scheduler == [depending, depending]
    by_readiness = situation_of(store, both).reserved_capacity.totals
    assert bool(by_readiness) == depending


def test_the_scheduler_takes_what_two_evictions_of_a_binding_named(kept_in: type) -> None:
    """A copy on each of two lost clusters; others have more room by the time the scheduler looks."""
    names = [f"member{number}" for number in range(1, 7)]
    placement = duplicated(*names, least=2, most=2)
    web = binding("web", placement, on={"lost": 1, "member1": 1}, replicas=1)
    race = Race(kept_in, web=web.with_meta(annotations={APPLIED_PLACEMENT: applied_text(placement)}))
    slots = {"member1": 50, "member2": 50, "member3": 10, "member4": 10, "member5": 9, "member6": 9}
    create(race.store, *(cluster(name, room=count) for name, count in slots.items()))
    race.work_off(race.queue)
    old = stored(race.store, Ref(CLUSTER, "", "member1"))
    taint = no_execute(at=race.store.now() - timedelta(minutes=1))
    write(race.store, Put(old.with_spec(taints=(taint,)), old))
    race.work_off(race.queue)

    race.evict()  # one at a time
    race.evict()
    named = race.reserved()
    assert (len(named), race.placed(race.web)) == (2, {})
    old = stored(race.store, Ref(CLUSTER, "", "member6"))
    write(race.store, Put(old.with_status(resource_summary=ResourceSummary(allocatable={"pods": "90"})), old))
    race.schedule()

    assert (race.placed(race.web), race.reserved()) == (named, {})
