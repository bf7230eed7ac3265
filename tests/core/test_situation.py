"""The state of the fleet in a sentence and in figures."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition
from controlplane.insight.situation import EVICTIONS, TARGETS, TASKS, Expiry, Facts, Tally, Task, situation
from controlplane.kinds.fleet_status import FleetStatusStatus, Prepared
from controlplane.settings import Settings
from tests.builders.objects import START, cluster
from tests.builders.steering import hold

NOW = START + timedelta(minutes=10)
SETTINGS = replace(Settings(), feature_gates={**Settings().feature_gates, "Failover": True})


def ready(name: str) -> Any:
    return _with(name, Condition("Ready", "True", "ClusterReady", "", last_transition_time=START))


def down(name: str, *, minutes: int = 4) -> Any:
    since = NOW - timedelta(minutes=minutes)
    established = Condition("Established", "True", "ClusterWasReady", "", last_transition_time=START)
    return _with(
        name,
        Condition("Ready", "False", "ClusterNotReachable", "no answer", last_transition_time=since),
        established,
    )


def _with(name: str, *conditions: Condition) -> Any:
    return cluster(name).with_status(conditions=conditions)


def evictions(name: str, state: str, number: int, reason: str = "") -> Tally:
    return Tally(EVICTIONS, name, state, reason, number)


def seen(*clusters: Any, settings: Settings = SETTINGS, **facts: Any) -> FleetStatusStatus:
    return situation(Facts(clusters=clusters, **facts), settings, now=NOW)


def whats(status: FleetStatusStatus) -> list[str]:
    return [one.what for one in status.attention]


def test_nothing_would_fail_over_while_no_evictions_take_place_or_the_gate_is_off() -> None:
    prepared = Prepared(47, 45, NOW)
    half = [down("member1"), down("member2"), ready("member3")]

    stopped = seen(*half, prepared=prepared)
    off = seen(ready("member1"), ready("member2"), settings=Settings(), prepared=prepared)

    assert (stopped.readiness, off.readiness) == (Prepared(47, 0, NOW), Prepared(47, 0, NOW))
    assert seen(ready("member1"), ready("member2"), prepared=prepared).readiness == prepared


def test_an_outage_is_a_sentence_with_what_moves_and_why_at_this_rate() -> None:
    status = seen(
        down("member1"),
        ready("member2"),
        ready("member3"),
        tallies=[evictions("member1", "Evicted", 31), evictions("member1", "Held", 1, "NoRefuge")],
    )

    assert status.sentence == (
        "1 of 3 clusters down (member1, 4 min). 31 moved, 1 held: nowhere to go. 0.5/s, because 1 of 3 faulty ≤ 55 %."
    )
    assert status.severity == "Bad"


def test_a_healthy_fleet_says_since_when_and_how_many_workloads_would_fail_over() -> None:
    status = seen(ready("member1"), ready("member2"), prepared=Prepared(47, 45, NOW))

    assert status.sentence == f"All 2 clusters Ready since {START:%H:%M} UTC; 45 of 47 workloads would fail over."
    assert (status.severity, status.attention, status.ready_since) == ("OK", (), START)


def test_a_fleet_without_clusters_says_that_none_has_joined() -> None:
    assert seen().sentence == "No cluster has joined yet."


def test_above_the_threshold_a_small_fleet_stops_and_a_blind_fleet_names_the_reason() -> None:
    stopped = seen(down("member1"), down("member2"), ready("member3"))
    blind = seen(down("member1"), down("member2"))

    assert "Nothing is evicted: 2 of 3 faulty > 55 %." in stopped.sentence
    assert whats(stopped) == ["Stopped"]
    assert "all 2 clusters are faulty" in blind.sentence
    assert whats(blind) == ["Blind"]


def test_many_clusters_that_are_down_are_counted_and_the_first_three_named() -> None:
    status = seen(
        *(down(f"member{number}") for number in range(5)), *(ready(f"member{number}") for number in range(5, 20))
    )

    assert "5 of 20 clusters down (member0, 4 min; member1, 4 min; member2, 4 min; and 2 more)." in status.sentence


def test_copies_that_stay_are_not_in_the_queue_and_held_ones_that_are_checked_again_are_held() -> None:
    status = seen(
        down("member1"),
        ready("member2"),
        tallies=[
            evictions("member1", "Stays", 7),
            evictions("member1", "Queued", 2),
            evictions("member1", "Queued", 3, "NoRefuge"),
        ],
    )

    assert (status.queue.queued, status.queue.held) == (2, 3)
    assert [(one.reason, one.evictions) for one in status.queue.held_by] == [("NoRefuge", 3)]


def test_an_evicted_copy_is_moving_until_its_task_is_cleared_and_has_moved_afterwards() -> None:
    status = seen(
        down("member1"),
        ready("member2"),
        tallies=[evictions("member1", "Evicted", 10), Tally(TASKS, "member1", "Gracefully", "TaintUntolerated", 4)],
    )

    assert (status.queue.moving, status.queue.moved) == (4, 6)


def test_copies_that_leave_a_lost_cluster_for_another_reason_do_not_hide_what_has_moved() -> None:
    """A Drain was running when the cluster was lost: its 7 copies were never in the queue."""
    tallies = [
        evictions("member1", "Evicted", 10),
        Tally(TASKS, "member1", "Gracefully", "TaintUntolerated", 4),
        Tally(TASKS, "member1", "Gracefully", "Drain", 7),
        Tally(TASKS, "member1", "Gracefully", "ApplicationFailure", 1),
    ]

    status = seen(down("member1"), ready("member2"), tallies=tallies)

    assert (status.queue.moving, status.queue.moved) == (12, 6)


def test_a_task_that_outlasts_its_time_is_stuck_and_one_with_a_longer_time_of_its_own_is_not() -> None:
    old = NOW - timedelta(seconds=SETTINGS.graceful_eviction_timeout + 1)
    tasks = [Task("a", "member1", "Gracefully", old, None), Task("b", "member1", "Gracefully", old, 100_000)]

    status = seen(ready("member1"), oldest_tasks=tasks, tallies=[Tally(TASKS, "member1", "Gracefully", "", 2)])

    assert status.queue.stuck == 1
    assert whats(status) == ["Stuck"]
    assert "2 moving (1 stuck)." in status.sentence


def test_a_stuck_copy_that_waits_for_a_lost_cluster_is_not_blamed_on_its_replacement() -> None:
    """Nothing has been started that could become healthy: the fence is what is missing."""
    old = NOW - timedelta(seconds=SETTINGS.graceful_eviction_timeout + 1)
    directly = [Task(name, "member1", "Directly", old, None) for name in ("a", "b")]
    tallies = [Tally(TASKS, "member1", "Directly", "", 2), Tally(TASKS, "member1", "Gracefully", "", 1)]

    waiting = seen(down("member1"), ready("member2"), oldest_tasks=directly, tallies=tallies)
    unhealthy = Task("c", "member1", "Gracefully", old, None)
    both = seen(down("member1"), ready("member2"), oldest_tasks=[*directly, unhealthy], tallies=tallies)

    assert (waiting.queue.stuck, whats(waiting)) == (2, ["DirectlyWaiting"])
    assert (both.queue.stuck, whats(both)) == (3, ["Stuck", "DirectlyWaiting"])
    assert both.attention[0].message.startswith("1 moving copy stuck")


def test_a_copy_that_stays_on_purpose_does_not_move() -> None:
    """Purge mode Never: the old copy stays until a person says otherwise, perhaps for months."""
    tallies = [
        evictions("member1", "Evicted", 3),
        Tally(TASKS, "member1", "Never", "TaintUntolerated", 2),
        Tally(TASKS, "member1", "Gracefully", "TaintUntolerated", 1),
    ]

    status = seen(down("member1"), ready("member2"), tallies=tallies)

    assert (status.queue.moving, status.queue.moved) == (1, 2)


def test_the_queue_ends_when_the_rate_allows_it_and_not_before_its_last_item_is_due() -> None:
    tallies = [evictions("member1", "Queued", 60)]

    by_rate = seen(down("member1"), ready("member2"), tallies=tallies, last_due=NOW)
    by_due = seen(down("member1"), ready("member2"), tallies=tallies, last_due=NOW + timedelta(minutes=5))

    assert by_rate.queue.ends_at == NOW + timedelta(seconds=120)  # 60 at 0.5 per second
    assert by_due.queue.ends_at == NOW + timedelta(minutes=5)


def test_a_hold_over_the_fleet_pauses_it_and_one_for_a_cluster_does_not() -> None:
    fleet = hold("pause", reason="storage move", who="jane")
    narrow, over = hold("narrow", clusters=("member1",)), hold("over", expires_at=NOW)

    status = seen(ready("member1"), holds=[fleet, narrow, over])

    assert [(one.name, one.who, one.reason) for one in status.pauses] == [("pause", "jane", "storage move")]
    assert status.sentence.endswith("Paused by jane: storage move. Nothing is evicted until you resume.")
    assert whats(status) == ["Paused"]


def test_a_pause_that_ends_by_itself_says_when_and_of_several_the_last_end_counts() -> None:
    ending = [hold(f"h{minutes}", expires_at=NOW + timedelta(minutes=minutes)) for minutes in (5, 10)]
    lasting = hold("pause", reason="storage move", who="jane")

    by_itself = seen(ready("member1"), holds=ending).sentence
    by_hand = seen(ready("member1"), holds=[*ending, lasting]).sentence

    end = NOW + timedelta(minutes=10)
    assert by_itself.endswith(f"Nothing is evicted until {end:%Y-%m-%d %H:%M:%S} UTC, unless you resume before.")
    assert by_hand.endswith("Nothing is evicted until you resume.")


def test_a_paused_queue_counts_what_waits_and_has_neither_an_end_nor_a_rate_in_force() -> None:
    pause = hold("pause", reason="we look first", who="jane")
    reached = [evictions("member1", "Held", 5, "OnHold"), evictions("member1", "Queued", 2)]

    status = seen(down("member1"), ready("member2"), ready("member3"), tallies=reached, last_due=NOW, holds=[pause])

    assert status.sentence == (
        "1 of 3 clusters down (member1, 4 min). 2 queued, 5 held: on hold. "
        "Paused by jane: we look first. 7 evictions wait until you resume."
    )
    assert status.queue.ends_at is None
    assert whats(status) == ["Paused"]  # the pause is what an operator ends: what it holds is not a second task


def test_the_worst_clusters_come_first_with_what_runs_on_them() -> None:
    lost = _with(
        "member3",
        Condition("Ready", "True", "ClusterReady", "", last_transition_time=START),
        Condition("AccessLost", "True", "AccessRefused", "401", last_transition_time=START),
    )
    never = cluster("member4").with_status(conditions=())

    status = seen(ready("member1"), never, lost, down("member2"), tallies=[Tally(TARGETS, "member2", "", "", 12)])

    assert [(one.name, one.state) for one in status.members] == [
        ("member2", "NotReady"),
        ("member3", "AccessLost"),
        ("member4", "Joining"),
        ("member1", "Ready"),
    ]
    assert status.members[0].workloads == 12
    assert set(whats(status)) == {"AccessLost", "NeverReady"}


def test_old_copies_that_may_still_run_ask_for_a_fence() -> None:
    status = seen(down("member1"), ready("member2"), tallies=[Tally(TASKS, "member1", "Directly", "", 3)])

    (one,) = status.attention
    assert (one.what, one.cluster) == ("DirectlyWaiting", "member1")
    assert one.message.startswith("3 new copies wait for old copies on member1")


def test_what_concerns_the_fleet_is_not_below_hundreds_of_clusters() -> None:
    """A proxy in front of all clusters has another certificate: each of them refuses access."""
    names = [f"member{number:03}" for number in range(300)]
    lost = Condition("AccessLost", "True", "Refused", "x509", last_transition_time=START)
    clusters = [_with(name, ready(name).status.conditions[0], lost) for name in names]

    status = seen(*clusters, tallies=[evictions("member000", "Held", 4, "NoRefuge")])

    assert whats(status)[:2] == ["Held", "AccessLost"]
    assert len(status.attention) == 301


def test_a_credential_is_named_two_weeks_before_it_expires() -> None:
    soon, later = NOW + timedelta(days=3), NOW + timedelta(days=15)

    status = seen(
        ready("member1"), expiries=[Expiry("member1", "token", soon), Expiry("member1", "certificate", later)]
    )

    assert [(one.what, one.message) for one in status.attention] == [
        ("CredentialExpires", f"The token for member1 expires in 3 d, at {soon:%Y-%m-%d %H:%M} UTC")
    ]


def test_no_remedy_for_a_pull_cluster_makes_it_a_push_cluster() -> None:
    """To join it with a kubeconfig would give up its agent."""
    lost = Condition("AccessLost", "True", "Refused", "403", last_transition_time=START)
    shut = _with("edge1", ready("edge1").status.conditions[0], lost).with_spec(sync_mode="Pull")
    runs_out, new = ready("edge2").with_spec(sync_mode="Pull"), _with("edge3").with_spec(sync_mode="Pull")

    status = seen(shut, runs_out, new, expiries=[Expiry("edge2", "token of the agent", NOW + timedelta(days=3))])

    assert [(one.what, one.command) for one in status.attention] == [
        ("AccessLost", "kubectl describe cluster edge1"),
        ("NeverReady", "lifeboat join edge3 --pull"),
        ("CredentialExpires", "lifeboat join edge2 --pull"),
    ]
    assert not [one for one in status.attention if "Secret" in one.remedy or "endpoint" in one.remedy]


def test_while_the_gate_is_off_the_sentence_says_that_nothing_is_evicted() -> None:
    off = replace(SETTINGS, feature_gates={**SETTINGS.feature_gates, "Failover": False})

    status = seen(down("member1"), ready("member2"), settings=off)

    assert "Nothing is evicted: the feature gate Failover is off." in status.sentence
    assert "GateOff" in whats(status)
