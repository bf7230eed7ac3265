"""What is held is looked at again as soon as what it is held for may have gone, though no cluster changed."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from controlplane.engine.decision import Decision, Delete
from controlplane.engine.state import Actor
from controlplane.kinds.binding import AggregatedStatusItem, Binding
from controlplane.kinds.policy import ClusterFailoverBehavior, StatePreservation, StatePreservationRule
from controlplane.kinds.rows import Eviction
from controlplane.settings import Settings
from tests.builders.objects import binding, cluster, no_execute
from tests.builders.placements import by_room, duplicated
from tests.core.fleet_story import FAILOVER, Story

FAST = replace(FAILOVER, resource_eviction_rate=1000.0, secondary_resource_eviction_rate=1000.0)
STATEFUL = replace(FAST, feature_gates={**FAST.feature_gates, "StatefulFailoverInjection": True})
STRICT = replace(FAST, eviction=replace(FAST.eviction, require_full_replacement=True))
STATE = StatePreservation((StatePreservationRule("job", "{ .jobID }"),))
CARRIES = ClusterFailoverBehavior(purge_mode="Directly", state_preservation=STATE)


def flink() -> Binding:
    return binding("web", duplicated(least=1, most=1), on={"member1": 2}, failover=CARRIES)


def lost(*objects: Any, settings: Settings) -> Story:
    """Three clusters, of which member1 is lost. No new copy becomes healthy, so that what leaves stays to be seen."""
    story = Story(*(cluster(f"member{n}") for n in (1, 2, 3)), *objects, settings=settings)
    story.members.healthy = False
    story.taint("member1", no_execute())
    story.pass_seconds(5)
    return story


def held_for(story: Story) -> list[str]:
    rows = story.store.rows(Eviction, "cluster", ["member1"])["member1"]
    return [row.reason for row in rows if row.state == "Held"]


def test_state_that_arrives_late_lets_the_eviction_go_on_with_it() -> None:
    story = lost(flink(), settings=STATEFUL)
    assert held_for(story) == ["StateMissing"]

    old = story.binding("web")
    said = AggregatedStatusItem("member1", status={"jobID": "a1"}, applied=True, health="Healthy")
    assert not story.store.put(old.with_status(aggregated_status=(said,)), old).lost
    story.pass_seconds(1)

    assert [task.preserved_label_state for task in story.binding("web").spec.graceful_eviction_tasks] == [{"job": "a1"}]


def test_state_that_can_be_read_since_a_value_has_another_type_lets_the_eviction_go_on() -> None:
    """The label would be too long with the word true for each part of the job."""
    parts = StatePreservation((StatePreservationRule("parts", "{range .parts[*]}{@}{end}"),))
    carries = ClusterFailoverBehavior(purge_mode="Directly", state_preservation=parts)
    story = lost(binding("web", duplicated(least=1, most=1), on={"member1": 2}, failover=carries), settings=STATEFUL)

    for value, held in ((True, ["StateMissing"]), (1, [])):
        old = story.binding("web")
        said = AggregatedStatusItem("member1", status={"parts": [value] * 20}, applied=True, health="Healthy")
        assert not story.store.put(old.with_status(aggregated_status=(said,)), old).lost
        story.pass_seconds(1)

        assert held_for(story) == held

    (task,) = story.binding("web").spec.graceful_eviction_tasks
    assert task.preserved_label_state == {"parts": "1" * 20}


def test_a_status_without_the_state_is_held_as_before_and_reported_once() -> None:
    story = lost(flink(), settings=STATEFUL)

    old = story.binding("web")
    said = AggregatedStatusItem("member1", status={"phase": "Running"}, applied=True, health="Healthy")
    assert not story.store.put(old.with_status(aggregated_status=(said,)), old).lost
    story.pass_seconds(60)
    before = len(story.store.log)
    story.pass_seconds(600)

    assert held_for(story) == ["StateMissing"]
    assert len(story.store.log) == before
    assert {one.count for one in story.events("EvictionHeld")} == {1}


def test_a_switch_that_is_turned_counts_for_what_is_held_already() -> None:
    story = lost(flink(), settings=STATEFUL)
    assert held_for(story) == ["StateMissing"]

    story.settings = replace(STATEFUL, state_preservation_on_missing="Proceed")
    story.pass_seconds(3)

    assert story.leaving("web") == ["member1"]


def test_a_refuge_that_another_switch_finds_is_taken() -> None:
    both = binding("web", duplicated("member1", "member2", least=1, most=2), on={"member1": 2, "member2": 2})
    story = lost(both, settings=STRICT)
    assert held_for(story) == ["NoRefuge"]

    story.settings = FAST
    story.pass_seconds(3)

    assert story.placed("web") == {"member2": 2}


def test_a_cluster_that_serves_the_kind_by_now_is_a_refuge_at_once() -> None:
    web = binding("web", duplicated(least=1, most=1), on={"member1": 2})
    story = Story(*(cluster(name) for name in ("member1", "member2")), web, settings=FAST)
    serving = story.cluster("member2")
    assert not story.store.put(serving.with_status(api_enablements=()), serving).lost
    story.taint("member1", no_execute())
    story.pass_seconds(5)
    assert held_for(story) == ["NoRefuge"]

    now = story.cluster("member2")
    assert not story.store.put(now.with_status(api_enablements=serving.status.api_enablements), now).lost
    story.pass_seconds(3)

    assert story.placed("web") == {"member2": 2}


def test_capacity_that_was_reserved_and_never_taken_is_found_in_time() -> None:
    """Two want to go where there is room for one; that one is deleted before the cluster ever reports it."""
    room = by_room("member1", "member2")
    first, second = (binding(name, room, on={"member1": 2}) for name in ("first", "second"))
    narrow = (cluster("member1"), cluster("member2", room=3), cluster("member3"))
    story = Story(*narrow, first, second, settings=FAST)
    story.taint("member1", no_execute())
    story.pass_seconds(5)
    assert held_for(story) == ["NoRefuge"]

    story.store.apply([(None, Decision(changes=(Delete(story.binding("first")),)))], by=Actor("test"))
    story.pass_seconds(601)

    assert story.placed("second") == {"member2": 2}
