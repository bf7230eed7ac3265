"""An evicted binding is placed in the same write, or evicted alone where something it rests on has changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import Any, cast

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Object, Ref
from controlplane.controllers import CONTROLLERS as EVERY
from controlplane.controllers.evictions import Evictions
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.controllers.scheduler import Scheduler
from controlplane.engine import run
from controlplane.engine.cascade import followers, with_following
from controlplane.engine.decision import NOTHING, Decision, Delete, Drop, Guard, Put, Save, unchanged
from controlplane.engine.memory import MemoryStore
from controlplane.engine.overlaid_state import OverlaidState
from controlplane.engine.run import run_batch
from controlplane.engine.state import Actor, Claim, Complete, HeldLease, Outcome, State
from controlplane.eviction.rate import Tokens
from controlplane.kinds import CLUSTER, RESOURCE_BINDING
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.policy import Toleration
from controlplane.kinds.rows import (
    EVICTED,
    QUEUED,
    CapacityReservation,
    Eviction,
    PlacementNote,
)
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster, no_execute, work
from tests.builders.placements import duplicated
from tests.core.evicting import BY, CONTROLLERS, WORLD, content, evict, evicted, placed, queued
from tests.core.eviction_fleet import ANYWHERE, FAST

WORK = work()
MEMBER2 = Ref(CLUSTER, "", "member2")
GONE = Guard(Ref("cluster.karmada.io/Cluster", "", "member9"), None)


def test_an_evicted_binding_is_placed_in_the_same_write() -> None:
    store = queued(binding("web", ANYWHERE, on={"member1": 2}))

    evict(store)

    (target,) = placed(store)["web-deployment"]
    assert target in ("member2", "member3")
    assert [line.actor for line in store.log if line.ref.kind == RESOURCE_BINDING] == ["evictions"]
    assert not store.due["scheduler"]
    (task,) = cast(Binding, store.list(RESOURCE_BINDING)[0]).spec.graceful_eviction_tasks
    assert task.from_cluster == "member1"


def test_a_decision_is_completed_once_and_when_it_is_asked_for() -> None:
    store = queued(*(binding(f"web{number}", ANYWHERE, on={"member1": 1}) for number in range(3)))
    asked = list[int]()

    class Counting(Scheduler):
        def deciding(self, snapshots: Any, settings: Any, *, now: Any) -> Any:
            decide = super().deciding(snapshots, settings, now=now)
            asked.append(-len(snapshots))

            def counted(part: Any) -> Any:
                asked.append(len(part))
                return decide(part)

            return counted

    (snapshot,) = Evictions().load(store, [FLEET])
    assert snapshot is not None
    answer = Tokens({"fleet": 3}, 0.0)
    decision = Evictions().decide(snapshot, FAST, now=START, answer=answer)
    _, complete = with_following(
        [decision], [FLEET], [Counting()], store, FAST, group=Evictions.group, now=START, phase=lambda *_: nullcontext()
    )
    first, *others = decision.separate_decisions
    assert complete is not None
    assert asked == [-3]
    assert complete.made(first) is first

    (made,) = complete([first])
    again, *completed = complete([first, *others])

    assert asked == [-3, 1, 2]
    assert again is made is complete.made(first)
    assert [len(one.followed) for one in (made, *completed)] == [1, 1, 1]
    assert complete([NOTHING]) == [NOTHING]


class Failing(Scheduler):
    """A scheduler that fails: when it begins, when it decides, or when it says what its decision rests on."""

    def __init__(self, at: str) -> None:
        super().__init__()
        self.at = at

    def deciding(self, snapshots: Any, settings: Any, *, now: Any) -> Any:
        def fail(part: Any) -> Any:
            raise ValueError("no decision")

        if self.at == "begin":
            raise ValueError("no fleet")
        return fail if self.at == "decide" else super().deciding(snapshots, settings, now=now)

    def rests_on(self, snapshot: Any, decision: Decision) -> Any:
        if self.at == "rests on":
            raise ValueError("no guards")
        return super().rests_on(snapshot, decision)


@pytest.mark.parametrize("at", ["begin", "decide", "rests on"])
def test_a_scheduler_that_fails_keeps_nothing_from_being_evicted(at: str) -> None:
    store = queued(binding("web", ANYWHERE, on={"member1": 2}))

    report = evict(store, scheduler=Failing(at))

    assert report.failures == ()
    assert len(evicted(store)) == 1
    assert placed(store) == {"web-deployment": []}
    assert [ref.name for ref in store.due["scheduler"]] == ["web-deployment"]


def test_one_step_ends_as_two_steps_do() -> None:
    bindings = [binding(f"web{number}", ANYWHERE, on={"member1": number + 1}) for number in range(5)]
    together, apart = queued(*bindings), queued(*bindings)
    evict(together)
    evict(apart, alone=True)
    assert set(map(len, placed(apart).values())) == {0}
    run_batch(CONTROLLERS[2], apart, FAST, world=WORLD)

    assert content(together) == content(apart)
    keys = [str(ref) for ref in content(together)["objects"]]
    notes = [store.rows(PlacementNote, "key", keys) for store in (together, apart)]
    assert set(notes[0]) == set(notes[1]) == set(keys)


def shut(cluster: Cluster) -> Cluster:
    """Return a cluster with a taint that keeps new copies away."""
    return cluster.with_spec(taints=(*cluster.spec.taints, Taint("closed", "NoSchedule")))


class Overtaken(MemoryStore):
    """A store in which something changes between the look and the first write of evictions."""

    change: Callable[[MemoryStore], None] | None = None

    def apply(
        self,
        decisions: Sequence[tuple[Claim | None, Decision]],
        *,
        by: Actor,
        lease: HeldLease | None = None,
        dry_run: bool = False,
        complete: Complete | None = None,
    ) -> Sequence[Outcome]:
        change, self.change = self.change, None
        if change is not None:
            change(self)
        return super().apply(decisions, by=by, lease=lease, dry_run=dry_run, complete=complete)


def close(store: MemoryStore) -> None:
    """Put a taint on the clusters that are left."""
    for name in ("member2", "member3"):
        old = cast(Cluster, store.objects[Ref("cluster.karmada.io/Cluster", "", name)])
        store.put(shut(old), old)


def test_a_binding_whose_place_changes_meanwhile_is_evicted_and_due_for_the_scheduler() -> None:
    store = queued(binding("web", ANYWHERE, on={"member1": 2}), store=Overtaken)
    cast(Overtaken, store).change = close

    evict(store)

    assert len(evicted(store)) == 1
    assert placed(store) == {"web-deployment": []}
    assert [ref.name for ref in store.due["scheduler"] if ref.kind == RESOURCE_BINDING] == ["web-deployment"]


def test_a_binding_that_changes_meanwhile_is_not_evicted_by_the_old_decision() -> None:
    def edit(store: MemoryStore) -> None:
        old = cast(Binding, store.list(RESOURCE_BINDING)[0])
        store.put(old.with_spec(clusters=()), old)

    store = queued(binding("web", ANYWHERE, on={"member1": 2}), store=Overtaken)
    cast(Overtaken, store).change = edit

    evict(store)

    assert evicted(store) == []
    assert placed(store) == {"web-deployment": []}


def test_at_most_one_controller_of_another_group_follows() -> None:
    for one in EVERY:
        others = [follower for follower in followers(one, EVERY, Settings()) if follower.group != one.group]
        assert len(others) <= 1, one.name


def test_a_scheduler_that_is_switched_off_does_not_follow() -> None:
    store = queued(binding("web", ANYWHERE, on={"member1": 2}))

    evict(store, settings=replace(FAST, controllers=("*", "-scheduler")))

    assert len(evicted(store)) == 1
    assert placed(store) == {"web-deployment": []}


class Demanding(Scheduler):
    """A scheduler whose decisions have more than what it writes, or write something else."""

    def __init__(self, change: Callable[[Decision], Decision]) -> None:
        super().__init__()
        self.change = change

    def deciding(self, snapshots: Any, settings: Any, *, now: Any) -> Any:
        decide = super().deciding(snapshots, settings, now=now)
        return lambda part: [self.change(one) if isinstance(one, Decision) else one for one in decide(part)]


def with_puts(change: Callable[[Put], tuple[Put | Delete, ...]]) -> Callable[[Decision], Decision]:
    """Return what changes each Put of a decision."""

    def changed(decision: Decision) -> Decision:
        new = [change(one) if isinstance(one, Put) else (one,) for one in decision.changes]
        return replace(decision, changes=tuple(one for ones in new for one in ones))

    return changed


@pytest.mark.parametrize(
    "change",
    [
        lambda decision: replace(decision, wake_at=START),
        lambda decision: replace(decision, separate_decisions=(Decision(),)),
        lambda decision: replace(decision, guards=(unchanged("Node", ()),)),
        with_puts(lambda put: ()),
        with_puts(lambda put: (put, Put(cluster("member9"), None))),
        with_puts(lambda put: (Delete(put.new),)),
        with_puts(lambda put: (replace(put, old=put.new),)),
    ],
    ids=["looks again", "separate", "guards", "no object", "two objects", "a deletion", "another version"],
)
def test_a_scheduler_that_does_more_than_place_the_binding_does_so_in_its_own_turn(
    change: Callable[[Decision], Decision],
) -> None:
    store = queued(binding("web", ANYWHERE, on={"member1": 2}))

    evict(store, scheduler=Demanding(change))

    assert len(evicted(store)) == 1
    assert placed(store) == {"web-deployment": []}
    assert [ref.name for ref in store.due["scheduler"]] == ["web-deployment"]


def followed_by(
    scheduler: Scheduler, store: MemoryStore, change: Callable[[Decision], Decision]
) -> tuple[Decision, Decision]:
    """Return the decision to evict the only binding of a store, changed, without and with what a scheduler decides."""
    (web,) = store.list(RESOURCE_BINDING)
    (snapshot,) = Evictions().load(store, [FLEET])
    assert snapshot is not None
    (leaves,) = Evictions().decide(snapshot, FAST, now=START, answer=Tokens({"fleet": 1}, 0.0)).separate_decisions
    made = change(leaves)
    (found, failed), completion = with_following(
        [Decision(separate_decisions=(made,)), ValueError("this decision failed")],
        [web.ref, web.ref],
        [scheduler],
        store,
        FAST,
        group=Evictions.group,
        now=START,
        phase=lambda *_: nullcontext(),
    )
    assert str(failed) == "this decision failed"
    assert completion is not None
    (composed,) = completion(cast(Decision, found).separate_decisions)
    return made, composed


def test_what_an_eviction_and_the_placement_rest_on_is_kept_of_both() -> None:
    store = queued(binding("web", ANYWHERE, on={"member1": 2}))
    (old,) = store.list(RESOURCE_BINDING)
    others = (Put(cluster("member9"), None), Put(WORK, None))
    chooses = Demanding(with_puts(lambda put: (replace(put, upon=("labels", "annotations")),)))

    def more(leaves: Decision) -> Decision:
        upon = with_puts(lambda put: (replace(put, upon=("labels",)),))(leaves)
        return replace(upon, guards=(*upon.guards, GONE), changes=(*others, *upon.changes))

    leaves, composed = followed_by(chooses, store, more)

    (*first, put) = (change for change in composed.changes if isinstance(change, Put))
    assert tuple(first) == others
    assert (put.old, put.upon) == (old, ("labels", "annotations"))
    assert cast(Binding, put.new).spec.clusters
    assert set(composed.guards) > {*leaves.guards}
    assert len(set(composed.guards)) == len(composed.guards)


@pytest.mark.parametrize("fields", [{"exact": True}, {"old": None}], ids=["exactly", "created"])
def test_a_write_that_must_be_exact_or_creates_the_object_is_not_completed(fields: dict[str, Any]) -> None:
    store = queued(binding("web", ANYWHERE, on={"member1": 2}))
    (web,) = store.list(RESOURCE_BINDING)
    (snapshot,) = Evictions().load(store, [FLEET])
    assert snapshot is not None
    (leaves,) = Evictions().decide(snapshot, FAST, now=START, answer=Tokens({"fleet": 1}, 0.0)).separate_decisions
    made = with_puts(lambda put: (replace(put, **fields),))(leaves)

    _, completion = with_following(
        [Decision(separate_decisions=(made,))],
        [web.ref],
        [Scheduler()],
        store,
        FAST,
        group=Evictions.group,
        now=START,
        phase=lambda *_: nullcontext(),
    )

    assert completion is None


def test_rows_are_written_once_as_the_last_decision_has_them() -> None:
    store = queued(binding("web", ANYWHERE, on={"member1": 2}))
    before = (Save(PlacementNote("changed", "first")), Save(PlacementNote("taken back", "first")))
    last = (Save(PlacementNote("changed", "last")), Drop(PlacementNote("taken back")), Drop(PlacementNote("stored")))

    def with_rows(*rows: Save | Drop) -> Callable[[Decision], Decision]:
        return lambda decision: replace(decision, changes=(*decision.changes, *rows))

    _, composed = followed_by(Demanding(with_rows(*last)), store, with_rows(*before))

    rows = [change for change in composed.changes if isinstance(change, Save | Drop)]
    keys = {change.row.key for change in (*before, *last)}
    assert [change for change in rows if change.row.key in keys] == [last[0], last[2]]


# The state that decisions leave


ON_BOTH = binding("both", None, on={"member1": 1, "member2": 1})
ON_FIRST = binding("first", None, on={"member1": 1})
LATER = binding("later", None, on={"member1": 1})


@pytest.mark.parametrize("limit", [0, 1, 2])
@pytest.mark.parametrize(
    "writes",
    [
        (),
        (LATER,),
        (ON_BOTH.with_spec(clusters=ON_FIRST.spec.clusters),),
        (ON_FIRST.with_spec(clusters=()), LATER),
        (ON_BOTH.with_spec(clusters=()),),
        (ON_BOTH.with_spec(clusters=()), ON_FIRST.with_spec(clusters=())),
        (cluster("member1"),),
        (cluster("member1"), WORK, LATER),
    ],
    ids=[
        "nothing",
        "new",
        "one cluster less",
        "left and new",
        "the first left",
        "both left",
        "another kind",
        "several kinds",
    ],
)
def test_objects_are_found_where_they_will_be_when_the_decisions_are_stored(
    writes: tuple[Object, ...], limit: int
) -> None:
    before, after = (MemoryStore(controllers=(), clock=lambda: START) for _ in range(2))
    for store in (before, after):
        store.create(ON_BOTH, ON_FIRST)
    for new in writes:
        after.put(new, after.objects[new.ref]) if new.ref in after.objects else after.create(new)
    overlaid = OverlaidState(cast(State, before), {new.ref: new for new in writes})

    found, wanted = (
        state.by_index(RESOURCE_BINDING, "placed", ["member1", "member2", "member3"], limit=limit)
        for state in (overlaid, after)
    )

    assert _names(found) == _names(wanted)
    assert _names(overlaid.get([ON_BOTH.ref, LATER.ref])) == _names(after.get([ON_BOTH.ref, LATER.ref]))


def _names(found: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return what was found by index or by reference, without versions."""
    return {
        key: [(one.ref, one.spec) for one in (value if isinstance(value, list | tuple) else [value])]
        for key, value in found.items()
    }


def reservation(key: str, name: str, replicas: int, *, age: int = 0) -> CapacityReservation:
    made_at = START - timedelta(seconds=age)
    return CapacityReservation(key, f"b/{key}", name, replicas, made_at=made_at)


STORED = (
    reservation("a", "member1", 3),
    reservation("b", "member2", 2),
    reservation("old", "member2", 7, age=86_400),
    reservation("expiring", "member2", 5, age=3_600),
)


@pytest.mark.parametrize(
    "changes",
    [
        (),
        (Save(reservation("new", "member1", 5)),),
        (Save(reservation("a", "member2", 1)),),
        (Drop(STORED[0]),),
        (Drop(STORED[2]), Save(reservation("b", "member2", 4))),
        (Drop(STORED[3]),),
    ],
    ids=["nothing", "new", "another cluster", "dropped", "old dropped and another raised", "dropped as it expires"],
)
def test_reserved_capacity_is_what_it_will_be_when_the_decisions_are_stored(changes: tuple[Save | Drop, ...]) -> None:
    before = MemoryStore(controllers=(), clock=lambda: START)
    before.apply([(None, Decision(changes=tuple(map(Save, STORED))))], by=BY)
    after = MemoryStore(controllers=(), clock=lambda: START)
    after.apply([(None, Decision(changes=tuple(map(Save, STORED))))], by=BY)
    if changes:
        after.apply([(None, Decision(changes=changes))], by=BY)
    bindings = ["b/a", "b/b", "b/new", "b/old", "b/expiring"]

    overlaid = OverlaidState(cast(State, before), dict[Ref, Object](), changes)

    for totals in (True, False):
        found, wanted = (
            one.reserved_capacity(within=timedelta(hours=1), bindings=bindings, totals=totals)
            for one in (overlaid, after)
        )
        assert sorted(found.totals) == sorted(wanted.totals)
        assert _plain(found.own) == _plain(wanted.own)


def _plain(own: Mapping[str, Sequence[CapacityReservation]]) -> dict[str, list[CapacityReservation]]:
    return {key: [replace(row, writer="") for row in rows] for key, rows in own.items() if rows}


SLOWLY = Toleration(key="old", operator="Exists", effect="NoExecute", toleration_seconds=60)


@pytest.mark.parametrize("alone", [False, True], ids=["in one write", "in two"])
def test_a_copy_that_comes_to_a_tainted_cluster_is_judged_there(alone: bool) -> None:
    store = queued(
        binding("web", duplicated("member1", "member2", least=1, most=1, tolerations=(SLOWLY,)), on={"member1": 2})
    )
    store.create(*(cluster(f"other{number}") for number in range(5)))  # else most of the fleet is faulty
    store.put(store.get([MEMBER2])[MEMBER2].with_spec(taints=(no_execute("old"),)), store.get([MEMBER2])[MEMBER2])
    run.run_until_idle([CONTROLLERS[0]], store, FAST, world=WORLD)

    evict(store, alone=alone)
    run.run_until_idle([CONTROLLERS[2], CONTROLLERS[0]], store, FAST, world=WORLD)

    assert placed(store) == {"web-deployment": ["member2"]}
    rows = store.rows(Eviction, "state", [EVICTED, QUEUED])
    assert {state: [row.cluster for row in found] for state, found in rows.items()} == {
        EVICTED: ["member1"],
        QUEUED: ["member2"],
    }
