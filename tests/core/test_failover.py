"""A whole failover in memory: from the taint to the old copy going."""

from __future__ import annotations

from tests.builders.objects import binding, cluster, no_execute
from tests.builders.placements import by_weight, duplicated
from tests.core.eviction_fleet import fleet
from tests.core.fleet_story import FAILOVER, Story


def test_s000_duplicated_moves_the_lost_copy_and_keeps_the_healthy_one() -> None:
    placement = duplicated("member1", "member2", "member3", "member5", least=2, most=2)
    story = fleet(binding("nginx", placement, on={"member1": 2, "member2": 2}), settings=FAILOVER)

    story.taint("member2", no_execute())
    story.pass_seconds(10)

    assert set(story.placed("nginx")) in ({"member1", "member3"}, {"member1", "member5"})
    assert story.leaving("nginx") == []
    assert len(story.events("EvictWorkloadFromClusterSucceed")) == 2


def test_s000_divided_moves_the_replicas_to_the_other_cluster() -> None:
    story = Story(
        cluster("member1"),
        cluster("member2"),
        binding("nginx", by_weight(member1=1, member2=2), on={"member1": 1, "member2": 2}, replicas=3),
    )

    story.taint("member1", no_execute())
    story.pass_seconds(10)

    assert story.placed("nginx") == {"member2": 3}
