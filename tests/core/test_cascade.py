"""A new template gets its binding, its placement and its Works in one step, or step by step where that is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.controllers.policies import Policies
from controlplane.controllers.scheduler import Scheduler
from controlplane.controllers.works import Works
from controlplane.engine.cascade import followers
from controlplane.engine.controller import Controller
from controlplane.engine.decision import Decision
from controlplane.engine.memory import MemoryStore
from controlplane.engine.routing import OwnershipError
from controlplane.engine.run import Failure, Report, World, run_batch
from controlplane.engine.state import Actor, Claim, HeldLease, Outcome, State, Unstorable
from controlplane.kinds.policy import Placement, ReplicaSchedulingStrategy
from controlplane.kinds.rows import CapacityReservation
from controlplane.settings import Settings
from tests.builders.objects import START, cluster, deployment, policy

WEB = deployment("web")
BINDING = Ref(kinds.RESOURCE_BINDING, "default", "web-deployment")
EVERYWHERE = policy(placement=Placement(replica_scheduling=ReplicaSchedulingStrategy()))


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

    def content(chain: Chain) -> dict[Ref, Any]:
        return {
            ref: obj.with_meta(resource_version="")
            for ref, obj in chain.store.objects.items()
            if ref.kind in (kinds.RESOURCE_BINDING, kinds.WORK, "apps/Deployment")
        }

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


def test_what_cannot_be_stored_together_is_stored_without_its_followers() -> None:
    class Full(MemoryStore):
        def apply(
            self,
            decisions: Sequence[tuple[Claim | None, Decision]],
            *,
            by: Actor,
            lease: HeldLease | None = None,
            dry_run: bool = False,
        ) -> Sequence[Outcome]:
            if any(decision.followed for _, decision in decisions):
                raise Unstorable("a Work is too large")
            return super().apply(decisions, by=by, lease=lease, dry_run=dry_run)

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


def test_a_controller_that_is_switched_off_does_not_follow() -> None:
    chain = Chain()
    chain.settings = Settings(controllers=("*", "-works"))

    chain.batch("policies")

    assert chain.due == {("works", BINDING)}
