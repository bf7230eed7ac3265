"""Every fault in docs/rules/faults.md has a test or a story, or its section says that it is not covered."""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref, condition
from controlplane.controllers.eviction_queue import EvictionQueue
from controlplane.engine import run
from controlplane.engine.decision import Decision, Put, Save
from controlplane.engine.memory import MemoryStore
from controlplane.engine.state import Actor
from controlplane.eviction import queue
from controlplane.kinds import RESOURCE_BINDING, WORK
from controlplane.kinds.policy import Toleration
from controlplane.kinds.rows import Eviction, FleetState
from tests.builders.objects import START, binding, cluster, no_execute
from tests.builders.placements import duplicated
from tests.core.eviction_fleet import fleet
from tests.core.fleet_story import FAILOVER
from tests.simulation.manifests import ANYWHERE, NGINX
from tests.simulation.member import UNAUTHORIZED, UNREAD
from tests.simulation.outages import scale, serving
from tests.simulation.stories import apply, joined, placed, running
from tests.simulation.world import Simulation

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "rules" / "faults.md"

COVERED: dict[str, tuple[str, ...]] = {
    "webhook-receiver-down": (
        "test_a_message_that_was_not_accepted_is_tried_again_later",
        "test_a_channel_that_fails_does_not_keep_the_other_waiting",
    ),
    "single-failed-probe": ("test_one_failed_probe_changes_nothing",),
    "debounce-boundary": ("test_a_failing_cluster_is_published_exactly_when_the_threshold_has_passed",),
    "flapping-cluster": (
        "test_a_cluster_that_flaps_faster_than_the_threshold_is_never_published",
        "test_a_cluster_that_flaps_every_20_s_for_an_hour_is_counted_and_moves_no_workload",
        "test_what_a_policy_would_evict_from_a_flapping_cluster_is_held_until_it_is_calm",
    ),
    "outage-of-our-own": (
        "test_no_copy_is_evicted_from_a_cluster_that_recovered_during_our_outage",
        "test_while_the_members_process_is_away_evictions_wait_and_the_reason_is_stored",
        "test_a_copy_that_became_healthy_during_an_outage_of_ours_stays",
    ),
    "restart-during-debounce": ("test_unobserved_time_counts_for_nothing",),
    "rotated-credential": (
        "test_a_member_that_refuses_all_logins_loses_nothing",
        "test_lost_access_adds_no_schedule_and_nothing_else",
        "test_a_cluster_with_lost_access_is_not_faulty",
    ),
    "slow-member": (
        "test_a_late_answer_counts_until_the_probes_time_is_over",
        "test_a_silent_member_delays_no_other",
    ),
    "expired-certificate": (
        "test_an_expired_certificate_has_a_reason_of_its_own_and_ready_says_it_too",
        "test_a_member_whose_certificate_has_expired_is_not_lost_and_says_what_is_wrong",
    ),
    "proxy-without-member": ("test_an_object_is_gone_only_if_an_api_server_reports_it",),
    "silent-agent": (
        "test_a_pull_member_without_heartbeats_is_unknown_after_the_grace_period",
        "test_policies_decide_what_becomes_of_a_cluster_whose_agent_is_silent",
    ),
    "all-clusters-fail": ("test_when_all_clusters_fail_no_taint_that_moves_workloads_is_added",),
    "all-clusters-return": (
        "test_after_blindness_the_windows_restart",
        "test_after_blindness_tolerations_restart_and_there_is_no_burst",
    ),
    "most-clusters-fail": ("test_faults_11_and_12_tiers_by_whole_numbers",),
    "tier-boundary": ("test_faults_11_and_12_tiers_by_whole_numbers",),
    "tier-changes": (
        "test_i12_a_tier_change_never_creates_tokens",
        "test_i12_time_before_a_tier_change_counts_at_the_lower_rate",
        "test_each_change_of_the_tier_is_reported_once_with_its_reason",
    ),
    "redis-away": (
        "test_without_redis_nothing_leaves",
        "test_redis_away_grants_nothing_and_says_so",
        "test_without_its_broker_a_worker_goes_on_and_nothing_is_lost",
    ),
    "redis-flushed": ("test_after_a_flush_a_bucket_has_no_tokens", "test_a_flushed_bucket_starts_empty"),
    "clock-jump": (
        "test_a_clock_that_goes_back_gives_nothing",
        "test_a_clock_that_jumps_makes_no_burst",
    ),
    "database-failover": ("test_an_eviction_the_database_forgot_happens_once",),
    "killed-after-token": ("test_a_worker_that_dies_with_a_token_has_lost_the_token_and_moved_nothing",),
    "killed-after-member-delete": ("test_what_a_worker_removed_before_it_died_is_found_gone_and_recorded_once",),
    "repeated-task": (
        "test_a_decision_applied_twice_happens_once",
        "test_a_write_that_changes_nothing_more_keeps_the_version",
    ),
    "two-beats": (
        "test_one_holder_at_a_time",
        "test_while_one_has_the_lease_another_does_nothing",
        "test_a_turn_whose_lease_has_passed_writes_nothing_and_loses_nothing",
    ),
    "recovery-while-queued": (
        "test_six_rows_of_recovery",
        "test_i8_fault_22_a_recovery_drops_what_is_queued",
    ),
    "edit-while-queued": ("test_an_edit_during_the_outage_changes_nothing_unless_asked_for",),
    "tolerated-for-ever": (
        "test_what_tolerates_for_ever_is_not_queued",
        "test_what_tolerates_for_ever_uses_no_token",
    ),
    "no-refuge": ("test_no_cluster_left_means_held_with_the_reason_and_the_copy_stays",),
    "stuck-replacement": (
        "test_a_task_past_its_time_says_what_it_waits_for",
        "test_past_the_timeout_hold_keeps_the_copy_and_purge_lets_it_go",
    ),
    "refuge-fails": ("test_a_second_failover_before_the_new_copy_ran_carries_what_the_first_one_saved",),
    "broken-release": (
        "test_a_version_that_is_unhealthy_on_two_clusters_moves_no_further",
        "test_another_version_may_move_again_and_is_given_its_time",
    ),
    "stale-estimates": (
        "test_what_is_reserved_for_one_is_not_reserved_for_the_next",
        "test_room_for_one_lets_one_leave_however_late_the_scheduler_is",
    ),
    "unknown-capacity": (
        "test_a_member_that_could_not_be_read_has_no_room",
        "test_a_member_that_can_no_longer_be_read_keeps_what_was_read",
        "test_what_is_unknown_or_unreadable_is_room_for_nothing",
    ),
    "directly-without-source": (
        "test_a_lost_cluster_is_waited_for_until_it_is_fenced",
        "test_directly_goes_on_after_the_time_the_policy_gives_it",
    ),
    "missing-state": ("test_missing_state_holds_the_eviction_or_lets_it_go_without",),
    "unreadable-binding": ("test_a_damaged_binding_in_the_queue_keeps_no_other_copy_from_being_evicted",),
    "unreadable-cluster": ("test_it_stops_no_eviction_from_another_cluster",),
    "returning-copies": ("test_a_copy_left_behind_stays_while_its_replacement_is_down",),
    "policy-deleted-in-outage": (
        "test_deleting_a_policy_withdraws_its_taints_at_once",
        "test_a_dry_run_shows_what_goes_with_a_taint_policy",
    ),
    "shared-taint": ("test_a_taint_two_policies_want_stays_while_one_wants_it",),
    "drain-during-failure": (
        "test_it_gives_way_while_the_fleet_is_not_well",
        "test_what_leaves_a_cluster_that_fails_meanwhile_goes_first",
    ),
    "priority-flood": ("test_a_flood_of_high_priority_starves_no_other_binding",),
    "large-cluster-lost": ("test_a_lost_cluster_is_queued_chunk_by_chunk_and_not_one_by_one",),
    "late-report": (
        "test_a_report_based_on_an_older_version_loses",
        "test_the_second_writer_of_the_same_part_loses",
    ),
    "scale-during-eviction": ("test_a_workload_scaled_during_its_eviction_keeps_the_new_count",),
    "cluster-removed-with-tasks": (
        "test_a_task_of_a_cluster_that_is_gone_ends",
        "test_a_cluster_that_is_unjoined_takes_its_tasks_and_its_queue_along",
    ),
    "database-restored": (
        "test_a_backup_restored_by_the_documented_commands_leaves_members_alone_until_a_person_confirms",
        "test_only_a_person_ends_the_hold",
    ),
    "foreign-heartbeat": (
        "test_an_agent_may_act_for_no_other_cluster",
        "test_an_agent_does_nothing_else_to_its_own_cluster",
    ),
    "hostile-patterns": (
        "test_neither_a_hostile_template_nor_a_huge_document_can_hold_up_a_decision",
        "test_a_poisoned_policy_is_refused_when_it_is_saved",
    ),
    "skewed-clocks": (
        "test_only_the_moment_of_receipt_counts",
        "test_a_condition_changed_when_its_report_arrived",
        "test_the_database_says_when_a_heartbeat_arrived",
        "test_a_condition_turns_by_our_clock",
    ),
}


def _faults() -> dict[str, str]:
    """Return the text of each fault in docs/rules/faults.md by its name."""
    parts = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {name.strip(): text for name, _, text in (part.partition("\n") for part in parts)}


def _tests() -> frozenset[str]:
    texts = (path.read_text() for path in TESTS.rglob("test_*.py"))
    return frozenset(
        name for text in texts for name in re.findall(r"^\s*(?:async )?def (test_\w+)", text, re.MULTILINE)
    )


@pytest.mark.parametrize("name", sorted(_faults()))
def test_every_fault_has_a_test_or_story(name: str) -> None:
    names = COVERED.get(name, ())

    assert names or "Not covered" in _faults()[name], "no test covers this fault: write one, or name that on the page"
    assert set(names) <= _tests(), "is covered by tests that do not exist"


def test_every_covered_fault_is_on_the_page() -> None:
    assert set(COVERED) <= set(_faults())


def test_a_decision_applied_twice_happens_once() -> None:
    """And where something else was written in between, its second time is lost instead of undoing that."""
    store = MemoryStore(controllers=())
    web = binding("web", duplicated(least=1, most=1), on={"member1": 2})
    store.create(web)
    live = store.get([web.ref])[web.ref]
    decision = Decision(changes=(Put(live.with_spec(clusters=()), live),))

    assert not store.apply([(None, decision)], by=Actor("test"))[0].lost
    written = len(store.changes(0))
    store.apply([(None, decision)], by=Actor("test"))
    assert len(store.changes(0)) == written

    left = store.get([web.ref])[web.ref]
    elsewhere = binding("web", duplicated(), on={"member2": 2}).spec.clusters
    assert not store.put(left.with_spec(clusters=elsewhere), left).lost
    again = store.apply([(None, decision)], by=Actor("test"))[0]

    assert again.lost
    assert store.get([web.ref])[web.ref].spec.clusters == elsewhere


def test_what_tolerates_for_ever_is_not_queued() -> None:
    placement = duplicated(least=1, most=1, tolerations=[Toleration(operator="Exists")])
    lost = {"member1": cluster("member1", taints=[no_execute()])}
    one = binding("config", placement, on={"member1": 0})
    many = [replace(one, metadata=replace(one.metadata, name=f"config-{n}")) for n in range(10_000)]

    rows = [
        row
        for each in many
        for row in queue.wanted_rows(each, lost, (), clocks_from=START, judge_again=False, now=START)
    ]

    assert len(rows) == 10_000
    assert not any(row.due_at for row in rows)


def test_what_tolerates_for_ever_uses_no_token() -> None:
    """At 0.5/s the first token is there after 2 s, and it is for the one that leaves, the last by name."""
    stays = duplicated(least=1, most=1, tolerations=[Toleration(operator="Exists")])
    configs = [f"config-{number}" for number in range(100)]
    story = fleet(
        *(binding(name, stays, on={"member1": 0}) for name in configs),
        binding("web", duplicated(least=1, most=1), on={"member1": 2}),
        settings=FAILOVER,
    )

    story.taint("member1", no_execute())
    story.pass_seconds(3)

    assert "member1" not in story.placed("web")
    assert {name for name in configs if "member1" in story.placed(name)} == set(configs)
    assert story.queue() == {}


def test_a_lost_cluster_is_queued_chunk_by_chunk_and_not_one_by_one() -> None:
    controller, counted = EvictionQueue(), list[int]()
    store = MemoryStore(controllers=[controller], clock=lambda: START)
    store.apply([(None, Decision(changes=(Save(FleetState("default", failover_on_since=START)),)))], by=Actor("test"))
    placement = duplicated(least=1, most=1)
    store.create(cluster("member1"), *(binding(f"web{n}", placement, on={"member1": 1}) for n in range(5_000)))
    while run.run_batch(controller, store, FAILOVER, world=run.World()).claimed:
        pass
    ref = cluster("member1").ref
    live = store.get([ref])[ref]
    assert not store.put(live.with_spec(taints=(no_execute(),)), live).lost

    while claimed := run.run_batch(controller, store, FAILOVER, world=run.World()).claimed:
        counted.append(claimed)

    assert store.evictions_by_cluster() == {"member1": 5_000}
    assert sum(counted) <= 2 + 5_000 // run.FAN_OUT_CHUNK + 1
    assert len(store.rows(Eviction, "cluster", ["member1"])["member1"]) == 5_000


def test_a_report_based_on_an_older_version_loses() -> None:
    store = MemoryStore(controllers=())
    store.create(cluster("member1"))
    ref = cluster("member1").ref
    old = store.get([ref])[ref]
    newer = old.with_status(kubernetes_version="v1.32.4")
    assert not store.put(newer, old).lost

    late = store.put(old.with_status(kubernetes_version="v1.31.0"), old)

    assert late.lost
    assert store.get([ref])[ref].status.kubernetes_version == "v1.32.4"


@pytest.mark.parametrize("seed", range(4))
def test_a_member_that_refuses_all_logins_loses_nothing(seed: int) -> None:
    """Its credential was rotated: it answers every question with 401, and policies would empty what is not Ready."""
    world = serving("member1", "member2", seed=seed)
    before = running(world)
    world.fault("member1", UNAUTHORIZED)
    world.run(3600)

    member1 = world.store.objects[cluster("member1").ref]
    lost = condition(member1.status.conditions, "AccessLost")
    assert lost is not None
    assert (lost.status, member1.ready) == ("True", "True")
    assert {(one.key, one.effect) for one in member1.spec.taints} == {
        ("failover.lifeboat.io/access-lost", "NoSchedule")
    }
    assert (running(world), placed(world), world.tokens) == (before, before, [])


@pytest.mark.parametrize("seed", range(8))
def test_a_workload_scaled_during_its_eviction_keeps_the_new_count(seed: int) -> None:
    world = serving("member1", "member2", seed=seed)
    world.fault("member1", "down")
    world.run(33 + seed / 2)

    world.excused["nginx"] = world.now.replace(year=2027)
    scale(world, 5)
    world.run(120)

    assert placed(world) == {"member2": 5}
    assert running(world)["member2"] == 5
    assert world.store.list(RESOURCE_BINDING)[0].spec.replicas == 5


@pytest.mark.parametrize("turns", [1, 2, 4, 8])
@pytest.mark.parametrize("seed", range(6))
def test_an_eviction_the_database_forgot_happens_once(seed: int, turns: int) -> None:
    """The database fails over right after an eviction and has lost it, with what was written in the turns before."""
    world = serving("member1", "member2", seed=seed)
    world.history = deque(maxlen=turns)
    world.checks.append(lambda world: _fails_over(world, RESOURCE_BINDING))
    world.fault("member1", "down")
    world.run(120)

    assert world.losses == 1
    assert placed(world) == {"member2": 3}
    assert running(world) == {"member1": 0, "member2": 3}
    left = [one for one in world.store.log if one.actor == "evictions" and one.ref.kind == RESOURCE_BINDING]
    assert len(left) == 1
    assert len(world.tokens) <= 2  # the first is gone with what it was spent on

    world.fault("member1", "none")
    world.run(240)
    assert running(world) == {"member2": 3}


def _fails_over(world: Simulation, kind: str) -> None:
    """Lose what the last turns wrote, once something has been evicted."""
    history = world.history
    if history and any(one.spec.graceful_eviction_tasks for one in world.store.list(kind)):
        world.history = None
        world.after(0, lambda: world.lose_commits(history[0]))


@pytest.mark.parametrize("seed", range(6))
def test_a_worker_that_dies_with_a_token_has_lost_the_token_and_moved_nothing(seed: int) -> None:
    world = serving("member1", "member2", seed=seed)
    world.dies["after taking tokens"] = 1
    world.fault("member1", "down")
    world.run(120)

    assert world.died["after taking tokens"] == 1
    (left,) = [one for one in world.store.log if one.actor == "evictions" and one.ref.kind == RESOURCE_BINDING]
    lost, spent = world.tokens
    assert left.at >= spent > lost
    assert placed(world) == {"member2": 3}


@pytest.mark.parametrize("seed", range(6))
def test_what_a_worker_removed_before_it_died_is_found_gone_and_recorded_once(seed: int) -> None:
    world = serving("member1", "member2", seed=seed)
    world.fault("member1", "down")
    world.run(90)
    assert placed(world) == {"member2": 3}
    world.dies["after a member acted"] = 1
    world.fault("member1", "none")
    world.run(240)

    assert world.died["after a member acted"] == 1
    assert running(world) == {"member2": 3}
    removed = [one for one in world.store.log if (one.ref.kind, one.type) == (WORK, "DELETED")]
    assert [one.ref.namespace for one in removed] == ["karmada-es-member1"]
    assert world.failures == []


SPREAD_OUT = ANYWHERE.replace("tolerationSeconds: 4", "tolerationSeconds: 0")


@pytest.mark.parametrize("seed", range(4))
def test_a_member_that_could_not_be_read_has_no_room(seed: int) -> None:
    """What a member reports about its nodes stands for an estimator here: without a report there is room for nothing,
    and the others get all of it at once."""
    world = joined("member1", "member2", "member3", seed=seed, faults={"member2": UNREAD})

    apply(world, SPREAD_OUT, NGINX % 6)
    world.run(20)

    assert placed(world) == {"member1": 3, "member3": 3}
    assert running(world) == {"member1": 3, "member3": 3}


@pytest.mark.parametrize("seed", range(4))
def test_a_member_that_can_no_longer_be_read_keeps_what_was_read(seed: int) -> None:
    world = joined("member1", "member2", seed=seed, pods=4)
    world.fault("member2", UNREAD)
    world.run(20)

    apply(world, SPREAD_OUT, NGINX % 6)
    world.run(30)
    known = placed(world)
    apply(world, *(one.replace("nginx", "more") for one in (SPREAD_OUT, NGINX % 9)))
    world.run(60)

    assert sum(known.values()) == 6
    assert known["member2"] <= 4
    assert placed(world, Ref(RESOURCE_BINDING, "default", "more-deployment")) == {}
