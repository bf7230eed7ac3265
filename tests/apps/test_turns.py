"""Turns: one process at a time works on a shard of a group, and one that lost its lease writes nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, connections

from apps.clusters.joining import create_missing
from apps.objects.configuration import Configuration, configuration
from apps.objects.due import BUNDLED_FROM
from apps.objects.namespaces import make_namespaces
from apps.objects.store import DjangoStore
from apps.worker import turn as turn_module
from apps.worker.clock import monotonic_seconds
from apps.worker.groups import INTERVAL_SECONDS
from apps.worker.nudges import Nudges
from apps.worker.started_groups import StartedGroups
from apps.worker.turn import COLLECT_FROM, QUIET_SECONDS, Turn
from controlplane import kinds
from controlplane.apimachinery.meta import ObjectMeta, Ref
from controlplane.controllers import CONTROLLERS
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import Decision, Put, Save
from controlplane.engine.run import World
from controlplane.engine.state import Actor, State, Watch
from controlplane.kinds.configuration import FailoverConfiguration
from controlplane.kinds.rows import Observation
from controlplane.settings import Settings
from tests.apps.stack import deployment, policy
from tests.builders.bare import binding

pytestmark = pytest.mark.django_db(transaction=True)

BINDING = Ref(kinds.RESOURCE_BINDING, "default", "web-deployment")
MEMBER = Ref(kinds.CLUSTER, "", "member1")


@pytest.fixture
def store() -> DjangoStore:
    return DjangoStore(controllers=CONTROLLERS)


def turn(store: DjangoStore) -> Turn:
    """A turn of the group that makes bindings of templates, as another process would have it."""
    return Turn("scheduling", 0, store=store, world=World(), configuration=configuration())


def give_work(store: DjangoStore) -> None:
    make_namespaces(store)
    create_missing(store, policy("member1"), Settings())
    create_missing(store, deployment("web"), Settings())


def pass_lease_time() -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE objects_lease SET until = clock_timestamp() - interval '1 second'")


def fleet(store: DjangoStore) -> Turn:
    """A turn of the group that judges clusters; settings it has just read."""
    read = Configuration(store)
    read.settings()
    return Turn("fleet", 0, store=store, world=World(), configuration=read)


def join(store: DjangoStore) -> None:
    text = "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: member1}, spec: {syncMode: Push}}"
    create_missing(store, text, Settings())


def change_settings(store: DjangoStore, spec: str) -> None:
    head = "apiVersion: failover.lifeboat.io/v1alpha1, kind: FailoverConfiguration, metadata: {name: default}"
    create_missing(store, f"{{{head}, spec: {spec}}}", Settings())


def taints(store: DjangoStore) -> list[str]:
    return [one.effect for one in store.get([MEMBER])[MEMBER].spec.taints]


def test_a_change_of_settings_counts_at_once_although_they_were_read_a_moment_ago(store: DjangoStore) -> None:
    join(store)
    fleet(store).once()
    assert taints(store) == ["NoSchedule"]
    turn = fleet(store)

    change_settings(store, "{autoNoScheduleTaints: false}")
    turn.once()

    assert taints(store) == []


def test_a_threshold_that_is_lowered_counts_for_what_is_being_waited_for(store: DjangoStore) -> None:
    def seen(status: str, *, seconds: float) -> None:
        now = store.now()
        row = Observation("member1", status, since=now - timedelta(seconds=seconds), observed_at=now)
        store.apply([(None, Decision(changes=(Save(row),)))], by=Actor("test"))
        fleet(store).once()

    join(store)
    seen("True", seconds=60)
    seen("False", seconds=20)
    assert store.get([MEMBER])[MEMBER].ready == "True"

    change_settings(store, "{clusterFailureThreshold: 10}")
    fleet(store).once()

    assert store.get([MEMBER])[MEMBER].ready == "False"


def test_a_process_that_never_read_settings_it_can_use_evicts_nothing(store: DjangoStore) -> None:
    """Another environment than yesterday's: the object, which may have closed the gate, is at odds with it."""
    running, meta = Configuration(store), ObjectMeta(name="default", uid="uid", generation=1)
    assert running.settings().resource_eviction_rate == Settings().resource_eviction_rate
    closed = FailoverConfiguration(
        "failover.lifeboat.io/v1alpha1",
        "FailoverConfiguration",
        meta,
        {"featureGates": {"Failover": False}, "secondaryResourceEvictionRate": 9},
    )
    store.apply([(None, Decision(changes=(Put(closed, None),)))], by=Actor("test"))

    rates = [one.settings(reread=True).resource_eviction_rate for one in (running, Configuration(store))]

    assert rates == [Settings().resource_eviction_rate, 0]


def test_a_turn_works_off_what_is_due(store: DjangoStore) -> None:
    give_work(store)

    assert turn(store).once() > 0

    assert BINDING in store.get([BINDING])
    assert turn(store).once() == 0


def test_while_one_has_the_lease_another_does_nothing(store: DjangoStore) -> None:
    first = turn(store)
    assert first._renew()
    give_work(store)

    assert turn(store).once() == 0
    assert store.get([BINDING]) == {}

    first._release()
    assert turn(store).once() > 0
    assert BINDING in store.get([BINDING])


def test_who_waits_for_a_lease_takes_it_when_it_is_returned(
    store: DjangoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.worker.turn.STAND_BY_SECONDS", 60.0)
    first, second = turn(store), turn(store)
    assert first._renew()
    give_work(store)
    waits, wait = threading.Event(), Nudges.wait

    def waiting(self: Nudges, seconds: float, names: frozenset[str]) -> bool:
        waits.set()
        return wait(self, seconds, names)

    def in_a_thread() -> None:
        try:
            second.run(0.0, go_on=lambda: BINDING not in store.get([BINDING]))
        finally:
            connections.close_all()

    monkeypatch.setattr(Nudges, "wait", waiting)
    standing_by = threading.Thread(target=in_a_thread)
    standing_by.start()
    assert waits.wait(30)

    first._release()

    standing_by.join(30)
    assert not standing_by.is_alive()
    assert BINDING in store.get([BINDING])


def test_a_turn_whose_lease_has_passed_writes_nothing_and_loses_nothing(store: DjangoStore) -> None:
    paused = turn(store)
    assert paused._renew()
    give_work(store)
    pass_lease_time()
    second = turn(store)
    assert second._renew()
    before = store.current_version()

    paused.run(0.5)

    assert store.current_version() == before
    assert second.work() > 0
    assert BINDING in store.get([BINDING])


def test_what_a_dead_process_had_claimed_is_worked_off_at_once(store: DjangoStore) -> None:
    give_work(store)
    claimed = store.claim("policies", shard=0, shards=1, limit=500, lease_seconds=3600)
    assert claimed.claims

    turn(store).once()

    assert BINDING in store.get([BINDING])


class Broken(Controller):
    """Cannot even load."""

    name = "policies"
    group = "scheduling"
    keys = ("apps/Deployment",)
    watches = ()
    owns = Ownership({})

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Any]:
        raise RuntimeError("no such column")


def test_a_controller_that_fails_as_a_whole_does_not_stop_its_group(store: DjangoStore) -> None:
    give_work(store)
    one = turn(store)
    healthy = [controller for controller in one.controllers if controller.name != "policies"]
    one.controllers = (Broken(), *healthy)
    store.mark("works", [BINDING])

    one.once()

    assert store.claim("works", shard=0, shards=1, limit=10, lease_seconds=0).claims == ()
    assert store.get([BINDING]) == {}
    pass_lease_time()
    assert turn(store).once() > 0
    assert BINDING in store.get([BINDING])


def test_a_controller_that_has_failed_runs_again_in_a_turn_that_does_not_end(
    store: DjangoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn does not end while no ticks arrive, because beat or the broker is away."""
    give_work(store)
    one = turn(store)
    healthy = one.controllers
    one.controllers = (Broken(), *(controller for controller in healthy if controller.name != "policies"))
    one.work()
    one.controllers = healthy
    one.work()
    assert store.get([BINDING]) == {}, "it is not tried again at once"

    monkeypatch.setattr(turn_module, "monotonic_seconds", lambda: monotonic_seconds() + INTERVAL_SECONDS)
    one.work()

    assert BINDING in store.get([BINDING])


class Storm(Controller):
    """Many clusters change at once, and to find out whom one concerns takes its time."""

    name = "storm"
    group = "propagation"
    keys = ("apps/Deployment",)
    watches = ()
    owns = Ownership({})

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.expanded: list[str] = []

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        began = monotonic_seconds()
        while monotonic_seconds() - began < self.seconds:
            pass
        self.expanded.append(origin.name)
        return [], None


def test_many_fan_outs_at_once_leave_the_others_their_turn_and_the_lease_with_its_holder(store: DjangoStore) -> None:
    """With all of 124 of them in one batch the lease passed meanwhile, and each process of the pool did the same."""
    one = turn(store)
    one.lease_seconds = 3.0
    storm = Storm(0.3)
    one.controllers, one.shards = (storm,), {storm.name: 1}
    names = [f"member{n}" for n in range(5)]
    store.mark(storm.name, [Ref(kinds.CLUSTER, "", name) for name in names])

    assert one.work() > 0
    assert len(storm.expanded) == 2
    while one.work():
        pass

    assert sorted(storm.expanded) == names


def test_a_pool_of_processes_begins_once() -> None:
    """Each process that begins again looks at every binding of every cluster that moves workloads."""
    begun = StartedGroups(["failover/0", "scheduling/0"])

    child = os.fork()
    if not child:
        begun.add("scheduling/0")
        os._exit(0)
    os.waitpid(child, 0)

    assert "scheduling/0" in begun
    assert "failover/0" not in begun


def test_a_turn_begins_with_what_concerns_everything_and_the_next_one_does_not(
    store: DjangoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.worker.turn._started", StartedGroups(["scheduling/0"]))

    assert turn(store).once() > 0
    with connection.cursor() as cursor:
        cursor.execute("UPDATE objects_due SET due_at = 'infinity'")
    assert turn(store).once() == 0


class Seen(Controller):
    """Sees which objects it is run for."""

    name = "seen"
    group = "propagation"
    keys = ("apps/Deployment",)
    watches = ()
    owns = Ownership({})

    def __init__(self) -> None:
        self.batches: list[int] = []

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[None]:
        self.batches.append(len(refs))
        return [None] * len(refs)


def deployments(count: int, prefix: str) -> list[Ref]:
    return [Ref("apps/Deployment", "default", f"{prefix}{number}") for number in range(count)]


def seeing(store: DjangoStore) -> tuple[Turn, Seen]:
    one, seen = turn(store), Seen()
    one.controllers, one.shards, one.names = (seen,), {seen.name: 1}, frozenset({seen.name})
    return one, seen


class Fleetwide(Seen):
    """Claims one object and decides about three others, as evictions do."""

    owns = Ownership({}, rows=(Observation,))

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Any]:
        return refs

    def decide(self, snapshot: Any, settings: Any, *, now: datetime, answer: Any = None) -> Decision:
        rows = [Save(Observation(f"member{number}", since=now)) for number in range(3)]
        return Decision(separate_decisions=tuple(Decision(changes=(row,)) for row in rows))


def test_a_turn_reports_how_many_decisions_of_a_controller_were_stored(store: DjangoStore) -> None:
    """So a process that evicts thousands of copies is not taken for a quiet one, although it claims one object."""
    fleetwide, counts = Fleetwide(), list[tuple[str, int]]()
    one = turn(DjangoStore(controllers=[fleetwide]))
    one.stored = lambda controller, decisions: counts.append((controller, decisions))
    one.controllers, one.shards, one.names = (fleetwide,), {fleetwide.name: 1}, frozenset({fleetwide.name})
    store.mark(fleetwide.name, deployments(1, "fleet"))

    assert one.work() == 1
    assert counts == [(fleetwide.name, 4)]  # one of them is about the claimed object


def test_a_stream_of_changes_is_collected_into_few_batches(store: DjangoStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_module, "COLLECT_SECONDS", 3600.0)  # three changes take a while on a slow machine
    one, seen = seeing(store)
    store.mark(seen.name, deployments(COLLECT_FROM, "first"))

    assert one.work(collect=True) == COLLECT_FROM
    for name in ("a", "b", "c"):
        store.mark(seen.name, deployments(1, name))
        assert one.work(collect=True) == 0
    one.run(30.0, stopped=lambda: len(seen.batches) > 1)

    assert seen.batches == [COLLECT_FROM, 3]


def test_a_stream_that_has_ended_is_not_waited_for(store: DjangoStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last changes of a failover wait for QUIET_SECONDS, not for COLLECT_SECONDS."""
    monkeypatch.setattr(turn_module, "COLLECT_SECONDS", 3600.0)
    one, seen = seeing(store)
    store.mark(seen.name, deployments(COLLECT_FROM, "first"))
    assert one.work(collect=True) == COLLECT_FROM
    store.mark(seen.name, deployments(1, "last"))

    one.run(30.0, stopped=lambda: len(seen.batches) > 1)

    assert seen.batches == [COLLECT_FROM, 1]


def test_a_stream_that_goes_on_is_collected_until_its_time_has_passed(
    store: DjangoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(turn_module, "monotonic_seconds", lambda: clock[-1])

    class Heard(Nudges):
        """Hears what the controller is notified of, as often as it is asked for, and then another controller."""

        def __init__(self, times: int) -> None:
            super().__init__()
            self.left = times

        def next_notified(self, seconds: float) -> set[str]:
            assert seconds <= QUIET_SECONDS + 1e-9
            clock.append(clock[-1] + min(seconds, 0.8 * QUIET_SECONDS))
            self.left -= 1
            return {"~seen" if self.left % 3 else "seen"} if self.left > 0 else {"other"}

    one, _ = seeing(store)
    one.names = frozenset({"seen", "other"})
    one._collects_until = {"seen": 1e12}
    nudges = Heard(100)

    one._collect(nudges, 3600.0, frozenset({"seen"}))

    assert nudges.left == 0
    assert one._collects_until == {"seen": 1e12}


class Bundled(Seen):
    """Is due for each binding that is created. What one write creates is due together."""

    name = "bundled"  # the size of a batch is kept by name
    keys = (kinds.RESOURCE_BINDING,)
    watches = (Watch(kinds.RESOURCE_BINDING, lambda old, new: [new.ref] if new else [], bundled=True),)
    batch = COLLECT_FROM + BUNDLED_FROM // 2


def test_what_did_not_fit_into_a_batch_is_no_stream_that_is_waited_for(
    store: DjangoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COLLECT_SECONDS", "QUIET_SECONDS"):
        monkeypatch.setattr(turn_module, name, 3600.0)
    one, seen = turn(store), Bundled()
    one.controllers, one.shards, one.names = (seen,), {seen.name: 1}, frozenset({seen.name})
    for part, count in (("a", COLLECT_FROM), ("b", BUNDLED_FROM)):
        made = [(None, Decision(changes=(Put(binding(f"{part}{number}"), None),))) for number in range(count)]
        DjangoStore(controllers=[seen]).apply(made, by=Actor("jane"))

    one.run(30.0, stopped=lambda: len(seen.batches) > 1)

    assert seen.batches == [COLLECT_FROM, BUNDLED_FROM]


def test_what_comes_after_a_few_changes_is_processed_at_once(store: DjangoStore) -> None:
    one, seen = seeing(store)
    for name in ("a", "b"):
        store.mark(seen.name, deployments(COLLECT_FROM - 1, name))
        assert one.work(collect=True) == COLLECT_FROM - 1


def test_a_backlog_is_worked_off_without_a_pause(store: DjangoStore) -> None:
    one, seen = seeing(store)
    store.mark(seen.name, deployments(2 * seen.batch, "many"))

    assert [one.work(collect=True) for _ in range(3)] == [seen.batch, seen.batch, 0]
