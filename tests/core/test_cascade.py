"""A new template gets its binding, its placement and its Works in one step, or step by step where that is refused.

A binding that is placed again gets its Works in the same step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, cast

import pytest
from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import execution_namespace, work_name
from controlplane.controllers.policies import Policies
from controlplane.controllers.scheduler import Scheduler
from controlplane.controllers.works import Works
from controlplane.engine.cascade import followers, with_following
from controlplane.engine.controller import Controller
from controlplane.engine.decision import Decision, Delete, Guard, Put
from controlplane.engine.failure import Failure
from controlplane.engine.memory import MemoryStore
from controlplane.engine.routing import OwnershipError
from controlplane.engine.run import Report, World, run_batch
from controlplane.engine.state import Actor, Claim, Complete, HeldLease, Outcome, State, Unstorable
from controlplane.kinds.binding import Binding
from controlplane.kinds.policy import ClusterAffinity, Placement, ReplicaSchedulingStrategy
from controlplane.kinds.rows import CapacityReservation
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster, policy, work
from tests.builders.templates import deployment

WEB = deployment("web")
BINDING = Ref(kinds.RESOURCE_BINDING, "default", "web-deployment")
EVERYWHERE = policy(placement=Placement(replica_scheduling=ReplicaSchedulingStrategy()))
UNPLACED, OTHER, ZOO = (binding(name, EVERYWHERE.spec.placement, scheduled=False) for name in ("web", "other", "zoo"))
OLDER, OLDER_OTHER, OLDER_ZOO = (one.with_spec(replicas=9) for one in (UNPLACED, OTHER, ZOO))


class Chain:
    """A store with the three controllers, and a template that a policy selects."""

    def __init__(self, *controllers: Controller, store: Callable[..., MemoryStore] = MemoryStore) -> None:
        self.controllers = controllers or (Scheduler(), Policies(), Works())
        self.store = store(controllers=self.controllers, clock=lambda: START)
        self.settings = Settings()
        self.failures: list[Failure] = []
        self.store.create(cluster("member1"), cluster("member2"), EVERYWHERE, WEB)
        self.store.due.clear()
        self.store.log.clear()
        self.store.mark("policies", [WEB.ref])

    def batch(self, name: str) -> Report:
        controller = next(one for one in self.controllers if one.name == name)
        following = followers(controller, self.controllers, self.settings)
        world = World(report=self.failures.append)
        return run_batch(controller, self.store, self.settings, world=world, following=following)

    @property
    def due(self) -> set[tuple[str, Ref]]:
        return {(name, ref) for name, rows in self.store.due.items() for ref in rows}

    @property
    def logged(self) -> list[tuple[str, str, str]]:
        """Return who wrote what, without Events."""
        return [(line.actor, line.type, line.ref.kind) for line in self.store.log if line.ref.kind != "Event"]


def content(chain: Chain) -> dict[Ref, Any]:
    """Return the template, the binding and the Works without their versions."""
    return {
        ref: obj.with_meta(resource_version="")
        for ref, obj in chain.store.objects.items()
        if ref.kind in (kinds.RESOURCE_BINDING, kinds.WORK, "apps/Deployment")
    }


def test_a_new_template_is_placed_and_rendered_in_one_step() -> None:
    chain = Chain()

    chain.batch("policies")

    assert chain.due == set()
    assert [target.name for target in chain.store.objects[BINDING].spec.clusters] == ["member1", "member2"]
    assert sorted(chain.logged) == [
        ("policies", "ADDED", kinds.RESOURCE_BINDING),
        ("policies", "MODIFIED", "apps/Deployment"),
        ("works", "ADDED", kinds.WORK),
        ("works", "ADDED", kinds.WORK),
    ]


def test_one_step_ends_as_three_steps_do() -> None:
    together, apart = Chain(), Chain()
    together.batch("policies")
    Policies.followed_by, before = (), Policies.followed_by
    try:
        for name in ("policies", "scheduler", "works"):
            apart.batch(name)
    finally:
        Policies.followed_by = before

    assert content(together) == content(apart)
    assert len(apart.logged) == len(together.logged) + 1
    rows = [
        {
            row.key: row.replicas
            for row in chain.store.rows(CapacityReservation, "binding", [str(BINDING)])[str(BINDING)]
        }
        for chain in (together, apart)
    ]
    assert rows[0] == rows[1] != {}


def test_events_name_the_controller_that_decided() -> None:
    chain = Chain()

    chain.batch("policies")

    reporters = {obj.reason: obj.reporting_component for ref, obj in chain.store.objects.items() if ref.kind == "Event"}
    assert reporters == {
        "GetReplicasSucceed": "policies",
        "ApplyPolicySucceed": "policies",
        "ScheduleBindingSucceed": "scheduler",
        "SyncWorkSucceed": "works",
    }


@pytest.mark.parametrize("fails", ["load", "ask", "decide_all", "one decision"])
def test_a_follower_that_fails_is_due_and_the_template_keeps_its_binding(fails: str) -> None:
    class Broken(Scheduler):
        def load(self, state: State, refs: Sequence[Ref], *, enforcing: bool = True) -> Sequence[Any]:
            if fails == "load":
                raise ValueError("no clusters")
            return super().load(state, refs, enforcing=enforcing)

        def ask(self, snapshots: Any, settings: Any, *, now: Any) -> Any:
            if fails == "ask":
                raise ValueError("no question")
            return super().ask(snapshots, settings, now=now)

        def decide_all(self, snapshots: Any, settings: Any, *, now: Any, answer: Any = None) -> Any:
            if fails == "decide_all":
                raise ValueError("no decisions")
            return [ValueError("no decision") for _ in snapshots]

    chain = Chain(Broken(), Policies(), Works())

    chain.batch("policies")

    assert chain.due == {("scheduler", BINDING)}
    assert chain.store.objects[BINDING].spec.clusters == ()
    assert chain.failures == []  # the scheduler reports it when its own batch fails


@pytest.mark.parametrize(
    "more",
    [
        {"wake_at": START},
        {"separate_decisions": (Decision(),)},
        {"guards": (Guard(WEB.ref, 1),)},
        {"changes": (Delete(cluster("member2")),)},
    ],
    ids=lambda more: next(iter(more)),
)
def test_a_follower_that_decides_more_than_what_it_writes_decides_in_its_own_turn(more: dict[str, Any]) -> None:
    class Demanding(Scheduler):
        def decide_all(self, snapshots: Any, settings: Any, *, now: Any, answer: Any = None) -> Any:
            decided = super().decide_all(snapshots, settings, now=now, answer=answer)
            return [replace(cast(Decision, one), **more) for one in decided]

    chain = Chain(Demanding(), Policies(), Works())

    chain.batch("policies")

    assert chain.due == {("scheduler", BINDING)}
    assert chain.store.objects[BINDING].spec.clusters == ()


def test_a_follower_that_writes_against_an_exact_version_decides_in_its_own_turn() -> None:
    class Exact(Scheduler):
        def decide_all(self, snapshots: Any, settings: Any, *, now: Any, answer: Any = None) -> Any:
            (decision,) = cast(list[Decision], super().decide_all(snapshots, settings, now=now, answer=answer))
            changes = (replace(one, exact=True) if isinstance(one, Put) else one for one in decision.changes)
            return [replace(decision, changes=tuple(changes))]

    chain = Chain(Exact(), Policies(), Works())

    chain.batch("policies")

    assert chain.store.objects[BINDING].spec.clusters == ()


@pytest.mark.parametrize(
    ("decision", "followed"),
    [
        (Decision(changes=(Put(UNPLACED, None),)), [UNPLACED]),
        (Decision(changes=(Put(ZOO, None), Put(UNPLACED, None))), [ZOO, UNPLACED]),
        (Decision(changes=(Put(UNPLACED, None),), wake_at=START), []),
        (Decision(changes=(Put(UNPLACED, None),), separate_decisions=(Decision(),)), []),
        (Decision(changes=(Put(UNPLACED, OLDER),)), [UNPLACED]),
        (Decision(changes=(Put(UNPLACED, OLDER, exact=True),)), []),
        (Decision(changes=(Put(OTHER, OLDER_OTHER),)), []),
        (Decision(changes=(Put(ZOO, OLDER_ZOO),)), []),
    ],
    ids=["new", "two", "looks again", "separate decisions", "its own", "its own, exactly", "another", "a later one"],
)
def test_what_a_decision_creates_and_its_own_object_are_followed(decision: Decision, followed: list[Binding]) -> None:
    store = MemoryStore(controllers=[Scheduler()], clock=lambda: START)
    store.create(cluster("member1"))

    (found, failed), _ = with_following(
        [decision, ValueError("this decision failed")],
        [UNPLACED.ref, OTHER.ref],
        [Scheduler()],
        store,
        Settings(),
        group=Scheduler.group,
        now=START,
        phase=lambda *_: nullcontext(),
    )

    assert [one.ref for one in cast(Decision, found).followed] == [one.ref for one in followed]
    assert str(failed) == "this decision failed"


def test_what_cannot_be_stored_together_is_stored_without_its_followers() -> None:
    class Full(MemoryStore):
        def apply(
            self,
            decisions: Sequence[tuple[Claim | None, Decision]],
            *,
            by: Actor,
            lease: HeldLease | None = None,
            dry_run: bool = False,
            complete: Complete | None = None,
        ) -> Sequence[Outcome]:
            if any(decision.followed for _, decision in decisions):
                raise Unstorable("a Work is too large")
            return super().apply(decisions, by=by, lease=lease, dry_run=dry_run, complete=complete)

    chain = Chain(store=Full)

    report = chain.batch("policies")

    assert (report.stored, report.failures) == (1, ())
    assert chain.due == {("scheduler", BINDING)}


def test_a_follower_writes_only_what_it_or_its_leader_owns() -> None:
    class Greedy(Works):
        owns = Scheduler.owns

    with pytest.raises(OwnershipError, match="may not write kind work"):
        Chain(Scheduler(), Policies(), Greedy()).batch("policies")


def test_controllers_with_shards_have_several_leases_and_do_not_follow() -> None:
    class Sharded(Scheduler):
        shards = 2

    leader, settings = Policies(), Settings()

    assert [one.name for one in followers(leader, [Scheduler(), Works()], settings)] == ["scheduler", "works"]
    assert [one.name for one in followers(leader, [Sharded(), Works()], settings)] == ["works"]


def test_a_controller_with_shards_is_not_followed() -> None:
    class Sharded(Policies):
        shards = 2

    assert followers(Sharded(), [Scheduler(), Works()], Settings()) == ()


@pytest.mark.parametrize("name", ["policies", "scheduler"])
def test_a_foreign_work_keeps_no_binding_from_being_placed(name: str) -> None:
    chain = placed() if name == "scheduler" else Chain()
    member = "member3" if name == "scheduler" else "member1"
    chain.store.create(work(work_name("Deployment", "web", "default"), member))
    chain.store.due.clear()
    chain.store.mark(name, [BINDING if name == "scheduler" else WEB.ref])

    report = chain.batch(name)

    assert (report.stored, report.lost, report.failures) == (1, 0, ())
    assert BINDING in chain.store.objects
    assert chain.due == {("works" if name == "scheduler" else "scheduler", BINDING)}


def edit(store: MemoryStore, **spec: Any) -> None:
    old = store.objects[BINDING]
    assert isinstance(old, Binding)
    store.put(old.with_spec(**spec), old)


def placed(store: Callable[..., MemoryStore] = MemoryStore) -> Chain:
    """Return a chain whose template is placed and rendered, and whose binding is due because a third cluster joined."""
    chain = Chain(store=store)
    chain.batch("policies")
    chain.store.create(cluster("member3"))
    chain.store.due.clear()
    chain.store.log.clear()
    chain.store.mark("scheduler", [BINDING])
    return chain


def test_a_binding_that_is_placed_again_gets_its_works_in_one_step() -> None:
    chain = placed()

    chain.batch("scheduler")

    assert chain.due == set()
    assert chain.logged == [("scheduler", "MODIFIED", kinds.RESOURCE_BINDING), ("works", "ADDED", kinds.WORK)]


def test_placing_again_ends_as_two_steps_do() -> None:
    together, apart = placed(), placed()
    together.batch("scheduler")
    Scheduler.followed_by, before = (), Scheduler.followed_by
    try:
        for name in ("scheduler", "works"):
            apart.batch(name)
    finally:
        Scheduler.followed_by = before

    assert content(together) == content(apart)
    assert together.logged == apart.logged


def test_a_step_that_places_a_binding_removes_no_work() -> None:
    chain = placed()
    fewer = Placement(ClusterAffinity(cluster_names=("member1",)), replica_scheduling=ReplicaSchedulingStrategy())
    edit(chain.store, placement=fewer)
    chain.store.due.clear()
    chain.store.mark("scheduler", [BINDING])

    chain.batch("scheduler")

    assert [target.name for target in chain.store.objects[BINDING].spec.clusters] == ["member1"]
    assert leaving(chain) == []
    assert ("works", BINDING) in chain.due
    chain.batch("works")
    assert leaving(chain) == [execution_namespace("member2")]


def leaving(chain: Chain) -> list[str]:
    """Return the namespaces of the Works that are being deleted."""
    found = chain.store.list(kinds.WORK)
    return [one.metadata.namespace for one in found if one.metadata.deletion_timestamp is not None]


def test_a_binding_that_changes_before_its_step_is_stored_is_due_again() -> None:
    class Overtaken(MemoryStore):
        edited = False

        def apply(
            self,
            decisions: Sequence[tuple[Claim | None, Decision]],
            *,
            by: Actor,
            lease: HeldLease | None = None,
            dry_run: bool = False,
            complete: Complete | None = None,
        ) -> Sequence[Outcome]:
            if by.name == "scheduler" and not self.edited:
                self.edited = True
                edit(self, replicas=7)
            return super().apply(decisions, by=by, lease=lease, dry_run=dry_run, complete=complete)

    chain = placed(Overtaken)

    report = chain.batch("scheduler")

    assert (report.stored, report.lost) == (0, 1)
    assert ("scheduler", BINDING) in chain.due
    assert len(chain.store.list(kinds.WORK)) == 2


def test_a_controller_that_is_switched_off_does_not_follow() -> None:
    chain = Chain()
    chain.settings = Settings(controllers=("*", "-works"))

    chain.batch("policies")

    assert chain.due == {("works", BINDING)}
