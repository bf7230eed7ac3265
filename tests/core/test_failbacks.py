"""A Failback gets through any number of bindings: page by page, and what remains is counted [recovered-clusters]
[edits-by-hand]."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane.apimachinery.meta import Condition, Object, ObjectMeta, Ref
from controlplane.controllers.failbacks import PAGE, Failbacks
from controlplane.engine import run
from controlplane.engine.memory import MemoryStore
from controlplane.engine.state import Actor
from controlplane.eviction.purge import with_task
from controlplane.kinds.binding import (
    SCHEDULED,
    AggregatedStatusItem,
    Binding,
    BindingSuspension,
    TargetCluster,
    origin,
)
from controlplane.kinds.cluster import Taint
from controlplane.kinds.eviction_hold import EvictionHold
from controlplane.kinds.failback import FAILBACK, Failback, FailbackSpec, FailbackStatus
from controlplane.kinds.maintenance_window import MaintenanceWindow
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster
from tests.builders.placements import duplicated
from tests.builders.steering import hold, window

API_VERSION = "failover.lifeboat.io/v1alpha1"
ASKED = Ref(FAILBACK, "", "back")


def away(name: str, *, suspended: bool = False) -> Binding:
    """It left home for spare. Suspended: the scheduler may not place it, so it cannot go back."""
    old = binding(name, duplicated("home", "spare", least=1, most=1), on={"home": 2})
    new = with_task(old, "home", mode="Gracefully", reason="", producer="", message="", now=START)
    gone = origin.with_departures(new, old, now=START).with_spec(
        clusters=(TargetCluster("spare", 2),), graceful_eviction_tasks=()
    )
    return gone.with_spec(suspension=BindingSuspension(scheduling=True)) if suspended else gone


def reported(*found: Object, seconds: float, at_once: int = 100) -> FailbackStatus:
    """What a Failback at 100/s says after so long."""
    now = START + timedelta(hours=1)
    controllers = [Failbacks()]
    store = MemoryStore(controllers=controllers, clock=lambda: now)
    spec = FailbackSpec("home", rate=100, at_once=at_once)
    asked = Failback(API_VERSION, "Failback", ObjectMeta(name="back"), spec)
    store.create(cluster("home"), cluster("spare"), *found, asked)
    end = now + timedelta(seconds=seconds)
    failures: list[run.Failure] = []
    while now <= end:
        run.run_until_idle(controllers, store, Settings(), world=run.World(report=failures.append))
        due = store.next_due(["failbacks"])
        assert due is not None
        now = max(now, due)
    assert not failures, failures[0].trace
    return asked_for(store)


def test_what_cannot_go_back_blocks_no_other_however_much_it_is() -> None:
    stuck = [away(f"a{number:04}", suspended=True) for number in range(2 * PAGE + 100)]

    status = reported(*stuck, away("z0"), away("z1"), seconds=20)

    assert [one.binding.rpartition("/")[2] for one in status.returning] == ["z0-deployment", "z1-deployment"]
    assert (status.remaining, status.blocked, len(status.cannot_return)) == (len(stuck), len(stuck), 10)


@pytest.mark.parametrize(
    ("holder", "goes"),
    [
        (window("spare", until=7200), True),
        (window("home", until=7200), False),
        (hold(clusters=("spare",)), False),
    ],
)
def test_a_maintenance_window_holds_what_would_go_to_its_cluster_and_not_what_leaves_it(
    holder: EvictionHold | MaintenanceWindow, goes: bool
) -> None:
    status = reported(holder, away("z0"), seconds=20)

    assert (len(status.returning), status.blocked) == (goes, not goes)


def test_what_remains_is_counted_over_all_pages() -> None:
    several = [away(f"b{number:04}") for number in range(2 * PAGE)]

    status = reported(*several, seconds=30, at_once=70)

    assert (len(status.returning), status.remaining) == (70, 2 * PAGE - 70)


@pytest.mark.parametrize("word", ["stop", "hold"])
def test_what_is_said_after_the_decision_and_before_its_writing_counts(word: str) -> None:
    now = START + timedelta(hours=1)
    store = MemoryStore(controllers=[Failbacks()], clock=lambda: now)
    asked = Failback(API_VERSION, "Failback", ObjectMeta(name="back"), FailbackSpec("home", rate=100))
    store.create(cluster("home"), cluster("spare"), away("z0"), asked)
    run.run_until_idle([Failbacks()], store, Settings(), world=run.World())
    (snapshot,) = Failbacks().load(store, [ASKED])
    assert snapshot is not None
    decision = Failbacks().decide(snapshot, Settings(), now=now + timedelta(seconds=2))
    assert len(decision.separate_decisions) == 1

    if word == "stop":
        live: Any = store.get([ASKED])[ASKED]
        store.put(live.with_spec(stop=True), live)
    else:
        store.create(hold())
    outcomes = store.apply([(None, one) for one in (decision, *decision.separate_decisions)], by=Actor("failbacks"))

    assert all(one.lost for one in outcomes), "nothing went back, and nothing is reported to be on its way"


def asked_for(store: MemoryStore) -> FailbackStatus:
    found: Any = store.get([ASKED])[ASKED]
    status: FailbackStatus = found.status
    return status


@pytest.mark.parametrize("after", [3600.0, 0.4])  # seconds since it left
def test_a_return_that_was_not_stored_is_made_again_and_not_reported_as_done(after: float) -> None:
    now = START + timedelta(seconds=after)
    store = MemoryStore(controllers=[Failbacks()], clock=lambda: now)
    home, one = cluster("home", at=START - timedelta(hours=1)), away("z0")
    asked = Failback(API_VERSION, "Failback", ObjectMeta(name="back"), FailbackSpec("home", rate=100))
    store.create(home, cluster("spare"), one, asked)
    run.run_until_idle([Failbacks()], store, Settings(), world=run.World())
    now += timedelta(seconds=0.5)
    (snapshot,) = Failbacks().load(store, [ASKED])
    assert snapshot is not None
    decision = Failbacks().decide(snapshot, Settings(), now=now)
    store.put(home.with_spec(region="north"), home)  # an edit of the cluster between the decision and its writing
    outcomes = store.apply([(None, each) for each in (decision, *decision.separate_decisions)], by=Actor("failbacks"))
    assert [bool(each.lost) for each in outcomes] == [False, True]

    now += timedelta(seconds=10)
    run.run_until_idle([Failbacks()], store, Settings(), world=run.World())

    status, stored = asked_for(store), store.get([one.ref])[one.ref]
    assert (status.phase, [each.binding for each in status.returning]) == ("Running", [str(one.ref)])
    assert stored.spec.target("home") is not None


@pytest.mark.parametrize("paused", [False, True])
def test_a_return_that_was_not_stored_is_made_in_the_next_round_if_the_present_one_has_passed_it(paused: bool) -> None:
    """What is behind it does not go back: it was edited since it left. So the round ended with nothing to do."""
    now = START + timedelta(hours=1)
    store = MemoryStore(controllers=[Failbacks()], clock=lambda: now)
    home, one = cluster("home"), away("a")
    edited = away("b").with_spec(placement=duplicated("home", "spare", "other", least=1, most=1))
    asked = Failback(API_VERSION, "Failback", ObjectMeta(name="back"), FailbackSpec("home", rate=1))
    store.create(home, cluster("spare"), one, edited, asked)

    def edit(**spec: Any) -> None:
        live: Any = store.get([home.ref])[home.ref]
        store.put(live.with_spec(**spec), live)

    def lost() -> list[bool]:
        """What is not stored of a decision, because a person edits the cluster first."""
        (snapshot,) = Failbacks().load(store, [ASKED])
        assert snapshot is not None
        decision = Failbacks().decide(snapshot, Settings(), now=now)
        edit(region=f"{now}")
        made = [(None, each) for each in (decision, *decision.separate_decisions)]
        return [bool(each.lost) for each in store.apply(made, by=Actor("failbacks"))]

    assert lost() == [False]  # there is no token yet
    now += timedelta(seconds=1)
    assert lost() == [False, True]
    assert asked_for(store).after == str(one.ref)
    if paused:
        edit(taints=(Taint("disk", "NoExecute"),))
        now += timedelta(seconds=6)
        run.run_until_idle([Failbacks()], store, Settings(), world=run.World())
        assert asked_for(store).phase == "Paused"
        edit(taints=())

    for _ in range(4):
        now += timedelta(seconds=6)
        run.run_until_idle([Failbacks()], store, Settings(), world=run.World())
        healthy(store, one.ref)

    status, stored = asked_for(store), store.get([one.ref])[one.ref]
    assert (status.phase, status.returned) == ("Finished", 1)
    assert stored.spec.target("home") is not None


def test_a_binding_that_left_two_clusters_is_back_when_it_is_on_both() -> None:
    now = START + timedelta(hours=1)
    store = MemoryStore(controllers=[Failbacks()], clock=lambda: now)
    old = binding("web", duplicated("home", "house", "spare", "other"), on={"home": 2, "house": 2})
    new = old
    for name in ("home", "house"):
        new = with_task(new, name, mode="Gracefully", reason="", producer="", message="", now=START)
    gone = origin.with_departures(new, old, now=START).with_spec(
        clusters=(TargetCluster("spare", 2),), graceful_eviction_tasks=()
    )
    spec = FailbackSpec(binding="default/web-deployment", rate=100)
    asked = Failback(API_VERSION, "Failback", ObjectMeta(name="back"), spec)
    store.create(*(cluster(name) for name in ("home", "house", "spare", "other")), gone, asked)
    for _ in range(4):
        now += timedelta(seconds=6)
        run.run_until_idle([Failbacks()], store, Settings(), world=run.World())
        healthy(store, gone.ref)

    stored, status = store.get([gone.ref])[gone.ref], asked_for(store)
    assert {"home", "house"} <= {each.name for each in stored.spec.clusters}, status
    assert (status.phase, status.returned) == ("Finished", 2)


def test_what_is_back_and_healthy_has_returned_although_a_scale_up_is_refused() -> None:
    now = START + timedelta(hours=1)
    store = MemoryStore(controllers=[Failbacks()], clock=lambda: now)
    one = away("z0")
    asked = Failback(API_VERSION, "Failback", ObjectMeta(name="back"), FailbackSpec("home", rate=100))
    store.create(cluster("home"), cluster("spare"), one, asked)
    for _ in range(2):
        run.run_until_idle([Failbacks()], store, Settings(), world=run.World())
        now += timedelta(seconds=6)
    healthy(store, one.ref)
    live = store.get([one.ref])[one.ref]
    assert live.spec.target("home") is not None
    refused = Condition(SCHEDULED, "False", "Unschedulable", "there is room for 2 of 90 replicas")
    store.put(live.with_spec(replicas=90).with_status(conditions=(refused,)), live)

    now += timedelta(seconds=700)
    run.run_until_idle([Failbacks()], store, Settings(), world=run.World())

    assert (asked_for(store).phase, asked_for(store).returned) == ("Finished", 1), asked_for(store)


def test_a_workload_that_is_scaled_to_zero_on_its_way_back_stops_no_other() -> None:
    now = START + timedelta(hours=1)
    store = MemoryStore(controllers=[Failbacks()], clock=lambda: now)
    one, other = away("z0"), away("z1")
    asked = Failback(API_VERSION, "Failback", ObjectMeta(name="back"), FailbackSpec("home", rate=1, at_once=1))
    store.create(cluster("home"), cluster("spare"), one, other, asked)
    for _ in range(2):
        run.run_until_idle([Failbacks()], store, Settings(), world=run.World())
        now += timedelta(seconds=2)
    live = store.get([one.ref])[one.ref]
    assert live.spec.target("home") is not None
    store.put(live.with_spec(replicas=0, clusters=(), graceful_eviction_tasks=()), live)

    now += timedelta(seconds=10)
    run.run_until_idle([Failbacks()], store, Settings(), world=run.World())

    status = asked_for(store)
    assert (status.phase, status.returned) == ("Running", 0), status
    assert [each.binding for each in status.returning] == [str(other.ref)]


def healthy(store: MemoryStore, ref: Ref) -> None:
    """Let the scheduler and all members report that the binding is as it is wanted."""
    live = store.get([ref])[ref]
    items = tuple(AggregatedStatusItem(each.name, applied=True, health="Healthy") for each in live.spec.clusters)
    done = live.with_spec(graceful_eviction_tasks=()).with_status(aggregated_status=items)
    store.put(done.with_status(scheduler_observed_generation=done.metadata.generation), live)
