"""What recovery takes back, and what an eviction writes."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from controlplane.controllers.eviction_queue import EvictionQueue
from controlplane.controllers.evictions import HEADS, MOST_HEADS, Evictions
from controlplane.engine import run
from controlplane.engine.decision import Decision, Save
from controlplane.engine.memory import MemoryStore
from controlplane.engine.state import Actor
from controlplane.estimate.request import Request
from controlplane.eviction.rate import TakeTokens, Tokens
from controlplane.kinds.binding import AggregatedStatusItem, ReplicaRequirements
from controlplane.kinds.policy import (
    ClusterFailoverBehavior,
    StatePreservation,
    StatePreservationRule,
)
from controlplane.kinds.rows import EVICTED, HELD, CapacityReservation, Eviction, FleetState
from controlplane.kinds.taint_policy import MatchCondition, TaintToAdd
from controlplane.settings import GATES
from tests.builders.objects import START, binding, cluster, no_execute, taint_policy
from tests.builders.placements import by_weight, duplicated
from tests.core.eviction_fleet import ANYWHERE, CLUSTERS, FAST, fleet, gone
from tests.core.fleet_story import FAILOVER, Story

# Recovery


def test_i8_fault_22_a_recovery_drops_what_is_queued() -> None:
    story = fleet(*(binding(f"web{n}", ANYWHERE, on={"member1": 2}) for n in range(10)), settings=FAILOVER)
    story.taint("member1", no_execute())
    story.pass_seconds(4.5)
    assert len(story.queue()) == 8

    story.untaint("member1")
    story.pass_seconds(600)

    assert story.queue() == {}
    assert len(gone(story)) == 2


def test_copies_that_go_where_their_weights_say_leave_although_others_reserve_all_capacity_there() -> None:
    story = Story(cluster("member1"), cluster("member2", room=10), settings=FAST)
    request = msgspec.json.encode(Request()).decode()
    story.save(CapacityReservation("o|member2", "b/other", "member2", 9, request, made_at=story.now))
    story.store.create(binding("web", by_weight(member1=1, member2=1), on={"member1": 2}))

    story.taint("member1", no_execute())
    story.pass_seconds(5)

    assert gone(story) == ["web"]


def test_while_only_the_removal_window_runs_evictions_wait_as_recovering() -> None:
    policy = taint_policy(
        match_conditions=(MatchCondition("Ready", "In", ("False",)),),
        taints_to_add=(TaintToAdd("down", "NoExecute", "", 10, 180),),
    )
    story = Story(
        *(cluster(name) for name in CLUSTERS),
        policy,
        *(binding(f"web{n}", ANYWHERE, on={"member1": 2}) for n in range(10)),
        settings=FAILOVER,
    )
    story.ready("member1", "False")
    story.pass_seconds(14.5)
    assert len(gone(story)) == 3  # one of the full bucket, and two in 4.5 s

    story.ready("member1", "True")
    story.pass_seconds(60)
    assert set(story.queue().values()) == {"Recovering"}
    assert len(gone(story)) == 3

    story.ready("member1", "False")
    story.pass_seconds(4.5)
    assert len(gone(story)) > 3


# How the queue is read


@pytest.mark.parametrize("scope", ["Fleet", "Cluster"])
def test_a_queue_longer_than_one_look_is_read_on_at_once_while_there_are_tokens(scope: str) -> None:
    settings = replace(FAST, eviction=replace(FAST.eviction, bucket_scope=scope))
    controllers = [EvictionQueue(), Evictions()]
    store = MemoryStore(controllers=controllers, clock=lambda: START)
    bindings = [binding(f"web{n}", ANYWHERE, on={"member1": 1}) for n in range(HEADS + 1)]
    lost = cluster("member1")
    store.create(lost.with_spec(taints=(no_execute(),)), cluster("member2"), *bindings)
    store.apply([(None, Decision(changes=(Save(FleetState("default", failover_on_since=START)),)))], by=Actor("test"))

    world = run.World(answer=lambda question: Tokens(dict(question.wanted), 0.0))
    run.run_until_idle(controllers, store, settings, world=world)

    assert len(store.rows(Eviction, "state", [EVICTED])[EVICTED]) == HEADS + 1


@pytest.mark.parametrize(("tokens_a_second", "looks"), [(2000.0, 3), (10_000.0, 1), (100_000.0, 1)])
def test_as_many_rows_are_read_at_once_as_a_full_bucket_has_tokens_for(tokens_a_second: float, looks: int) -> None:
    settings, asked = replace(FAST, resource_eviction_rate=tokens_a_second), list[int]()

    def answer(question: TakeTokens) -> Tokens:
        asked.append(sum(question.wanted.values()))
        return Tokens(dict(question.wanted), 0.0)

    controllers = [EvictionQueue(), Evictions()]
    store = MemoryStore(controllers=controllers, clock=lambda: START)
    bindings = [binding(f"web{n}", ANYWHERE, on={"member1": 1}) for n in range(MOST_HEADS)]
    store.create(cluster("member1").with_spec(taints=(no_execute(),)), cluster("member2"), *bindings)
    store.apply([(None, Decision(changes=(Save(FleetState("default", failover_on_since=START)),)))], by=Actor("test"))

    run.run_until_idle(controllers, store, settings, world=run.World(answer=answer))

    assert [count for count in asked if count] == [500, 500, 24][:looks] if looks > 1 else [MOST_HEADS]


def test_a_binding_whose_request_cannot_be_read_is_held_and_the_others_are_evicted() -> None:
    controllers = [EvictionQueue(), Evictions()]
    store = MemoryStore(controllers=controllers, clock=lambda: START)
    good, broken = (binding(name, ANYWHERE, on={"member1": 1}) for name in ("good", "broken"))
    broken = broken.with_spec(replica_requirements=ReplicaRequirements(resource_request={"cpu": "much"}))
    store.create(cluster("member1").with_spec(taints=(no_execute(),)), cluster("member2"), good, broken)
    store.apply([(None, Decision(changes=(Save(FleetState("default", failover_on_since=START)),)))], by=Actor("test"))

    run.run_until_idle(controllers, store, FAST, world=run.World(answer=lambda asked: Tokens(dict(asked.wanted), 0.0)))

    states = store.rows(Eviction, "state", [EVICTED, HELD])
    assert {state: [row.binding.rpartition("/")[2] for row in rows] for state, rows in states.items()} == {
        EVICTED: ["good-deployment"],
        HELD: ["broken-deployment"],
    }
    assert "much" in states[HELD][0].message


# What is written


def test_an_eviction_is_reported_on_the_binding_and_on_its_template() -> None:
    story = fleet(binding("web", ANYWHERE, on={"member1": 2}))

    story.taint("member1", no_execute())
    story.pass_seconds(2)

    about = {one.involved_object.kind for one in story.events("EvictWorkloadFromClusterSucceed")}
    assert about == {"ResourceBinding", "Deployment"}


def test_i6_leaving_two_clusters_at_once_makes_one_task_each() -> None:
    placement = duplicated(least=2, most=2)
    story = fleet(binding("web", placement, on={"member1": 2, "member2": 2}))
    story.members.healthy = False

    story.taint("member1", no_execute())
    story.taint("member2", no_execute())
    story.pass_seconds(10)

    assert sorted(story.leaving("web")) == ["member1", "member2"]
    assert not {"member1", "member2"} & set(story.placed("web"))


@pytest.mark.parametrize(
    ("behaviour", "mode"),
    [
        (None, "Gracefully"),
        (ClusterFailoverBehavior("Directly"), "Directly"),
        (ClusterFailoverBehavior("Gracefully"), "Gracefully"),
    ],
)
def test_the_purge_mode_is_the_policys_and_else_the_settings(
    behaviour: ClusterFailoverBehavior | None, mode: str
) -> None:
    story = fleet(binding("web", ANYWHERE, on={"member1": 2}, failover=behaviour))
    story.members.healthy = False

    story.taint("member1", no_execute())
    story.pass_seconds(2)

    (task,) = story.binding("web").spec.graceful_eviction_tasks
    assert (task.purge_mode, task.replicas, task.producer, task.reason) == (mode, 2, "TaintManager", "TaintUntolerated")


STATEFUL = ClusterFailoverBehavior(
    "Directly", 0, StatePreservation((StatePreservationRule("example.io/job", "{ .jobStatus.jobID }"),))
)


def stateful(status: dict[str, object] | None, *, hold: str = "Hold", gate: bool = True) -> Story:
    settings = replace(
        FAST,
        feature_gates={**GATES, "Failover": True, "StatefulFailoverInjection": gate},
        state_preservation_on_missing=hold,
    )
    one = binding("web", ANYWHERE, on={"member1": 2}, failover=STATEFUL)
    one = one.with_status(aggregated_status=(AggregatedStatusItem("member1", status, True, "", "Healthy"),))
    story = fleet(one, settings=settings)
    story.members.healthy = False
    story.taint("member1", no_execute())
    story.pass_seconds(5)
    return story


def test_state_is_read_when_the_eviction_is_decided() -> None:
    story = stateful({"jobStatus": {"jobID": "abc123"}})

    assert story.binding("web").spec.graceful_eviction_tasks[0].preserved_label_state == {"example.io/job": "abc123"}


@pytest.mark.parametrize("status", [None, {}, {"jobStatus": {"jobID": "not a label!"}}])
def test_missing_state_holds_the_eviction_or_lets_it_go_without(status: dict[str, object] | None) -> None:
    assert stateful(status).queue() == {"web|member1": "Held"}
    (task,) = stateful(status, hold="Proceed").binding("web").spec.graceful_eviction_tasks
    assert task.preserved_label_state == {}


def test_with_its_gate_off_no_state_is_read_and_nothing_is_held() -> None:
    (task,) = stateful(None, gate=False).binding("web").spec.graceful_eviction_tasks

    assert task.preserved_label_state == {}


def test_with_a_bucket_for_each_cluster_none_waits_for_the_queue_of_another() -> None:
    """What is first in order has used its bucket up; what comes behind it from elsewhere has a bucket of its own."""
    settings = replace(FAST, resource_eviction_rate=0.1, secondary_resource_eviction_rate=0.1)
    settings = replace(settings, eviction=replace(settings.eviction, bucket_scope="Cluster"))
    many = [binding(f"a{n:02}", ANYWHERE, on={"member1": 1}) for n in range(12)]
    story = fleet(*many, binding("z", ANYWHERE, on={"member2": 1}), settings=settings)

    story.taint("member1", no_execute())
    story.pass_seconds(5)
    story.taint("member2", no_execute(at=START + timedelta(seconds=5)))
    story.pass_seconds(11)

    assert "member2" not in story.placed("z")
    assert len(gone(story)) == 2, "one of member1, in 16 s, and z"
