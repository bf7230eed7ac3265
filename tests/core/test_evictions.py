"""Who leaves, when, in which order, at which rate, and where to."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from controlplane.kinds.binding import AggregatedStatusItem, Binding
from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import (
    ClusterFailoverBehavior,
    Placement,
    StatePreservation,
    StatePreservationRule,
    Toleration,
)
from controlplane.kinds.taint_policy import ClusterTaintPolicy, ClusterTaintPolicySpec, MatchCondition, TaintToAdd
from controlplane.meta import ObjectMeta
from controlplane.settings import GATES, EvictionSettings, Settings
from tests.core.fleet_story import (
    FAILOVER,
    START,
    Story,
    binding,
    by_room,
    by_weight,
    cluster,
    duplicated,
    no_execute,
)

FAST = replace(FAILOVER, resource_eviction_rate=1000.0, secondary_resource_eviction_rate=100.0)
ANYWHERE = duplicated(least=1, most=1)
CLUSTERS = tuple(f"member{n}" for n in range(1, 6))


def fleet(*bindings: Binding, settings: Settings = FAST) -> Story:
    return Story(*(cluster(name) for name in CLUSTERS), *bindings, settings=settings)


def prefer(seconds: float = 0) -> Taint:
    return Taint("weak", "PreferNoExecute", time_added=START + timedelta(seconds=seconds))


def tolerating(*tolerations: Toleration) -> Placement:
    return duplicated(least=1, most=1, tolerations=tolerations)


# When


@pytest.mark.parametrize(
    ("tolerations", "leaves_at"),
    [
        ([], 0),
        ([Toleration("gone", "Exists", toleration_seconds=100)], 100),
        ([Toleration("gone", "Exists", toleration_seconds=0)], 0),
        ([Toleration("gone", "Exists")], None),
        ([Toleration("gone", "Exists"), Toleration(operator="Exists", toleration_seconds=10)], None),
        ([Toleration("gone", "Exists", effect="NoSchedule")], 0),
        ([Toleration("other", "Exists")], 0),
    ],
)
def test_no_execute_asks_the_tolerations(tolerations: list[Toleration], leaves_at: int | None) -> None:
    story = fleet(binding("web", tolerating(*tolerations), on={"member1": 2}))

    story.taint("member1", no_execute())

    if leaves_at is None:
        story.pass_seconds(1000)
        assert story.queue() == {}
        assert story.placed("web") == {"member1": 2}
        return
    if leaves_at:
        story.pass_seconds(leaves_at - 1)
        assert story.queue() == {"web|member1": "Queued"}
        assert "member1" in story.placed("web")
    story.pass_seconds(2)
    assert "member1" not in story.placed("web")


@pytest.mark.parametrize(
    ("behaviour", "leaves_at"),
    [
        (None, None),
        (ClusterFailoverBehavior(), 300),
        (ClusterFailoverBehavior(toleration_seconds=0), 0),
        (ClusterFailoverBehavior(toleration_seconds=100), 100),
    ],
)
def test_d4_d5_prefer_no_execute_asks_failover_cluster_and_no_toleration(
    behaviour: ClusterFailoverBehavior | None, leaves_at: int | None
) -> None:
    everything = tolerating(Toleration(operator="Exists"))
    story = fleet(binding("web", everything, on={"member1": 2}, failover=behaviour))

    story.taint("member1", prefer())

    story.pass_seconds(1000 if leaves_at is None else max(0, leaves_at - 1))
    assert story.placed("web") == {"member1": 2}
    if leaves_at is not None:
        story.pass_seconds(2)
        assert "member1" not in story.placed("web")


def test_d4_with_both_effects_the_earliest_wins() -> None:
    placement = tolerating(Toleration("gone", "Exists", toleration_seconds=50))
    story = fleet(
        binding("web", placement, on={"member1": 2}, failover=ClusterFailoverBehavior(toleration_seconds=200))
    )

    story.taint("member1", no_execute(), prefer())

    story.pass_seconds(49)
    assert "member1" in story.placed("web")
    story.pass_seconds(3)
    assert "member1" not in story.placed("web")


@pytest.mark.parametrize(("anew", "leaves"), [(False, True), (True, False)])
def test_d6_an_edit_during_the_outage_changes_nothing_unless_asked_for(anew: bool, leaves: bool) -> None:
    settings = replace(FAST, eviction=EvictionSettings(reevaluate_policies=anew))
    placement = tolerating(Toleration("gone", "Exists", toleration_seconds=100))
    story = fleet(binding("web", placement, on={"member1": 2}), settings=settings)
    story.taint("member1", no_execute())
    story.pass_seconds(50)

    old = story.binding("web")
    story.store.put(old.with_spec(placement=tolerating(Toleration("gone", "Exists"))), old)
    story.pass_seconds(60)

    assert ("member1" not in story.placed("web")) == leaves


def test_d6_i3_what_tolerated_when_the_taint_appeared_stays_after_an_edit() -> None:
    story = fleet(binding("web", tolerating(Toleration(operator="Exists")), on={"member1": 2}))
    story.taint("member1", no_execute())
    story.pass_seconds(10)

    old = story.binding("web")
    story.store.put(old.with_spec(placement=ANYWHERE), old)
    story.pass_seconds(600)

    assert "member1" in story.placed("web")


def test_d6_a_later_taint_is_its_own_question() -> None:
    story = fleet(binding("web", tolerating(Toleration("gone", "Exists")), on={"member1": 2}))
    story.taint("member1", no_execute())
    story.pass_seconds(600)

    story.taint("member1", no_execute("burning", at=story.now))
    story.pass_seconds(2)

    assert "member1" not in story.placed("web")


def test_d6_a_target_placed_later_is_judged_on_arrival() -> None:
    story = fleet(binding("web", duplicated(least=1, most=1), on={"member2": 2}))
    story.taint("member1", no_execute())
    story.pass_seconds(10)

    old = story.binding("web")
    story.store.put(old.with_spec(clusters=(replace(old.spec.clusters[0], name="member1"),)), old)
    story.pass_seconds(10)

    assert "member1" not in story.placed("web")


# The gate


def test_d17_with_the_gate_off_nothing_leaves_not_even_for_a_persons_taint() -> None:
    story = fleet(binding("web", ANYWHERE, on={"member1": 2}), settings=Settings(feature_gates=dict(GATES)))

    story.taint("member1", no_execute())
    story.pass_seconds(3600)

    assert story.placed("web") == {"member1": 2}
    assert story.queue() == {}


def test_d17_closing_the_gate_drops_the_queue_and_opening_it_starts_the_clocks_anew() -> None:
    placement = tolerating(Toleration("gone", "Exists", toleration_seconds=100))
    story = fleet(binding("web", placement, on={"member1": 2}))
    story.taint("member1", no_execute())
    story.pass_seconds(90)
    assert story.queue() == {"web|member1": "Queued"}

    story.settings = Settings(feature_gates=dict(GATES))
    story.pass_seconds(6)
    assert story.queue() == {}

    story.settings = FAST
    story.pass_seconds(95)
    assert "member1" in story.placed("web")
    story.pass_seconds(15)
    assert "member1" not in story.placed("web")


# Rate and order


def gone(story: Story, cluster_name: str = "member1") -> list[str]:
    names = [ref.name for ref in story.store.objects if ref.kind.endswith("ResourceBinding")]
    return [
        one.removesuffix("-deployment") for one in names if cluster_name not in story.placed(one[: -len("-deployment")])
    ]


def test_rate_half_a_resource_a_second_means_one_every_two_seconds_from_an_empty_bucket() -> None:
    story = fleet(*(binding(f"web{n:02}", ANYWHERE, on={"member1": 2}) for n in range(10)), settings=FAILOVER)

    story.taint("member1", no_execute())
    counts = []
    for _ in range(10):
        story.pass_seconds(1)
        counts.append(len(gone(story)))

    assert counts == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]


@pytest.mark.parametrize(
    ("total", "failed", "moved"), [(10, 6, 0), (11, 7, 6), (3, 3, 0)], ids=["D8 stop", "D8 secondary", "D9 blind"]
)
def test_the_fleets_health_sets_the_rate(total: int, failed: int, moved: int) -> None:
    names = [f"member{n:02}" for n in range(total)]
    story = Story(
        *(cluster(name) for name in names),
        *(binding(f"web{n:02}", ANYWHERE, on={"member00": 1}) for n in range(20)),
        settings=FAILOVER,
    )
    for name in names[:failed]:
        story.taint(name, no_execute())

    story.pass_seconds(60)

    assert len(gone(story, "member00")) == moved


def test_d9_fault_10_after_blindness_tolerations_start_anew_and_there_is_no_burst() -> None:
    placement = tolerating(Toleration("gone", "Exists", toleration_seconds=100))
    story = fleet(*(binding(f"web{n}", placement, on={"member1": 1}) for n in range(5)))
    for name in CLUSTERS:
        story.taint(name, no_execute())
    story.pass_seconds(7200)
    assert gone(story) == []

    for name in CLUSTERS[1:]:
        story.untaint(name)
    story.pass_seconds(95)
    assert gone(story) == []
    story.pass_seconds(15)
    assert len(gone(story)) == 5


def test_fault_14_without_redis_nothing_leaves() -> None:
    story = fleet(binding("web", ANYWHERE, on={"member1": 2}))
    story.redis_away = True

    story.taint("member1", no_execute())
    story.pass_seconds(600)
    assert story.placed("web") == {"member1": 2}
    assert story.events("EvictionTokensUnavailable")

    story.redis_away = False
    story.pass_seconds(5)
    assert "member1" not in story.placed("web")


def test_fault_15_a_flushed_bucket_starts_empty() -> None:
    story = fleet(*(binding(f"web{n}", ANYWHERE, on={"member1": 2}) for n in range(9)), settings=FAILOVER)
    story.taint("member1", no_execute())
    for _ in range(10):
        story.pass_seconds(1)
        story.buckets.clear()

    assert gone(story) == []


def test_d7_higher_priority_goes_first_and_age_lets_the_low_one_through() -> None:
    story = fleet(
        binding("low", ANYWHERE, on={"member1": 1}, priority=0),
        *(binding(f"high{n:03}", ANYWHERE, on={"member1": 1}, priority=2) for n in range(3)),
        settings=FAILOVER,
    )
    story.taint("member1", no_execute())
    story.pass_seconds(2.5)
    assert gone(story) == ["high000"]
    story.pass_seconds(20)
    assert "low" in gone(story)


def test_fault_39_a_flood_of_high_priority_starves_nobody() -> None:
    settings = replace(FAILOVER, eviction=EvictionSettings(ageing_seconds=10))
    story = fleet(
        binding("low", ANYWHERE, on={"member1": 1}),
        *(binding(f"high{n:03}", ANYWHERE, on={"member2": 1}, priority=3) for n in range(60)),
        settings=settings,
    )
    story.taint("member1", no_execute())
    story.redis_away = True
    story.pass_seconds(40)
    story.taint("member2", no_execute(at=story.now))
    story.redis_away = False

    story.pass_seconds(4)

    assert "low" in gone(story)


# Where to


def test_d10_no_cluster_left_means_held_with_the_reason_and_the_copy_stays() -> None:
    story = fleet(binding("web", duplicated("member1", least=1, most=1), on={"member1": 2}))

    story.taint("member1", no_execute())
    story.pass_seconds(60)

    assert story.placed("web") == {"member1": 2}
    assert story.queue() == {"web|member1": "Held"}
    assert [one.involved_object.kind for one in story.events("EvictionHeld")] == ["ResourceBinding", "Deployment"]


def test_d10_a_held_eviction_goes_on_when_a_cluster_joins() -> None:
    story = fleet(binding("web", duplicated("member1", "member9", least=1, most=1), on={"member1": 2}))
    story.taint("member1", no_execute())
    story.pass_seconds(60)

    story.store.create(cluster("member9"))
    story.pass_seconds(5)

    assert story.placed("web") == {"member9": 2}


def test_d10_a_held_eviction_goes_on_when_its_policy_finds_it_a_place() -> None:
    story = fleet(binding("web", duplicated("member1", least=1, most=1), on={"member1": 2}))
    story.taint("member1", no_execute())
    story.pass_seconds(60)

    old = story.binding("web")
    story.store.put(old.with_spec(placement=duplicated("member1", "member2", least=1, most=1)), old)
    story.pass_seconds(5)

    assert story.placed("web") == {"member2": 2}


def test_d10_two_failed_and_one_candidate_move_nothing() -> None:
    placement = duplicated("member1", "member2", "member3", least=2, most=2)
    story = fleet(binding("web", placement, on={"member1": 2, "member2": 2}))

    story.taint("member1", no_execute())
    story.taint("member2", no_execute())
    story.pass_seconds(60)

    assert story.placed("web") == {"member1": 2, "member2": 2}
    assert story.queue() == {"web|member1": "Held", "web|member2": "Held"}


def test_d10_duplicated_without_a_minimum_needs_a_replacement_for_each_lost_copy() -> None:
    story = fleet(binding("web", duplicated("member1", "member2"), on={"member1": 2, "member2": 2}))

    story.taint("member1", no_execute())
    story.pass_seconds(60)

    assert set(story.placed("web")) == {"member1", "member2"}
    assert story.queue() == {"web|member1": "Held"}


def test_d10_divided_moves_onto_a_cluster_of_the_old_result() -> None:
    story = fleet(binding("web", by_weight(member1=1, member2=2), on={"member1": 1, "member2": 2}, replicas=3))

    story.taint("member1", no_execute())
    story.pass_seconds(5)

    assert story.placed("web") == {"member2": 3}


def test_d10_fault_29_what_is_promised_to_one_is_not_promised_to_the_next() -> None:
    story = Story(
        cluster("member1"),
        cluster("member2", slots=10),
        cluster("member3", slots=5),
        *(
            binding(f"web{n:02}", by_room("member1", "member2", "member3"), on={"member1": 1}, replicas=1)
            for n in range(20)
        ),
        settings=FAST,
    )

    story.taint("member1", no_execute())
    story.pass_seconds(30)

    places = [name for n in range(20) for name in story.placed(f"web{n:02}")]
    assert {name: places.count(name) for name in sorted(set(places))} == {"member1": 5, "member2": 10, "member3": 5}
    assert len(story.queue()) == 5


@pytest.mark.parametrize(
    ("source", "partial", "placed"),
    [
        ("False", True, {"member2": 3}),
        ("False", False, {"member1": 4}),
        ("True", True, {"member1": 4}),
    ],
)
def test_d10_a_part_goes_where_the_source_is_down_and_the_rest_stays_pending(
    source: str, partial: bool, placed: dict[str, int]
) -> None:
    settings = replace(FAST, eviction=EvictionSettings(partial_refuge=partial))
    story = Story(
        cluster("member1"),
        cluster("member2", slots=3),
        cluster("member4"),
        binding("web", by_room("member1", "member2"), on={"member1": 4}, replicas=4),
        settings=settings,
    )
    story.ready("member1", source)

    story.taint("member1", no_execute())
    story.pass_seconds(10)

    assert story.placed("web") == placed


@pytest.mark.parametrize(("full", "moves"), [(False, True), (True, False)])
def test_d10_a_spread_minimum_that_still_holds_is_refuge_enough_unless_each_copy_must_be_replaced(
    full: bool, moves: bool
) -> None:
    settings = replace(FAST, eviction=EvictionSettings(require_full_replacement=full))
    placement = duplicated("member1", "member2", "member3", least=2, most=3)
    story = fleet(binding("web", placement, on={"member1": 2, "member2": 2, "member3": 2}), settings=settings)

    story.taint("member1", no_execute())
    story.pass_seconds(10)

    assert ("member1" not in story.placed("web")) == moves


# Recovery


def test_d12_i8_fault_22_a_recovery_drops_what_is_queued() -> None:
    story = fleet(*(binding(f"web{n}", ANYWHERE, on={"member1": 2}) for n in range(10)), settings=FAILOVER)
    story.taint("member1", no_execute())
    story.pass_seconds(4.5)
    assert len(story.queue()) == 8

    story.untaint("member1")
    story.pass_seconds(600)

    assert story.queue() == {}
    assert len(gone(story)) == 2


def test_d12_while_only_the_removal_window_runs_evictions_wait_as_recovering() -> None:
    policy = ClusterTaintPolicy(
        "policy.karmada.io/v1alpha1",
        "ClusterTaintPolicy",
        ObjectMeta(name="detect", uid="detect", generation=1, creation_timestamp=START),
        ClusterTaintPolicySpec(
            match_conditions=(MatchCondition("Ready", "In", ("False",)),),
            taints_to_add=(TaintToAdd("down", "NoExecute", "", 10, 180),),
        ),
    )
    story = Story(
        *(cluster(name) for name in CLUSTERS),
        policy,
        *(binding(f"web{n}", ANYWHERE, on={"member1": 2}) for n in range(10)),
        settings=FAILOVER,
    )
    story.ready("member1", "False")
    story.pass_seconds(14.5)
    assert len(gone(story)) == 2

    story.ready("member1", "True")
    story.pass_seconds(60)
    assert set(story.queue().values()) == {"Recovering"}
    assert len(gone(story)) == 2

    story.ready("member1", "False")
    story.pass_seconds(4.5)
    assert len(gone(story)) > 2


# What is written


def test_an_eviction_is_told_on_the_binding_and_on_its_template() -> None:
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
def test_d13_the_purge_mode_is_the_policys_and_else_the_settings(
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


def test_d15_state_is_read_when_the_eviction_is_decided() -> None:
    story = stateful({"jobStatus": {"jobID": "abc123"}})

    assert story.binding("web").spec.graceful_eviction_tasks[0].preserved_label_state == {"example.io/job": "abc123"}


@pytest.mark.parametrize("status", [None, {}, {"jobStatus": {"jobID": "not a label!"}}])
def test_d15_fault_32_missing_state_holds_the_eviction_or_lets_it_go_without(status: dict[str, object] | None) -> None:
    assert stateful(status).queue() == {"web|member1": "Held"}
    (task,) = stateful(status, hold="Proceed").binding("web").spec.graceful_eviction_tasks
    assert task.preserved_label_state == {}


def test_d15_with_its_gate_off_no_state_is_read_and_nothing_is_held() -> None:
    (task,) = stateful(None, gate=False).binding("web").spec.graceful_eviction_tasks

    assert task.preserved_label_state == {}
