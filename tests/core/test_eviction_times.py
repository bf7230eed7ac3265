"""Who leaves a failed cluster and when: tolerations, both effects, edits, the gate."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import (
    ClusterFailoverBehavior,
    Toleration,
)
from controlplane.settings import GATES, EvictionSettings, Settings
from tests.builders.objects import START, binding, no_execute
from tests.builders.placements import duplicated
from tests.core.eviction_fleet import ANYWHERE, FAST, fleet, tolerating


def prefer(seconds: float = 0) -> Taint:
    return Taint("weak", "PreferNoExecute", time_added=START + timedelta(seconds=seconds))


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


def test_a_toleration_longer_than_there_is_time_is_for_ever() -> None:
    """As a number people write the largest there is; it is no reason to leave, and none to fail."""
    story = fleet(
        binding("web", tolerating(Toleration("gone", "Exists", toleration_seconds=2**63 - 1)), on={"member1": 2}),
        binding("api", ANYWHERE, on={"member1": 2}),
    )

    story.taint("member1", no_execute())
    story.pass_seconds(1000)

    assert story.placed("web") == {"member1": 2}
    assert "member1" not in story.placed("api")


@pytest.mark.parametrize(
    ("behaviour", "leaves_at"),
    [
        (None, None),
        (ClusterFailoverBehavior(), 300),
        (ClusterFailoverBehavior(toleration_seconds=0), 0),
        (ClusterFailoverBehavior(toleration_seconds=100), 100),
    ],
)
def test_prefer_no_execute_asks_failover_cluster_and_no_toleration(
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


def test_with_both_effects_the_earliest_wins() -> None:
    placement = tolerating(Toleration("gone", "Exists", toleration_seconds=50))
    story = fleet(
        binding("web", placement, on={"member1": 2}, failover=ClusterFailoverBehavior(toleration_seconds=200))
    )

    story.taint("member1", no_execute(), prefer())

    story.pass_seconds(49)
    assert "member1" in story.placed("web")
    story.pass_seconds(3)
    assert "member1" not in story.placed("web")


@pytest.mark.parametrize(
    ("again", "edited", "leaves_at"),
    [(False, None, 100), (False, 200, 100), (False, 60, 100), (True, None, None), (True, 200, 200), (True, 60, 60)],
)
def test_an_edit_during_the_outage_changes_nothing_unless_asked_for(
    again: bool, edited: int | None, leaves_at: int | None
) -> None:
    """After 50 s; and where it is judged again, it counts from the taint all the same, never from the edit."""
    settings = replace(FAST, eviction=EvictionSettings(reevaluate_policies=again))
    placement = tolerating(Toleration("gone", "Exists", toleration_seconds=100))
    story = fleet(binding("web", placement, on={"member1": 2}), settings=settings)
    story.taint("member1", no_execute())
    story.pass_seconds(50)

    old = story.binding("web")
    tolerated = tolerating(Toleration("gone", "Exists", toleration_seconds=edited))
    story.store.put(old.with_spec(placement=tolerated), old)
    story.pass_seconds(600 if leaves_at is None else leaves_at - 51)
    assert "member1" in story.placed("web")

    if leaves_at is not None:
        story.pass_seconds(2)
        assert "member1" not in story.placed("web")


def test_i3_what_tolerated_when_the_taint_appeared_stays_after_an_edit() -> None:
    story = fleet(binding("web", tolerating(Toleration(operator="Exists")), on={"member1": 2}))
    story.taint("member1", no_execute())
    story.pass_seconds(10)

    old = story.binding("web")
    story.store.put(old.with_spec(placement=ANYWHERE), old)
    story.pass_seconds(600)

    assert "member1" in story.placed("web")


def test_a_later_taint_is_its_own_question() -> None:
    story = fleet(binding("web", tolerating(Toleration("gone", "Exists")), on={"member1": 2}))
    story.taint("member1", no_execute())
    story.pass_seconds(600)

    story.taint("member1", no_execute("burning", at=story.now))
    story.pass_seconds(2)

    assert "member1" not in story.placed("web")


def test_a_target_placed_later_is_judged_on_arrival() -> None:
    story = fleet(binding("web", duplicated(least=1, most=1), on={"member2": 2}))
    story.taint("member1", no_execute())
    story.pass_seconds(10)

    old = story.binding("web")
    story.store.put(old.with_spec(clusters=(replace(old.spec.clusters[0], name="member1"),)), old)
    story.pass_seconds(10)

    assert "member1" not in story.placed("web")


# The gate


def test_with_the_gate_off_nothing_leaves_not_even_for_a_persons_taint() -> None:
    story = fleet(binding("web", ANYWHERE, on={"member1": 2}), settings=Settings(feature_gates=dict(GATES)))

    story.taint("member1", no_execute())
    story.pass_seconds(3600)

    assert story.placed("web") == {"member1": 2}
    assert story.queue() == {}


def test_closing_the_gate_drops_the_queue_and_opening_it_restarts_the_clocks() -> None:
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
