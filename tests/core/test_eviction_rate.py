"""At which rate and in which order evictions go [eviction-queue] [blind-fleet]."""

from __future__ import annotations

from typing import Literal

import pytest
from msgspec.structs import replace

from controlplane.controllers.reads.fleet_state import FLEET, QUEUE_ROW, fleet_states
from controlplane.kinds.configuration import FailoverConfiguration
from controlplane.kinds.policy import (
    Toleration,
)
from controlplane.settings import GATES, EvictionSettings
from tests.builders.objects import binding, cluster, meta, no_execute
from tests.builders.steering import API
from tests.core.eviction_fleet import ANYWHERE, CLUSTERS, fleet, gone, tolerating
from tests.core.fleet_story import FAILOVER, Story


def test_rate_half_a_resource_a_second_means_one_every_two_seconds_from_an_empty_bucket() -> None:
    story = fleet(*(binding(f"web{n:02}", ANYWHERE, on={"member1": 2}) for n in range(10)), settings=FAILOVER)

    story.taint("member1", no_execute())
    counts = []
    for _ in range(10):
        story.pass_seconds(1)
        counts.append(len(gone(story)))

    assert counts == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]


def switch(story: Story, *, on: bool) -> None:
    """Let a user switch the gate Failover on or off."""
    story.settings = replace(story.settings, feature_gates={**GATES, "Failover": on})
    old: FailoverConfiguration | None = story.store.get([FLEET]).get(FLEET)
    said = meta(FLEET.name) if old is None else replace(old.metadata, generation=old.metadata.generation + 1)
    new = FailoverConfiguration(API, "FailoverConfiguration", said, {"featureGates": {"Failover": on}})
    assert not story.store.put(new, old).lost
    story.work()


@pytest.mark.parametrize("scope", ["Fleet", "Cluster"])
@pytest.mark.parametrize("redis_away", [False, True])
def test_no_token_is_made_while_the_gate_is_off(scope: Literal["Fleet", "Cluster"], redis_away: bool) -> None:
    settings = replace(FAILOVER, eviction=EvictionSettings(bucket_scope=scope))
    story = fleet(*(binding(f"web{n}", ANYWHERE, on={"member1": 2}) for n in range(6)), settings=settings)
    story.taint("member1", no_execute())
    story.pass_seconds(2)
    assert len(gone(story)) == 1

    story.redis_away = redis_away
    switch(story, on=False)
    story.pass_seconds(0.9)
    story.redis_away = False
    story.pass_seconds(300)
    switch(story, on=True)
    counts = []
    for _ in range(4):
        story.pass_seconds(1)
        counts.append(len(gone(story)))

    assert counts[0] == 1
    assert counts[3] - counts[0] in (1, 2)


@pytest.mark.parametrize(
    ("total", "failed", "moved"), [(10, 6, 0), (11, 7, 6), (3, 3, 0)], ids=["stop", "secondary", "blind"]
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


def test_after_blindness_tolerations_restart_and_there_is_no_burst() -> None:
    placement = tolerating(Toleration("gone", "Exists", toleration_seconds=100))
    story = fleet(*(binding(f"web{n}", placement, on={"member1": 1}) for n in range(5)))
    for name in CLUSTERS:
        story.taint(name, no_execute())
    story.pass_seconds(1800)
    assert gone(story) == []

    for name in CLUSTERS[1:]:
        story.untaint(name)
    story.pass_seconds(95)
    assert gone(story) == []
    story.pass_seconds(15)
    assert len(gone(story)) == 5


def test_each_change_of_the_tier_is_reported_once_with_its_reason() -> None:
    story = Story(*(cluster(f"member{n}") for n in range(1, 13)), settings=FAILOVER)
    for name in ("member1", "member2", "member3", "member4", "member5", "member6", "member7"):
        story.taint(name, no_execute())
    story.pass_seconds(60)
    story.untaint("member1")
    story.pass_seconds(60)

    reported = [one.message for one in story.events("EvictionTierChanged")]
    assert reported == [
        "at most 0.1 evictions per second: the tier is Secondary, it was Normal: "
        "7 of 12 clusters are faulty, more than 55.00%",
        "at most 0.5 evictions per second: the tier is Normal, it was Secondary",
    ]
    assert {one.count for one in story.events("EvictionTierChanged")} == {1}


def test_without_redis_nothing_leaves() -> None:
    story = fleet(binding("web", ANYWHERE, on={"member1": 2}))
    story.redis_away = True

    story.taint("member1", no_execute())
    story.pass_seconds(600)
    assert story.placed("web") == {"member1": 2}
    assert story.events("EvictionTokensUnavailable")

    story.redis_away = False
    story.pass_seconds(5)
    assert "member1" not in story.placed("web")


def test_a_stop_ends_when_nothing_waits_any_more_although_redis_is_still_away() -> None:
    story = fleet(binding("web", ANYWHERE, on={"member1": 2}))
    story.redis_away = True
    story.taint("member1", no_execute())
    story.pass_seconds(5)
    assert [stop.until for stop in fleet_states(story.store, QUEUE_ROW)[0].stops] == [None]

    story.untaint("member1")
    story.pass_seconds(5)

    (stop,) = fleet_states(story.store, QUEUE_ROW)[0].stops
    assert stop.until is not None


def test_the_bucket_of_the_fleet_is_asked_before_anything_waits_and_is_full_then() -> None:
    settings = replace(FAILOVER, resource_eviction_rate=0.5)
    story = fleet(*(binding(f"web{n}", ANYWHERE, on={"member1": 2}) for n in range(3)), settings=settings)
    story.pass_seconds(60)
    assert gone(story) == []

    story.taint("member1", no_execute())
    story.pass_seconds(1)

    assert len(gone(story)) == 1


def test_what_waited_for_redis_says_so_and_no_other_does() -> None:
    story = fleet(binding("web", ANYWHERE, on={"member1": 2}), binding("api", ANYWHERE, on={"member5": 2}))
    story.members.healthy = False  # tasks stay, with what they say
    story.redis_away = True
    story.taint("member1", no_execute())
    story.pass_seconds(60)
    story.redis_away = False
    story.pass_seconds(5)

    story.taint("member5", no_execute(at=story.now))
    story.pass_seconds(5)

    since, until = "2026-01-01T00:00:00Z", "2026-01-01T00:01:01Z"  # Redis is asked once a second
    assert waited(story, "web") == [
        f"evictions to resume, 61 s: stopped from {since} until {until}, no tokens: Redis is away",
        f"its turn in the queue, which came 61 s after it was due at {since}",
    ]
    assert waited(story, "api") == []


def waited(story: Story, name: str) -> list[str]:
    """Return what a binding waited for before it left, as its task says."""
    (task,) = story.binding(name).spec.graceful_eviction_tasks
    return list(task.waited_for)


def test_after_a_flush_a_bucket_has_no_tokens() -> None:
    story = fleet(*(binding(f"web{n}", ANYWHERE, on={"member1": 2}) for n in range(9)), settings=FAILOVER)
    story.taint("member1", no_execute())
    for _ in range(10):
        story.pass_seconds(1)
        story.buckets.clear()

    assert gone(story) == []


def test_higher_priority_goes_first_and_age_lets_the_low_one_through() -> None:
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


def test_a_flood_of_high_priority_starves_no_other_binding() -> None:
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
