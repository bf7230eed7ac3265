"""Objects that one write makes due share a due row, a bundle, and are looked at as if each had its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from apps.objects.due import BUNDLE, BUNDLED_FROM
from controlplane.apimachinery.meta import Ref
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import Decision, Delete, Guard, Put
from controlplane.engine.routing import Router
from controlplane.engine.run import World, run_batch
from controlplane.engine.state import HeldLease, LeaseLost, State, Watch
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.binding import Binding
from controlplane.settings import Settings
from tests.builders.bare import binding
from tests.stores.grounds import USER, DjangoGround, Ground, MemoryGround, create

AFTER = timedelta(seconds=10)
MANY = 2 * BUNDLED_FROM
LONG = timedelta(hours=1)
in_postgres = pytest.mark.django_db(transaction=True)


class Keeper(Controller):
    """Looks at each binding that was written, `after` later. `answers`: what it decides; it notes at what it looked."""

    name = "keeper"
    group = "test"
    keys = (RESOURCE_BINDING,)
    owns = Ownership({RESOURCE_BINDING: ("metadata.labels",)})

    def __init__(
        self, after: timedelta = AFTER, answers: Callable[[Binding], Decision] = lambda one: Decision()
    ) -> None:
        self.answers = answers
        self.looked = Counter[str]()
        self.watches = (  # type: ignore[misc]  # each test has its own
            Watch(RESOURCE_BINDING, lambda old, new: [new.ref] if new else [], after=after, bundled=True),
        )

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Any]:
        found = state.get(refs)
        return [found.get(ref) for ref in refs]

    def decide(self, snapshot: Any, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        self.looked[snapshot.metadata.name] += 1
        return self.answers(snapshot)

    def turn(self, store: Any, **options: Any) -> int:
        """Run one batch and return how many objects were looked at."""
        return run_batch(self, store, Settings(), world=World(), **options).claimed


@pytest.fixture(
    params=[pytest.param(MemoryGround, id="memory"), pytest.param(DjangoGround, id="postgres", marks=in_postgres)]
)
def made(request: pytest.FixtureRequest) -> Callable[[Controller], Ground]:
    """Returns a store with these controllers, in memory and in PostgreSQL."""
    ground: Callable[[Controller], Ground] = request.param
    return ground


def names(count: int = MANY) -> list[str]:
    return [f"web{number:02d}" for number in range(count)]


def written(store: Any, count: int = MANY) -> list[Binding]:
    """Create so many bindings with one write."""
    return create(store, *(binding(name) for name in names(count)))


def due_rows() -> list[tuple[str, str]]:
    """Return the kind and the name of each due row of the controller."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT kind, name FROM objects_due WHERE controller = 'keeper' ORDER BY kind, name")
        return cursor.fetchall()


def test_each_object_is_looked_at_once_when_its_time_has_come(made: Callable[[Controller], Ground]) -> None:
    keeper = Keeper()
    ground = made(keeper)
    written(ground.store)

    assert keeper.turn(ground.store) == 0

    ground.pass_time(AFTER.total_seconds() + 1)

    assert keeper.turn(ground.store) == MANY
    assert keeper.turn(ground.store) == 0
    assert keeper.looked == dict.fromkeys(names(), 1)


def test_an_object_that_is_looked_at_again_is_the_only_one(made: Callable[[Controller], Ground]) -> None:
    until: list[datetime] = []
    keeper = Keeper(
        timedelta(0), lambda one: Decision(wake_at=until[0] if one.metadata.name == "web03" and until else None)
    )
    ground = made(keeper)
    until.append(ground.store.now() + LONG)
    written(ground.store)

    assert keeper.turn(ground.store) == MANY
    assert keeper.turn(ground.store) == 0
    until.clear()
    ground.pass_time(LONG.total_seconds() + 1)

    assert keeper.turn(ground.store) == 1
    assert keeper.looked["web03"] == 2
    assert keeper.turn(ground.store) == 0


def test_a_decision_that_is_lost_is_made_again(made: Callable[[Controller], Ground]) -> None:
    def labelled(one: Binding) -> Decision:
        is_lost = one.metadata.name == "web03" and keeper.looked["web03"] == 1
        later = ground.store.now() + LONG  # of a decision that is stored
        return Decision(
            changes=(Put(one.with_meta(labels={"seen": "yes"}), one),),
            guards=(Guard(one.ref, one.metadata.generation + 1),) if is_lost else (),
            wake_at=later,
        )

    keeper = Keeper(timedelta(0), labelled)
    ground = made(keeper)
    written(ground.store)

    while keeper.turn(ground.store):
        pass

    assert keeper.looked == {**dict.fromkeys(names(), 1), "web03": 2}
    labels = {one.metadata.name: one.metadata.labels for one in ground.store.list(RESOURCE_BINDING)}
    assert labels == {name: {"seen": "yes"} for name in names()}


def test_a_decision_about_an_object_that_was_changed_meanwhile_is_made_again(
    made: Callable[[Controller], Ground],
) -> None:
    def labelled(one: Binding) -> Decision:
        seen = stale if one.metadata.name == "web03" and keeper.looked["web03"] == 1 else one
        return Decision(changes=(Put(seen.with_meta(labels={"seen": "yes"}), seen),))

    keeper = Keeper(timedelta(0), labelled)
    ground = made(keeper)
    stale = written(ground.store)[3]
    newer = stale.with_meta(labels={"seen": "no"})
    ground.store.apply([(None, Decision(changes=(Put(newer, stale),)))], by=USER)

    while keeper.turn(ground.store):
        pass

    assert keeper.looked["web03"] >= 2
    labels = {one.metadata.name: one.metadata.labels for one in ground.store.list(RESOURCE_BINDING)}
    assert labels == {name: {"seen": "yes"} for name in names()}


def test_a_process_that_has_lost_its_lease_leaves_all_of_them_due(made: Callable[[Controller], Ground]) -> None:
    keeper = Keeper(timedelta(0), lambda one: Decision(changes=(Put(one.with_meta(labels={"a": "b"}), one),)))
    ground = made(keeper)
    lease = ground.store.take_lease("test", 0, holder="first", seconds=30)
    written(ground.store)
    ground.pass_time(31)
    ground.store.take_lease("test", 0, holder="second", seconds=30)

    with pytest.raises(LeaseLost):
        keeper.turn(ground.store, lease=lease)

    assert keeper.turn(ground.store) == MANY


def test_an_object_that_is_removed_meanwhile_is_passed_over(made: Callable[[Controller], Ground]) -> None:
    keeper = Keeper()
    ground = made(keeper)
    first, *_ = written(ground.store)
    ground.store.apply([(None, Decision(changes=(Delete(first),)))], by=USER)
    ground.pass_time(AFTER.total_seconds() + 1)

    assert keeper.turn(ground.store) == MANY
    assert keeper.turn(ground.store) == 0
    assert keeper.looked == dict.fromkeys(names()[1:], 1)


@in_postgres
@pytest.mark.parametrize(("count", "bundles", "own"), [(BUNDLED_FROM, 1, 0), (BUNDLED_FROM - 1, 0, BUNDLED_FROM - 1)])
def test_a_few_objects_have_rows_of_their_own(count: int, bundles: int, own: int) -> None:
    written(DjangoGround(Keeper()).store, count)

    assert Counter(kind for kind, _ in due_rows()) == Counter({BUNDLE: bundles, RESOURCE_BINDING: own})


@in_postgres
def test_nothing_is_left_in_the_table_when_all_were_looked_at() -> None:
    keeper = Keeper(timedelta(0))
    store = DjangoGround(keeper).store
    written(store)
    written_again = [one.with_meta(labels={"a": "b"}) for one in store.list(RESOURCE_BINDING)[:3]]
    old = store.list(RESOURCE_BINDING)[:3]
    store.apply(
        [(None, Decision(changes=(Put(new, one),))) for new, one in zip(written_again, old, strict=True)], by=USER
    )
    assert Counter(kind for kind, _ in due_rows()) == {BUNDLE: 1, RESOURCE_BINDING: 3}

    assert keeper.turn(store) == MANY

    assert keeper.looked == dict.fromkeys(names(), 1)
    assert due_rows() == []


@in_postgres
@pytest.mark.parametrize(("limit", "first", "second"), [(3 * MANY - 1, 2 * MANY, MANY), (3 * MANY, 3 * MANY, 0)])
def test_a_batch_under_a_lease_has_as_many_bundles_as_fit(limit: int, first: int, second: int) -> None:
    keeper = Keeper(timedelta(0))
    store = DjangoGround(keeper).store
    lease: HeldLease = store.take_lease("test", 0, holder="one", seconds=30)
    for part in range(3):
        create(store, *(binding(f"{part}-{name}") for name in names()))

    turns = [run_batch(keeper, store, Settings(), world=World(), lease=lease, limit=limit) for _ in range(3)]

    assert [(one.claimed, one.more) for one in turns] == [(first, bool(second)), (second, False), (0, False)]
    assert keeper.looked.total() == 3 * MANY


@in_postgres
def test_objects_of_a_bundle_that_is_too_large_for_a_batch_get_rows_of_their_own() -> None:
    keeper = Keeper(timedelta(0))
    store = DjangoGround(keeper).store
    lease: HeldLease = store.take_lease("test", 0, holder="one", seconds=30)
    written(store)

    assert keeper.turn(store, lease=lease, limit=3) == MANY
    assert Counter(kind for kind, _ in due_rows()) == {RESOURCE_BINDING: MANY}
    assert keeper.turn(store, lease=lease, limit=3) == 3
    assert sum(keeper.looked.values()) == 3


@in_postgres
def test_without_a_lease_no_object_waits_for_the_end_of_a_claim_that_is_not_worked_on() -> None:
    keeper = Keeper(timedelta(0))
    store = DjangoGround(keeper).store
    create(store, binding("first"))
    for part in range(3):
        create(store, *(binding(f"{part}-{name}") for name in names()))

    while keeper.turn(store, limit=MANY):
        pass

    assert keeper.looked.total() == 3 * MANY + 1


@in_postgres
def test_figures_count_the_objects_of_a_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.api import debug
    from apps.objects.apply import binary_cursor
    from apps.objects.due import count_due

    written(DjangoGround(Keeper(timedelta(0))).store)

    with binary_cursor() as cursor:
        assert count_due(cursor, ["keeper"]) == MANY
    monkeypatch.setattr(debug, "_last", None)  # figures are kept for a second
    found = debug.figures().work["keeper"]
    assert (found.rows, found.due) == (MANY, MANY)


@in_postgres
def test_readiness_counts_the_bindings_of_a_bundle_that_it_has_still_to_look_at() -> None:
    from apps.failover.readiness import stored_answers

    class Readiness(Keeper):
        name = "readiness"

    store = DjangoGround(Readiness()).store
    written(store)
    written_alone = create(store, binding("alone"))

    assert stored_answers(store).due == MANY + len(written_alone)


def test_a_controller_with_shards_has_no_bundles() -> None:
    class Split(Keeper):
        shards = 2

    with pytest.raises(AssertionError, match="one shard"):
        Router([Split()])
