"""A copy that is unhealthy for too long leaves, whatever its cluster says; the gate has no say in it
[failover-gate]."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from msgspec.structs import replace

from controlplane.controllers.application_failover import ApplicationFailover
from controlplane.engine.decision import Decision
from controlplane.eviction.application_failover import (
    decide_application_failover,
    with_application_task,
    workload_version,
)
from controlplane.eviction.state_preservation import PreservedState
from controlplane.kinds.binding import AggregatedStatusItem, Binding, TargetCluster
from controlplane.kinds.binding.origin import with_departures
from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import (
    DIRECTLY,
    GRACEFULLY,
    NEVER,
    ApplicationFailoverBehavior,
    DecisionConditions,
    FailoverBehavior,
    StatePreservation,
    StatePreservationRule,
)
from controlplane.kinds.rows import UnhealthyCopies
from controlplane.kinds.template import Template
from controlplane.settings import GATES, Settings
from tests.builders.objects import START, binding, cluster, leaving
from tests.builders.placements import by_room, by_weight, duplicated
from tests.core.fleet_story import Story

MEMBERS = tuple(cluster(f"member{number}") for number in (1, 2, 3))
GATE_OFF = Settings()
STATE = StatePreservation((StatePreservationRule("example.io/job", "{.jobID}"),))


def app(mode: str = GRACEFULLY, seconds: int = 60, state: StatePreservation | None = None) -> Binding:
    """One copy on member1 that may go anywhere."""
    behaviour = ApplicationFailoverBehavior(
        DecisionConditions(seconds), mode, 120 if mode in (GRACEFULLY, "Graciously") else None, state
    )
    made = binding("web", duplicated(least=1, most=1), on={"member1": 2})
    return made.with_spec(failover=FailoverBehavior(application=behaviour), propagate_deps=True)


class UnhealthyMembers(Story):
    """A fleet in which copies fail although their clusters are well."""

    def __init__(self, *objects: object, settings: Settings = GATE_OFF) -> None:
        super().__init__(*MEMBERS, *objects, settings=settings)

    def report(self, where: str, health: str, **status: str) -> None:
        old = self.binding("web")
        rest = tuple(one for one in old.status.aggregated_status if one.cluster_name != where)
        item = AggregatedStatusItem(where, status=dict(status) or None, applied=True, health=health)
        self.store.put(old.with_status(aggregated_status=(*rest, item)), old)
        self.work()


def decided(story: Story, name: str, *, seconds: int) -> Decision:
    """Return what is decided about a binding so many seconds after the start. Nothing of it is stored."""
    controller = ApplicationFailover()
    snapshots = controller.load(story.store, [story.binding(name).ref])
    (found,) = controller.decide_all(snapshots, story.settings, now=START + timedelta(seconds=seconds))
    assert isinstance(found, Decision)
    return found


def test_a_status_that_lists_a_copy_twice_lets_it_leave_once() -> None:
    ailing = AggregatedStatusItem("member1", applied=True, health="Unhealthy")
    reported_twice = app().with_status(aggregated_status=(ailing, ailing))

    after = decide_application_failover(
        reported_twice, {"member1": START - timedelta(seconds=61)}, GATE_OFF, now=START
    ).binding

    assert [task.from_cluster for task in after.spec.graceful_eviction_tasks] == ["member1"]
    assert after.spec.clusters == ()


def test_it_leaves_once_it_has_been_unhealthy_for_longer_than_it_is_tolerated() -> None:
    story = UnhealthyMembers(app())
    story.report("member1", "Unhealthy")

    story.pass_seconds(60)
    assert story.placed("web") == {"member1": 2}
    story.pass_seconds(1)

    assert "member1" not in story.placed("web")
    assert story.placed("web")


@pytest.mark.parametrize(("where", "leaves"), [("member2", ()), ("member1", ("member1",))])
def test_a_copy_that_is_no_target_or_leaves_already_is_not_evicted(where: str, leaves: tuple[str, ...]) -> None:
    one = app(seconds=0).with_spec(graceful_eviction_tasks=tuple(map(leaving, leaves)))
    ailing = one.with_status(aggregated_status=(AggregatedStatusItem(where, applied=True, health="Unhealthy"),))

    found = decide_application_failover(ailing, {where: START}, GATE_OFF, now=START + timedelta(hours=1))

    assert (found.binding, found.left) == (ailing, {})


def test_a_copy_that_recovers_in_time_stays_and_its_clock_restarts() -> None:
    story = UnhealthyMembers(app())
    story.report("member1", "Unhealthy")
    story.pass_seconds(50)

    story.report("member1", "Healthy")
    story.pass_seconds(5)
    story.report("member1", "Unhealthy")
    story.pass_seconds(50)

    assert story.placed("web") == {"member1": 2}


def test_the_time_is_kept_in_a_row_and_survives_a_restart() -> None:
    story = UnhealthyMembers(app())
    story.report("member1", "Unhealthy")

    key = str(story.binding("web").ref)
    (row,) = story.store.rows(UnhealthyCopies, "key", [key])[key]

    assert row.since == {"member1": START}


@pytest.mark.parametrize(
    ("api_version", "kind", "leaves"), [("apps/v1", "Deployment", True), ("batch/v1", "CronJob", False)]
)
def test_only_a_kind_with_a_rule_of_health_can_be_unhealthy(api_version: str, kind: str, leaves: bool) -> None:
    ill = app(seconds=0).with_status(aggregated_status=(AggregatedStatusItem("member1", health="Unhealthy"),))
    ill = ill.with_spec(resource=replace(ill.spec.resource, api_version=api_version, kind=kind))

    after = decide_application_failover(ill, {"member1": START}, GATE_OFF, now=START.replace(hour=1))

    assert bool(after.binding.spec.graceful_eviction_tasks) is leaves


@pytest.mark.parametrize(
    ("stored", "mode", "grace", "suppressed"),
    [
        (GRACEFULLY, GRACEFULLY, 120, None),
        (NEVER, NEVER, None, True),
        (DIRECTLY, DIRECTLY, None, None),
        ("Graciously", GRACEFULLY, 120, None),  # a release before may have stored these
        ("Immediately", DIRECTLY, None, None),
    ],
)
def test_each_purge_mode_makes_its_task(stored: str, mode: str, grace: int | None, suppressed: bool | None) -> None:
    ill = app(stored, seconds=0).with_status(aggregated_status=(AggregatedStatusItem("member1", health="Unhealthy"),))

    (task,) = decide_application_failover(
        ill, {"member1": START}, GATE_OFF, now=START.replace(hour=1)
    ).binding.spec.graceful_eviction_tasks

    assert (task.purge_mode, task.grace_period_seconds, task.suppress_deletion) == (mode, grace, suppressed)
    assert task.reason == "ApplicationFailure"
    assert task.producer == "resource-binding-application-failover-controller"


def test_state_goes_along_or_the_copy_stays_and_says_what_is_missing() -> None:
    settings = replace(GATE_OFF, feature_gates={**GATES, "StatefulFailoverInjection": True})
    ill = app(DIRECTLY, 0, STATE)
    without = ill.with_status(aggregated_status=(AggregatedStatusItem("member1", status={}, health="Unhealthy"),))
    item = AggregatedStatusItem("member1", status={"jobID": "a1"}, health="Unhealthy")
    since, later = {"member1": START}, START.replace(hour=1)

    kept = decide_application_failover(without, since, settings, now=later)
    moved = decide_application_failover(ill.with_status(aggregated_status=(item,)), since, settings, now=later).binding

    assert kept.binding is without
    assert "example.io/job" in kept.missing["member1"]
    (task,) = moved.spec.graceful_eviction_tasks
    assert task.preserved_label_state == {"example.io/job": "a1"}
    assert task.clusters_before_failover == ("member1",)


@pytest.mark.parametrize(
    ("mode", "is_on", "targets", "state"),
    [
        (DIRECTLY, True, 1, {"example.io/job": "a1"}),
        (GRACEFULLY, True, 1, {}),  # both copies would have the state
        (NEVER, True, 1, {}),
        (DIRECTLY, False, 1, {}),
        (DIRECTLY, True, 2, {}),  # no copy has the state of all
    ],
)
def test_state_is_preserved_from_the_only_copy_that_leaves_directly_while_the_gate_is_on(
    mode: str, is_on: bool, targets: int, state: dict[str, str]
) -> None:
    settings = replace(GATE_OFF, feature_gates={**GATES, "StatefulFailoverInjection": is_on})
    item = AggregatedStatusItem("member1", status={"jobID": "a1"}, health="Unhealthy")
    unhealthy = app(mode, 0, STATE).with_status(aggregated_status=(item,))
    unhealthy = unhealthy.with_spec(clusters=tuple(TargetCluster(f"member{n + 1}", 1) for n in range(targets)))

    after = decide_application_failover(unhealthy, {"member1": START}, settings, now=START.replace(hour=1))

    assert after.missing == {}
    assert [task.preserved_label_state for task in after.binding.spec.graceful_eviction_tasks] == [state]


def test_every_copy_that_its_version_keeps_from_moving_is_named() -> None:
    """The version has left two clusters already, so both copies stay and both are named."""
    items = tuple(AggregatedStatusItem(name, health="Unhealthy") for name in ("member1", "member2"))
    targets = (TargetCluster("member1", 1), TargetCluster("member2", 1))
    unhealthy = app(seconds=0).with_spec(clusters=targets).with_status(aggregated_status=items)
    since, moves = dict.fromkeys(("member1", "member2"), START), dict.fromkeys(("member3", "member4"), START)

    stopped = decide_application_failover(unhealthy, since, GATE_OFF, moves=moves, now=START.replace(hour=1))
    free = decide_application_failover(unhealthy, since, GATE_OFF, now=START.replace(hour=1))

    assert stopped.stays == ("member1", "member2")
    assert stopped.binding is unhealthy
    assert [task.from_cluster for task in free.binding.spec.graceful_eviction_tasks] == ["member1", "member2"]


def test_unknown_health_of_a_lost_cluster_counts_neither_as_unhealthy_nor_as_healthy() -> None:
    """A healthy copy on a cluster out of reach does not begin to count; an unhealthy one does not count again."""
    lost = AggregatedStatusItem("member1", health="Unknown", out_of_reach_since=START)
    begun = {"member1": START}

    for last, expected in (("Healthy", {}), ("Unknown", {}), ("Unhealthy", begun)):
        reported = app().with_status(aggregated_status=(replace(lost, last_known_health=last),))
        assert decide_application_failover(reported, begun, Settings(), now=START).since == expected
        if last != "Unhealthy":
            assert decide_application_failover(reported, {}, Settings(), now=START).since == {}


def test_without_a_policy_for_it_nothing_leaves() -> None:
    story = UnhealthyMembers(binding("web", duplicated(least=1, most=1), on={"member1": 2}))
    story.report("member1", "Unhealthy")

    story.pass_seconds(3600)

    assert story.placed("web") == {"member1": 2}


def _moves(story: UnhealthyMembers) -> str:
    """Let the only copy be unhealthy for longer than is tolerated; return where it is then."""
    (where,) = story.placed("web")
    story.report(where, "Unhealthy")
    story.pass_seconds(61)
    (now,) = story.placed("web")
    return now


def test_a_version_that_is_unhealthy_on_two_clusters_moves_no_further() -> None:
    story = UnhealthyMembers(app(), _template("bad"))
    second = _moves(story)
    third = _moves(story)

    assert len({"member1", second}) == len({second, third}) == 2
    assert _moves(story) == third
    assert {one.type for one in story.events("ApplicationFailoverStopped")} == {"Warning"}


def test_the_clusters_that_a_version_has_left_stay_known_while_no_copy_is_reported() -> None:
    moves = {"member1": START, "member2": START}
    one = app(DIRECTLY).with_status(aggregated_status=())

    found = decide_application_failover(one, {}, GATE_OFF, moves=moves, now=START + timedelta(seconds=1))

    assert found.left == moves


def test_another_version_may_move_again_and_is_given_its_time() -> None:
    story = UnhealthyMembers(app(), _template("bad"))
    _moves(story)
    third = _moves(story)
    assert _moves(story) == third

    old = story.store.objects[_template("bad").ref]
    story.store.put(old.with_content(_template("worse").content), old)
    story.report(third, "Unhealthy", image="worse")
    story.pass_seconds(50)
    assert set(story.placed("web")) == {third}
    story.pass_seconds(20)

    assert set(story.placed("web")) != {third}


def test_a_workload_that_was_deleted_and_made_again_may_move_again() -> None:
    story = UnhealthyMembers(app(), _template("bad"))
    _moves(story)
    third = _moves(story)
    assert _moves(story) == third

    old = story.store.objects[_template("bad").ref]
    story.store.put(old.with_meta(uid="made-again"), old)
    story.report(third, "Unhealthy", pods="new")
    story.pass_seconds(61)

    assert set(story.placed("web")) != {third}


def test_what_a_release_before_noted_of_a_version_counts_on() -> None:
    story = UnhealthyMembers(app(), _template("bad"))
    noted = workload_version(_template("bad")).partition(".")[0]
    story.save(UnhealthyCopies(str(story.binding("web").ref), {}, noted, {"member2": START, "member3": START}))

    assert _moves(story) == "member1"
    assert story.events("ApplicationFailoverStopped")


def test_a_version_that_became_healthy_counts_from_the_start() -> None:
    story = UnhealthyMembers(app(), _template("good"))
    _moves(story)
    third = _moves(story)

    story.report(third, "Healthy", image="after all")
    story.pass_seconds(61)

    assert _moves(story) != third


def without_refuge(
    before: Binding, *left: str, others: Sequence[object] = (), settings: Settings = GATE_OFF
) -> UnhealthyMembers:
    """Return a fleet in which a workload has left clusters as unhealthy: its refuge was lost meanwhile.

    Its copies on other clusters are healthy. `others`: what else there is.
    """
    behaviour = before.spec.failover.application if before.spec.failover else None
    assert behaviour is not None
    items = tuple(
        AggregatedStatusItem(target.name, applied=True, health="Unhealthy" if target.name in left else "Healthy")
        for target in before.spec.clusters
    )
    after = before.with_status(aggregated_status=items)
    for name in left:
        after = with_application_task(after, before, name, behaviour, PreservedState(), now=START)
    after = with_departures(after, before, now=START)
    story = UnhealthyMembers(*others, after, settings=settings)
    row = UnhealthyCopies(str(after.ref), {}, workload_version(None), dict.fromkeys(left, START))
    story.save(row)
    story.pass_seconds(1)
    assert story.leaving("web") == list(left)
    return story


def _everywhere_unhealthy(mode: str = GRACEFULLY) -> UnhealthyMembers:
    """Return a fleet in which a workload has left both clusters that it may run on."""
    one = app(mode).with_spec(placement=duplicated("member1", "member2", least=1, most=2))
    both = one.with_spec(clusters=(TargetCluster("member1", 2), TargetCluster("member2", 2)))
    story = without_refuge(both, "member1", "member2")
    assert story.placed("web") == {}
    return story


@pytest.mark.parametrize("mode", [GRACEFULLY, DIRECTLY, NEVER])
def test_a_copy_stays_while_no_other_cluster_can_take_it(mode: str) -> None:
    one = app(mode).with_spec(placement=duplicated("member1", "member2", least=1, most=1))
    story = UnhealthyMembers(one)
    story.taint("member2", Taint("full", "NoSchedule"))
    story.report("member1", "Unhealthy")

    story.pass_seconds(600)

    assert (story.placed("web"), story.leaving("web")) == ({"member1": 2}, [])
    (why,) = story.events("EvictionHeld")
    assert "no other cluster can take the copy" in why.message

    story.untaint("member2")
    story.pass_seconds(61)

    assert story.placed("web") == {"member2": 2}


def test_a_copy_is_no_refuge_if_it_is_unhealthy_too() -> None:
    """Both copies are unhealthy and the policy demands one cluster: neither copy is removed for the other."""
    one = app(DIRECTLY).with_spec(placement=duplicated("member1", "member2", least=1, most=2))
    story = UnhealthyMembers(one.with_spec(clusters=(TargetCluster("member1", 2), TargetCluster("member2", 2))))
    story.report("member1", "Unhealthy")
    story.pass_seconds(30)
    story.report("member2", "Unhealthy")

    story.pass_seconds(120)

    assert story.placed("web") == {"member1": 2, "member2": 2}


def test_replicas_are_not_moved_to_a_copy_that_is_unhealthy_too() -> None:
    placement = by_weight(member1=1, member2=1)
    one = app(DIRECTLY).with_spec(placement=placement, replicas=4)
    story = UnhealthyMembers(one.with_spec(clusters=(TargetCluster("member1", 2), TargetCluster("member2", 2))))
    for name in ("member1", "member2"):
        story.report(name, "Unhealthy")

    story.pass_seconds(120)

    assert story.placed("web") == {"member1": 2, "member2": 2}


def test_a_copy_without_a_refuge_keeps_no_other_copy_from_leaving() -> None:
    """Of both copies only the smaller one fits on member3."""
    one = app(DIRECTLY).with_spec(placement=by_room("member1", "member2", "member3"), replicas=5)
    one = one.with_spec(clusters=(TargetCluster("member1", 4), TargetCluster("member2", 1)))
    items = tuple(AggregatedStatusItem(name, applied=True, health="Unhealthy") for name in ("member1", "member2"))
    requests = binding("web", None, cpu="1").spec.replica_requirements
    ill = one.with_spec(replica_requirements=requests).with_status(aggregated_status=items)
    rooms = {"member1": 0, "member2": 0, "member3": 2}
    story = Story(*(cluster(name, room=room) for name, room in rooms.items()), ill, settings=GATE_OFF)

    story.pass_seconds(61)

    assert story.placed("web") == {"member1": 4, "member3": 1}


@pytest.mark.parametrize(("seconds", "wait"), [(61, 30), (600, 60), (6000, 300)])
def test_the_wait_for_a_refuge_grows_with_the_time_that_the_copy_is_unhealthy(seconds: int, wait: int) -> None:
    """Thousands of such copies must not ask the scheduler all the time."""
    story = UnhealthyMembers(app().with_spec(placement=duplicated("member1", least=1, most=1)))
    story.report("member1", "Unhealthy")

    again = decided(story, "web", seconds=seconds).wake_at

    assert again == START + timedelta(seconds=seconds + wait)


def test_a_copy_that_is_healthy_again_stays_if_no_other_cluster_was_found() -> None:
    story = _everywhere_unhealthy()

    story.report("member2", "Healthy")
    story.pass_seconds(2)

    assert story.placed("web")["member2"] == 2
    assert "the copy is healthy again" in story.events("EvictionTaskCleared")[0].message


@pytest.mark.parametrize("mode", [GRACEFULLY, DIRECTLY])
def test_it_also_goes_back_if_the_other_copies_have_been_healthy_for_long(mode: str) -> None:
    """The other copy says that the version works, but nothing of the copy that still waits for a cluster."""
    both = (TargetCluster("member1", 2), TargetCluster("member2", 2))
    one = app(mode).with_spec(placement=duplicated("member1", "member2", least=2, most=2), clusters=both)
    behaviour = ApplicationFailoverBehavior(DecisionConditions(60), mode, 3600 if mode == GRACEFULLY else None)
    story = without_refuge(one.with_spec(failover=FailoverBehavior(application=behaviour)), "member1")
    story.pass_seconds(300)
    assert (story.placed("web"), story.leaving("web")) == ({"member2": 2}, ["member1"])

    story.report("member1", "Healthy")
    story.pass_seconds(GATE_OFF.graceful_eviction_timeout)

    assert (story.placed("web"), story.leaving("web")) == ({"member1": 2, "member2": 2}, [])


def test_copies_that_were_removed_directly_start_again_after_a_while_if_no_other_cluster_was_found() -> None:
    story = _everywhere_unhealthy(DIRECTLY)

    story.pass_seconds(GATE_OFF.graceful_eviction_timeout - 10)
    assert story.placed("web") == {}
    story.pass_seconds(20)

    assert story.placed("web") == {"member1": 2, "member2": 2}
    assert story.leaving("web") == []


def test_a_copy_that_is_healthy_again_is_not_restored_while_its_cluster_does_not_answer() -> None:
    story = _everywhere_unhealthy()
    story.ready("member2", "False")

    story.report("member2", "Healthy")
    story.pass_seconds(2)

    assert story.placed("web") == {}


def test_scaling_is_no_other_version() -> None:
    assert workload_version(_template("bad", replicas=2)) == workload_version(_template("bad", replicas=7))
    assert workload_version(_template("bad")) != workload_version(_template("good"))


def _template(image: str, *, replicas: int = 2) -> Template:
    pods = {"spec": {"containers": [{"name": "c", "image": image}]}}
    metadata = {"name": "web", "namespace": "default", "uid": "template-web", "generation": 1}
    spec = {"replicas": replicas, "template": pods}
    return Template.fold({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
