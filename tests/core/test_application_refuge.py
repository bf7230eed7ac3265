"""The refuge of unhealthy copies: several of one binding, groups of workloads, and clusters that are not Ready."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from controlplane.engine.decision import Decision, Save
from controlplane.engine.state import Actor
from controlplane.kinds.binding import AggregatedStatusItem, Binding, TargetCluster, WorkloadAffinityGroups
from controlplane.kinds.policy import (
    DIRECTLY,
    ApplicationFailoverBehavior,
    DecisionConditions,
    FailoverBehavior,
    StatePreservation,
    StatePreservationRule,
)
from controlplane.kinds.rows import CapacityReservation
from controlplane.settings import GATES, Settings
from tests.builders.objects import binding, cluster
from tests.builders.placements import by_room, duplicated
from tests.core.fleet_story import Story
from tests.core.test_application_failover import app, decided

SETTINGS = Settings()
GROUPED = replace(SETTINGS, feature_gates={**GATES, "WorkloadAffinity": True})
TOGETHER = WorkloadAffinityGroups(affinity_group="app=db")


def unhealthy(one: Binding, **replicas: int) -> Binding:
    """Return a workload on these clusters, unhealthy on each, whose copies are removed at once when they leave."""
    items = tuple(AggregatedStatusItem(name, applied=True, health="Unhealthy") for name in replicas)
    targets = tuple(TargetCluster(name, count) for name, count in replicas.items())
    return one.with_spec(clusters=targets).with_status(aggregated_status=items)


def divided(**replicas: int) -> Binding:
    """Return such a workload of which each replica needs a cpu, and which may run on three clusters."""
    requests = binding("web", None, cpu="1").spec.replica_requirements
    where, count = by_room("member1", "member2", "member3"), sum(replicas.values())
    one = app(DIRECTLY).with_spec(placement=where, replicas=count, replica_requirements=requests)
    return unhealthy(one, **replicas)


def story(*objects: object, settings: Settings = SETTINGS, **rooms: int) -> Story:
    return Story(*(cluster(name, room=room) for name, room in rooms.items()), *objects, settings=settings)


def test_two_copies_do_not_leave_for_one_free_cluster() -> None:
    """The policy demands two copies. The cluster that the first one has left is no refuge of the second one."""
    both = app(DIRECTLY).with_spec(placement=duplicated("member1", "member2", "member3", least=2, most=2))
    fleet = story(unhealthy(both, member1=2, member2=2), member1=9, member2=9, member3=9)

    fleet.pass_seconds(61)

    assert len(fleet.leaving("web")) == 1
    assert fleet.placed("web").keys() == {"member1", "member2", "member3"} - set(fleet.leaving("web"))
    assert [event.reason for event in fleet.events("EvictionHeld")] == ["EvictionHeld"]


def test_the_room_of_a_copy_that_leaves_stays_reserved_although_the_next_one_has_no_refuge() -> None:
    fleet = story(divided(member1=1, member2=4), member1=1, member2=0, member3=2)
    fleet.pass_seconds(30)

    found = decided(fleet, "web", seconds=61)

    rows = [change.row for change in found.changes if isinstance(change, Save)]
    reserved = [(row.cluster, row.replicas) for row in rows if isinstance(row, CapacityReservation)]
    assert reserved == [("member3", 1)]
    assert [event.reason for event in found.events] == ["EvictWorkloadFromClusterSucceed", "EvictionHeld"]


def test_a_second_copy_may_go_where_room_is_reserved_for_the_first() -> None:
    """The scheduler has not placed the first one yet. Its reservation is room of the same workload."""
    fleet = story(divided(member1=1, member2=1), member1=0, member2=0, member3=2)
    for name, health in (("member2", "Healthy"), ("member2", "Unhealthy")):
        fleet.pass_seconds(1)
        old = fleet.binding("web")
        items = tuple(
            replace(one, health=health) if one.cluster_name == name else one for one in old.status.aggregated_status
        )
        fleet.store.put(old.with_status(aggregated_status=items), old)
        fleet.work()
    first = decided(fleet, "web", seconds=61)
    fleet.store.apply([(None, Decision(changes=first.changes))], by=Actor("application_failover", controller=True))
    assert (fleet.placed("web"), fleet.leaving("web")) == ({"member2": 1}, ["member1"])

    second = decided(fleet, "web", seconds=63)

    assert [event.reason for event in second.events] == ["EvictWorkloadFromClusterSucceed"]


def test_a_copy_whose_state_is_missing_is_looked_at_again() -> None:
    """A person may let it go without its state."""
    rules = StatePreservation((StatePreservationRule("job", "{.jobID}"),))
    settings = replace(SETTINGS, feature_gates={**GATES, "StatefulFailoverInjection": True})
    behaviour = app(DIRECTLY, state=rules).spec.failover
    one = divided(member1=2).with_spec(failover=behaviour)
    fleet = story(one, settings=settings, member1=9, member2=9)
    fleet.pass_seconds(60)
    found = decided(fleet, "web", seconds=61)
    rows = [change.row for change in found.changes if isinstance(change, Save)]
    assert not any(isinstance(row, CapacityReservation) for row in rows)
    fleet.pass_seconds(1)
    assert fleet.leaving("web") == []
    (why,) = fleet.events("EvictionHeld")
    assert (why.type, "the state to carry over is missing" in why.message) == ("Warning", True)

    fleet.settings = replace(settings, state_preservation_on_missing="Proceed")
    fleet.pass_seconds(31)

    assert fleet.placed("web") == {"member2": 2}


def test_a_copy_stays_where_the_others_of_its_affinity_group_are_healthy() -> None:
    """Its cluster is well, so its group does not leave it."""
    one = unhealthy(app(DIRECTLY), member1=2)
    other = binding("api", duplicated(least=1, most=1), on={"member1": 2})
    web, api = (part.with_spec(workload_affinity_groups=TOGETHER) for part in (one, other))
    fleet = story(web, api, settings=GROUPED, member1=9, member2=9)

    fleet.pass_seconds(120)

    assert (fleet.placed("web"), fleet.leaving("web")) == ({"member1": 2}, [])
    (why,) = fleet.events("EvictionHeld")
    assert (why.type, "affinity group" in why.message) == ("Warning", True)


@pytest.mark.parametrize(("ready", "placed"), [("True", {"member1": 3}), ("False", {"member2": 2})])
def test_a_part_of_the_replicas_is_a_refuge_only_if_the_cluster_is_not_ready(
    ready: str, placed: dict[str, int]
) -> None:
    fleet = story(divided(member1=3), member1=0, member2=2)
    fleet.ready("member1", ready)

    fleet.pass_seconds(120)

    assert fleet.placed("web") == placed


def test_no_part_of_the_replicas_is_moved_to_a_copy_that_is_unhealthy_too() -> None:
    fleet = story(divided(member1=3, member2=1), member1=0, member2=2)
    fleet.ready("member1", "False")

    fleet.pass_seconds(120)

    assert fleet.placed("web") == {"member1": 3, "member2": 1}


def test_a_healthy_copy_of_the_same_workload_takes_the_replicas() -> None:
    both = divided(member1=2, member2=2)
    here, there = both.status.aggregated_status
    reported = both.with_status(aggregated_status=(here, replace(there, health="Healthy")))
    fleet = story(reported, member1=9, member2=9)

    fleet.pass_seconds(120)

    assert fleet.placed("web") == {"member2": 4}


def test_a_workload_that_was_removed_meanwhile_keeps_no_other_from_leaving() -> None:
    fleet = story(unhealthy(app(DIRECTLY), member1=2), member1=9, member2=9)
    fleet.now += timedelta(seconds=61)
    ref = fleet.binding("web").ref

    fleet.store.mark("application_failover", [ref._replace(name="removed"), ref])
    fleet.work()

    assert fleet.placed("web") == {"member2": 2}


def test_a_copy_that_was_unhealthy_when_it_was_last_heard_of_is_no_refuge() -> None:
    """The cluster of the other copy does not answer. The policy demands one copy."""
    one = app(DIRECTLY).with_spec(placement=duplicated("member1", "member2", least=1, most=2))
    both = unhealthy(one, member1=2, member2=2)
    here, away = both.status.aggregated_status
    unknown = replace(away, health="Unknown", last_known_health="Unhealthy")
    fleet = story(both.with_status(aggregated_status=(here, unknown)), member1=9, member2=9)

    fleet.pass_seconds(120)

    assert fleet.placed("web") == {"member1": 2, "member2": 2}


def test_replicas_go_to_a_cluster_with_room_and_not_to_a_copy_that_is_unhealthy_too() -> None:
    fleet = story(divided(member1=2, member2=2), member1=9, member2=9, member3=9)

    fleet.pass_seconds(120)

    assert fleet.placed("web") == {"member3": 4}


def test_replicas_go_to_a_cluster_with_room_and_not_to_a_copy_that_cannot_be_reached() -> None:
    both = divided(member1=2, member2=2)
    here, there = both.status.aggregated_status
    reported = both.with_status(aggregated_status=(here, replace(there, health="Healthy")))
    fleet = story(reported, member1=9, member2=9, member3=9)
    fleet.access_lost("member2", "True")

    fleet.pass_seconds(120)

    assert fleet.placed("web") == {"member2": 2, "member3": 2}


def test_two_copies_do_not_leave_for_the_same_free_capacity() -> None:
    """member2 has room for one of the two workloads; the other one stays where it is."""
    behaviour = FailoverBehavior(application=ApplicationFailoverBehavior(DecisionConditions(60), DIRECTLY))
    copies = [
        binding(name, by_room("member1", "member2"), on={"member1": 2}, cpu="1").with_spec(
            failover=behaviour, propagate_deps=True
        )
        for name in ("web", "api")
    ]
    ill = [
        one.with_status(aggregated_status=(AggregatedStatusItem("member1", applied=True, health="Unhealthy"),))
        for one in copies
    ]
    story = Story(cluster("member1", room=10), cluster("member2", room=3), *ill, settings=SETTINGS)

    story.pass_seconds(61)

    assert sorted(map(str, (story.placed("web"), story.placed("api")))) == ["{'member1': 2}", "{'member2': 2}"]


def test_a_copy_that_leaves_reserves_the_room_that_it_goes_to() -> None:
    """Another process decides about the other workload before the scheduler has placed the first one."""
    behaviour = FailoverBehavior(application=ApplicationFailoverBehavior(DecisionConditions(60), DIRECTLY))
    ill = [
        binding(name, by_room("member1", "member2"), on={"member1": 2}, cpu="1")
        .with_spec(failover=behaviour, propagate_deps=True)
        .with_status(aggregated_status=(AggregatedStatusItem("member1", applied=True, health="Unhealthy"),))
        for name in ("web", "api")
    ]
    story = Story(cluster("member1", room=10), cluster("member2", room=3), *ill, settings=SETTINGS)
    story.pass_seconds(30)

    first = decided(story, "web", seconds=61)
    rows = [change.row for change in first.changes if isinstance(change, Save)]
    reserved = [row for row in rows if isinstance(row, CapacityReservation)]
    for row in reserved:
        story.store.apply([(None, Decision(changes=(Save(row),)))], by=Actor("test"))
    second = decided(story, "api", seconds=61)

    assert [(row.cluster, row.replicas, row.reserved) for row in reserved] == [("member2", 2, True)]
    assert first.capacity_guards
    assert [event.reason for event in second.events] == ["EvictionHeld"]
