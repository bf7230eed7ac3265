"""While Redis gives no tokens, the state of the fleet names that as the reason why nothing is evicted [redis-away]."""

from __future__ import annotations

from controlplane.controllers.reads.fleet_state import FLEET_ROW, QUEUE_ROW, fleet_states
from controlplane.insight.situation import EVICTIONS, Facts, Tally, situation
from controlplane.kinds.fleet_status import BAD, FleetStatusStatus
from tests.builders.objects import binding, no_execute
from tests.core.eviction_fleet import ANYWHERE, CLUSTERS, fleet
from tests.core.fleet_story import Story

WAITS = Tally(EVICTIONS, "member1", "Queued", "", 1)


def seen(story: Story) -> FleetStatusStatus:
    state, queue = fleet_states(story.store, FLEET_ROW, QUEUE_ROW)
    clusters = [story.cluster(name) for name in CLUSTERS]
    facts = Facts(clusters=clusters, tallies=[WAITS], fleet=state, queue_row=queue, last_due=story.now)
    return situation(facts, story.settings, now=story.now)


def test_nothing_is_evicted_while_redis_is_away_and_the_reason_is_named() -> None:
    story = fleet(binding("web", ANYWHERE, on={"member1": 2}))
    story.redis_away = True
    story.taint("member1", no_execute())
    story.pass_seconds(60)

    status = seen(story)

    assert story.placed("web") == {"member1": 2}
    assert "Nothing is evicted: no tokens: Redis is away." in status.sentence
    assert (status.queue.rate, status.queue.ends_at) == (0, None)
    assert [(one.what, one.severity) for one in status.attention] == [("NoTokens", BAD)]


def test_the_rate_is_named_again_once_redis_answers() -> None:
    story = fleet(binding("web", ANYWHERE, on={"member1": 2}))
    story.redis_away = True
    story.taint("member1", no_execute())
    story.pass_seconds(60)

    story.redis_away = False
    story.pass_seconds(5)
    status = seen(story)

    assert "member1" not in story.placed("web")
    assert "1000/s, because 1 of 5 faulty" in status.sentence
    assert status.attention == ()
