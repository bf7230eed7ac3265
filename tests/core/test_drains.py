"""A Drain gets through any number of bindings: page by page, each with room of its own, its progress counted
[unjoin-and-drain]."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Object, ObjectMeta, Ref
from controlplane.apimachinery.names import UNSCHEDULABLE_TAINT
from controlplane.controllers.drains import PAGE, Drains
from controlplane.controllers.scheduler import Scheduler
from controlplane.engine import run
from controlplane.engine.controller import Controller
from controlplane.engine.decision import Decision, deleting
from controlplane.engine.memory import MemoryStore
from controlplane.engine.state import Actor
from controlplane.kinds import CLUSTER, KINDS, RESOURCE_BINDING
from controlplane.kinds.binding import AggregatedStatusItem, Binding, TargetCluster
from controlplane.kinds.cluster import Taint
from controlplane.kinds.drain import DRAIN, Drain, DrainSpec, DrainStatus
from controlplane.kinds.eviction_hold import EvictionHold
from controlplane.kinds.failback import FAILBACK
from controlplane.kinds.maintenance_window import MaintenanceWindow
from controlplane.kinds.rows import CapacityReservation
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster
from tests.builders.placements import by_room, duplicated
from tests.builders.steering import hold, window

CORDON = Taint(UNSCHEDULABLE_TAINT, "NoSchedule", time_added=START)
API_VERSION = "failover.lifeboat.io/v1alpha1"
ASKED = Ref(DRAIN, "", "upgrade")


class Site:
    """A cluster called full that is being drained, others beside it, and a clock moved by hand.

    `followed`: the scheduler places what leaves.
    """

    def __init__(self, *found: Object, rate: float, cordoned: bool = True, followed: bool = False) -> None:
        self.now = START
        self.controllers: list[Controller] = [Drains(), *([Scheduler()] if followed else [])]
        self.store = MemoryStore(controllers=self.controllers, clock=lambda: self.now)
        asked = Drain(API_VERSION, "Drain", ObjectMeta(name="upgrade"), DrainSpec("full", rate))
        self.store.create(cluster("full", taints=[CORDON] if cordoned else ()), *found, asked)
        self.work()

    def work(self) -> None:
        failures: list[run.Failure] = []
        run.run_until_idle(self.controllers, self.store, Settings(), world=run.World(report=failures.append))
        assert not failures, failures[0].trace

    def pass_seconds(self, seconds: float) -> None:
        end = self.now + timedelta(seconds=seconds)
        while (due := self._next()) is not None and due <= end:
            self.now = max(self.now, due)
            self.work()
        self.now = end

    def _next(self) -> datetime | None:
        return self.store.next_due([one.name for one in self.controllers])

    @property
    def status(self) -> DrainStatus:
        found: Any = self.store.get([ASKED])[ASKED]
        status: DrainStatus = found.status
        return status

    def left(self) -> list[str]:
        found = self.store.list(RESOURCE_BINDING)
        return [one.spec.resource.name for one in found if one.spec.target("full") is None]


def stuck(count: int) -> list[Binding]:
    """Bindings that may run nowhere else; their names come first."""
    return [binding(f"a{number:04}", duplicated("full"), on={"full": 2}) for number in range(count)]


def movable(count: int) -> list[Binding]:
    return [binding(f"z{number:04}", duplicated(least=1, most=1), on={"full": 2}) for number in range(count)]


def test_what_cannot_leave_blocks_no_other_however_much_it_is() -> None:
    site = Site(cluster("spare"), *stuck(1100), *movable(3), rate=10)

    site.pass_seconds(30)

    assert site.left() == ["z0000", "z0001", "z0002"]
    assert (site.status.moved, site.status.leaving, site.status.remaining) == (3, 3, 1100)
    assert site.status.blocked == 1100
    assert len(site.status.cannot_leave) == 10


def complete(name: str) -> Binding:
    """A Job that may run on other clusters too, and is complete on this one."""
    one = binding(name, duplicated(least=1, most=1), on={"full": 1})
    resource = replace(one.spec.resource, api_version="batch/v1", kind="Job")
    done = AggregatedStatusItem("full", {"conditions": [{"type": "Complete", "status": "True"}]}, applied=True)
    return one.with_spec(resource=resource).with_status(aggregated_status=(done,))


def test_jobs_that_have_finished_stay_and_do_not_run_a_second_time_elsewhere() -> None:
    jobs = [complete(f"m{number:04}") for number in range(PAGE + 1)]
    site = Site(cluster("spare"), *jobs, *movable(3), rate=10)

    site.pass_seconds(30)

    assert site.left() == ["z0000", "z0001", "z0002"]
    assert (site.status.moved, site.status.blocked, site.status.finished) == (3, 0, PAGE + 1)
    assert site.status.phase == "Running", "those that leave are still there"


def test_a_drain_is_over_when_only_jobs_that_have_finished_are_left() -> None:
    site = Site(cluster("spare"), *[complete(f"m{number:04}") for number in range(PAGE + 1)], rate=10)

    site.pass_seconds(30)

    assert (site.status.phase, site.status.remaining, site.status.finished) == ("Finished", PAGE + 1, PAGE + 1)
    assert f"{PAGE + 1} copies that have finished" in site.status.message
    assert site.left() == []


def test_a_drain_goes_on_while_something_beside_finished_jobs_cannot_leave() -> None:
    site = Site(cluster("spare"), complete("m"), *stuck(1), rate=10)

    site.pass_seconds(30)

    assert (site.status.phase, site.status.blocked, site.status.finished) == ("Running", 1, 1)


def test_progress_is_counted_over_all_pages() -> None:
    count = 2 * PAGE + 50
    site = Site(cluster("spare"), *movable(count), rate=100)

    site.pass_seconds(3)

    status = site.status
    assert PAGE < 270 <= status.moved <= 300
    assert (status.leaving, status.remaining) == (status.moved, count - status.moved)
    site.pass_seconds(5)
    assert (site.status.moved, site.status.remaining) == (count, 0)


def test_one_look_reads_a_page() -> None:
    site = Site(cluster("spare"), *movable(PAGE + 50), rate=0.01)

    (snapshot,) = Drains().load(site.store, [ASKED])

    assert snapshot is not None
    assert len(snapshot.bindings) == PAGE
    assert snapshot.placed == PAGE + 50


def test_what_leaves_in_one_look_does_not_count_on_the_same_room() -> None:
    both = [binding(name, by_room("full", "small"), on={"full": 2}) for name in ("one", "two")]
    site = Site(cluster("small", room=3), *both, rate=1000)

    site.pass_seconds(4)

    assert site.left() == ["one"]
    assert [one.binding.rpartition("/")[2] for one in site.status.cannot_leave] == ["two-deployment"]


def test_a_rate_of_next_to_nothing_moves_nothing_and_fails_nothing() -> None:
    site = Site(*movable(3), rate=1e-300)

    site.pass_seconds(4 * 3600)

    assert site.left() == []
    assert site.status.phase == "Running"


def test_what_leaves_keeps_its_room_until_the_scheduler_comes() -> None:
    going = [binding(name, by_room("full", "roomy"), on={"full": 2}) for name in ("api", "web")]
    site = Site(cluster("roomy", room=2), *going, rate=1)

    site.pass_seconds(30)

    assert site.left() == ["api"]
    (row,) = site.store.rows(CapacityReservation, "cluster", ["roomy"])["roomy"]
    assert (row.binding, row.replicas, row.reserved) == (str(going[0].ref), 2, True)


def test_a_cluster_that_is_empty_already_is_cordoned_all_the_same() -> None:
    site = Site(rate=1, cordoned=False)

    found = site.store.get([Ref(CLUSTER, "", "full")])
    assert [taint.key for one in found.values() for taint in one.spec.taints] == [UNSCHEDULABLE_TAINT]
    assert site.status.phase == "Finished"


def test_its_table_counts_from_nought() -> None:
    for kind, said in ((DRAIN, "Finished"), (FAILBACK, "Planned")):
        columns = KINDS[kind].resource.columns
        cells = [one.cell({"spec": {}, "status": {"phase": said}}, START) for one in columns if one.type == "integer"]
        assert cells == [0, 0, 0]


@pytest.mark.parametrize("word", ["stop", "hold", "delete"])
def test_what_is_said_after_the_decision_and_before_its_writing_counts(word: str) -> None:
    site = Site(cluster("spare"), *movable(3), rate=1000)
    (snapshot,) = Drains().load(site.store, [ASKED])
    assert snapshot is not None
    decision = Drains().decide(snapshot, Settings(), now=site.now + timedelta(seconds=2))
    assert len(decision.separate_decisions) == 3

    asked: Any = site.store.get([ASKED])[ASKED]
    if word == "stop":
        site.store.put(asked.with_spec(stop=True), asked)
    elif word == "delete":
        site.store.apply([(None, Decision(changes=(deleting(asked, now=site.now),)))], by=Actor("ana"))
    else:
        site.store.create(hold())
    outcomes = site.store.apply([(None, one) for one in (decision, *decision.separate_decisions)], by=Actor("drains"))

    assert all(one.lost for one in outcomes), "nothing left, and nothing is counted as having left"
    assert site.left() == []


@pytest.mark.parametrize(("holder", "left"), [(window("full"), 3), (hold(clusters=("full",)), 0)])
def test_a_hold_on_the_cluster_keeps_a_drain_waiting_and_a_maintenance_window_does_not(
    holder: EvictionHold | MaintenanceWindow, left: int
) -> None:
    """Users empty a cluster in order to work on it."""
    site = Site(cluster("spare"), holder, *movable(3), rate=1000)

    site.pass_seconds(30)

    assert (len(site.left()), site.status.blocked) == (left, 3 - left)


def test_an_eviction_that_was_not_stored_is_counted_once_when_it_is_repeated() -> None:
    first, *rest = movable(3)
    site = Site(cluster("spare"), first, *rest, rate=1000)
    (snapshot,) = Drains().load(site.store, [ASKED])
    assert snapshot is not None
    decision = Drains().decide(snapshot, Settings(), now=site.now + timedelta(seconds=2))
    scaled = first.with_spec(replicas=3, clusters=[TargetCluster("full", 3)])
    site.store.put(scaled, first)  # a write of the same part, so that the eviction of this binding conflicts

    outcomes = site.store.apply([(None, one) for one in (decision, *decision.separate_decisions)], by=Actor("drains"))

    assert [bool(one.lost) for one in outcomes] == [False, True, False, False]
    site.pass_seconds(30)
    assert len(site.left()) == 3
    assert (site.status.moved, site.status.remaining, site.status.departing) == (3, 0, ())


def test_replicas_go_to_a_cluster_with_room_and_not_to_a_copy_that_cannot_be_reached() -> None:
    away = cluster("away", ready="False")
    one = binding("web", by_room(), on={"full": 2, "away": 2}, replicas=4, cpu="1")
    site = Site(away, *(cluster(f"spare{number}") for number in (1, 2)), one, rate=10, followed=True)

    site.pass_seconds(10)

    (found,) = site.store.list(RESOURCE_BINDING)
    assert {target.name: target.replicas for target in found.spec.clusters} == {"away": 2, "spare1": 1, "spare2": 1}


def test_replicas_do_not_go_to_a_copy_on_another_cluster_that_is_emptied() -> None:
    """The scheduler adds replicas on a cordoned cluster that the workload is on: they would move twice."""
    one = binding("web", by_room(), on={"full": 2, "emptied": 2}, replicas=4, cpu="1")
    spare = (cluster(f"spare{number}") for number in (1, 2))
    site = Site(cluster("emptied", taints=[CORDON]), *spare, one, rate=10, followed=True)

    site.pass_seconds(10)

    (found,) = site.store.list(RESOURCE_BINDING)
    assert {target.name: target.replicas for target in found.spec.clusters} == {"emptied": 2, "spare1": 1, "spare2": 1}


def test_replicas_go_to_a_copy_on_another_cluster_that_is_emptied_if_no_other_has_room() -> None:
    one = binding("web", by_room(), on={"full": 2, "emptied": 2}, replicas=4, cpu="1")
    site = Site(cluster("emptied", taints=[CORDON]), one, rate=10, followed=True)

    site.pass_seconds(10)

    (found,) = site.store.list(RESOURCE_BINDING)
    assert {target.name: target.replicas for target in found.spec.clusters} == {"emptied": 4}


def test_replicas_go_to_another_cluster_that_is_emptied_rather_than_to_a_copy_that_cannot_be_reached() -> None:
    """No other cluster has room, so the copies could not leave at all."""
    one = binding("web", by_room(), on={"full": 2, "away": 2, "emptied": 2}, replicas=6, cpu="1")
    site = Site(cluster("away", ready="False"), cluster("emptied", taints=[CORDON]), one, rate=10, followed=True)

    site.pass_seconds(10)

    (found,) = site.store.list(RESOURCE_BINDING)
    assert {target.name: target.replicas for target in found.spec.clusters} == {"away": 2, "emptied": 4}
