"""What the queue says of itself: estimates, the proposal's metrics, and the end of both with recovery."""

from __future__ import annotations

from datetime import timedelta
from statistics import median
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.times import END_OF_TIME
from controlplane.clusters import eviction_tier
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.insight.figures import QueueFigures, cumulative_buckets
from controlplane.insight.forecast import STOPPED, forecast, queue_end
from controlplane.kinds.eviction import eviction_item
from controlplane.kinds.policy import Toleration
from controlplane.kinds.rows import EVICTED, HELD, Eviction
from tests.builders.objects import START, binding, cluster, eviction, no_execute
from tests.builders.placements import duplicated
from tests.builders.queue_counts import figures_of
from tests.core.fleet_story import FAILOVER, Story

ONE = duplicated(least=1, most=1)
HALF = replace(FAILOVER, resource_eviction_rate=0.5)
NORMAL = eviction_tier.Tier(eviction_tier.NORMAL, 0.5)
FLEET_OF_FIVE = eviction_tier.FleetHealth(5, ("member1",))


def row(number: int, cluster: str = "member1", **fields: Any) -> Eviction:
    return eviction(f"b{number:03}", cluster, resource_kind="apps/v1/Deployment", **fields)


def test_an_estimate_counts_a_token_for_each_before_it() -> None:
    found = forecast([row(n) for n in range(3)], rate=0.5, ageing_seconds=300, now=START)

    assert [one.position for one in found.values()] == [1, 2, 3]
    assert [(one.at - START).total_seconds() for one in found.values() if one.at] == [2, 4, 6]
    assert queue_end(found.values()) == START + timedelta(seconds=6)


def test_an_estimate_at_another_rate_is_another_one() -> None:
    found = forecast([row(n) for n in range(30)], rate=10, ageing_seconds=300, now=START)

    assert (queue_end(found.values()) or START) - START == timedelta(seconds=3)


def test_with_a_bucket_for_each_cluster_none_waits_for_anothers_queue() -> None:
    rows = [row(1), row(2), row(3, "member2")]

    found = forecast(rows, rate=0.5, ageing_seconds=300, scope="Cluster", now=START)

    assert [one.position for one in found.values()] == [1, 2, 3]
    assert [(one.at - START).total_seconds() for one in found.values() if one.at] == [2, 4, 2]


@pytest.mark.parametrize("rate", [1e-9, 1e-13, 1e-300])
def test_an_estimate_beyond_all_calendars_is_their_end(rate: float) -> None:
    found = forecast([row(n) for n in range(3)], rate=rate, ageing_seconds=300, now=START)

    assert all(one.at is not None and START < one.at <= END_OF_TIME for one in found.values())
    assert queue_end(found.values()) is not None


def test_what_is_in_a_bucket_already_is_spent_on_its_own_queue_only() -> None:
    rows = [row(1), row(2), row(3, "member2")]
    tokens = {"cluster/member1": 1.0, "cluster/member2": 0.5}

    found = forecast(rows, rate=0.5, ageing_seconds=300, scope="Cluster", tokens=tokens, now=START)
    reported = figures_of(rows, FLEET_OF_FIVE, NORMAL, scope="Cluster", tokens=tokens, now=START)

    assert [(one.at - START).total_seconds() for one in found.values() if one.at] == [0, 2, 1]
    assert reported.eta_seconds == 2


def test_tier_zero_says_stopped() -> None:
    found = forecast([row(1)], rate=0, ageing_seconds=300, now=START)

    assert [(one.at, one.unknown_because) for one in found.values()] == [(None, STOPPED)]
    assert queue_end(found.values()) is None


def test_what_is_held_says_by_what_and_what_is_not_due_waits_for_its_time() -> None:
    later = row(2, due_at=START + timedelta(seconds=100))
    found = forecast([row(1, state=HELD, reason="NoRefuge"), later], rate=0.5, ageing_seconds=300, now=START)

    assert found[row(1).key].unknown_because == "NoRefuge"
    assert found[later.key].at == START + timedelta(seconds=100)


def of(story: Story) -> QueueFigures:
    rows = [
        one for name in ("member1", "member2") for one in story.store.rows(Eviction, "cluster", [name]).get(name, [])
    ]
    fleet = eviction_tier.fleet_health(story.cluster(f"member{n}") for n in range(1, 6))
    return figures_of(rows, fleet, eviction_tier.tier(fleet, story.settings), now=story.now)


def waiting_fleet(count: int, *, tolerates: int = 0) -> Story:
    placement = ONE
    if tolerates:
        placement = duplicated(
            least=1, most=1, tolerations=[Toleration("gone", "Exists", toleration_seconds=tolerates)]
        )
    names = [f"web{n:03}" for n in range(count)]
    return Story(
        *(cluster(f"member{n}") for n in range(1, 6)),
        *(binding(name, placement, on={"member1": 2}) for name in names),
        settings=HALF,
    )


@pytest.mark.parametrize("count", [10, 60])
def test_estimates_come_true_while_tier_and_queue_stay(count: int) -> None:
    story = waiting_fleet(count)
    story.taint("member1", no_execute())
    rows = story.store.rows(Eviction, "cluster", ["member1"])["member1"]
    reported = forecast(rows, rate=0.5, ageing_seconds=300, now=story.now)

    story.pass_seconds(count * 2 + 10)

    done = story.store.rows(Eviction, "cluster", ["member1"])["member1"]
    errors = []
    for one in done:
        assert one.state == EVICTED
        at, real = reported[one.key].at, one.ended_at
        assert at is not None
        assert real is not None
        errors.append(abs((at - real).total_seconds()) / max(2.0, (real - START).total_seconds()))
    assert median(errors) <= 0.10
    assert sorted(errors)[int(len(errors) * 0.95) - 1] <= 0.25


def test_metrics_of_an_outage_and_their_end_with_recovery() -> None:
    story = waiting_fleet(10)
    story.taint("member1", no_execute())
    story.pass_seconds(10)

    now = of(story)
    mine = now.clusters["member1"]
    assert (mine.waiting, mine.evicted, mine.failed) == (5, 5, 0)
    assert mine.by_kind == {"apps/v1/Deployment": 5}
    assert mine.success_rate == 1.0
    assert mine.rate == 5 / 10
    assert mine.latency_sum == pytest.approx(2 + 4 + 6 + 8 + 10, abs=0.1)
    assert cumulative_buckets(mine.latency_counts)["5.0"] == 2
    assert cumulative_buckets(mine.latency_counts)["+Inf"] == 5
    assert (now.faulty, now.total, now.fault_rate) == (1, 5, 0.2)
    assert (now.tier, now.tier_rate) == (eviction_tier.NORMAL, 0.5)
    assert now.eta_seconds == pytest.approx(10, abs=2.1)

    story.untaint("member1")
    story.pass_seconds(1)
    assert of(story).clusters == {}
    assert of(story).faulty == 0


@pytest.mark.parametrize(("passed", "rate"), [(0, 0.0), (1, 0.0), (120, 0.45), (300, 0.45), (600, 0.45)])
def test_the_rate_is_over_the_time_in_which_evictions_were_counted(passed: int, rate: float) -> None:
    """0.45 a second from the first minute on: not a part of it until five minutes are over."""
    now = START + timedelta(seconds=passed)
    done = [row(n, state=EVICTED, due_at=None, ended_at=START + timedelta(seconds=n / 0.45)) for n in range(1, 300)]
    past = [one for one in done if one.ended_at is not None and one.ended_at <= now]

    reported = figures_of([*past, row(999)], FLEET_OF_FIVE, NORMAL, now=now)

    assert reported.clusters["member1"].rate == pytest.approx(rate, abs=0.005)


def test_a_rate_is_over_one_second_at_least() -> None:
    """One eviction a millisecond after the taint is not a thousand a second."""
    now = START + timedelta(milliseconds=1)

    reported = figures_of([row(1, state=EVICTED, due_at=None, ended_at=now), row(2)], FLEET_OF_FIVE, NORMAL, now=now)

    assert reported.clusters["member1"].rate == 1


def test_the_rate_does_not_count_the_time_in_which_a_toleration_runs() -> None:
    """The copies are in the queue from the taint on and may leave 100 s later."""
    story = waiting_fleet(10, tolerates=100)
    story.taint("member1", no_execute())
    story.pass_seconds(110)

    mine = of(story).clusters["member1"]

    assert mine.evicted >= 5
    assert mine.rate == pytest.approx(mine.evicted / 10)


def test_evictions_older_than_five_minutes_do_not_count() -> None:
    ended = [START + timedelta(seconds=seconds) for seconds in (0, 99, 100, 400)]
    rows = [row(n, state=EVICTED, due_at=None, ended_at=at) for n, at in enumerate(ended)]

    reported = figures_of(rows, FLEET_OF_FIVE, NORMAL, now=START + timedelta(seconds=400))

    assert reported.clusters["member1"].rate == 2 / 300


def test_a_first_hold_without_refuge_counts_once_as_failed() -> None:
    nowhere = binding("stuck", duplicated("member1", least=1, most=1), on={"member1": 2})
    story = Story(*(cluster(f"member{n}") for n in range(1, 6)), nowhere, binding("web", ONE, on={"member1": 1}))
    story.taint("member1", no_execute())
    story.pass_seconds(20)
    story.store.mark("evictions", [FLEET])
    story.pass_seconds(20)

    mine = of(story).clusters["member1"]

    assert (mine.evicted, mine.failed, mine.success_rate) == (1, 1, 0.5)
    assert of(story).held == {"NoRefuge": 1}


@pytest.mark.parametrize(
    ("state", "reason", "reported"),
    [
        ("Held", "OnHold", "OnHold"),
        ("Held", "NoRefuge", "NoRefuge"),
        ("Queued", "OnHold", ""),
        ("Queued", "Maintenance", ""),
        ("Queued", "Flapping", ""),
        ("Queued", "NoRefuge", "NoRefuge"),
        ("Queued", "", ""),
    ],
)
def test_what_waits_for_its_token_again_is_not_said_to_be_on_hold(state: str, reason: str, reported: str) -> None:
    waiting = replace(row(1), state=state, reason=reason, message="EvictionHold h1: the switch is being replaced")

    seen = eviction_item(waiting, position=1, estimated_at=None, estimate="", queue_ends_at=None).status

    assert seen.reason == reported
    assert bool(seen.message) == bool(reported) or not reason


def test_an_eviction_was_created_in_a_whole_second_and_queued_within_it() -> None:
    queued_at = START + timedelta(seconds=1, microseconds=250_000)

    seen = eviction_item(row(1, queued_at=queued_at), position=1, estimated_at=None, estimate="", queue_ends_at=None)

    assert seen.metadata.creation_timestamp == START + timedelta(seconds=1)
    assert seen.status.queued_at == queued_at
