"""Windows of a ClusterTaintPolicy: since when its conditions hold, what begins them again, what does not count
[taint-policies]."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.clusters import taint_policies
from controlplane.engine.decision import Decision, Delete
from controlplane.engine.state import Actor
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import MatchWindow, Observation
from controlplane.kinds.taint_policy import PolicyTaint, TaintToAdd
from tests.builders.objects import START, cluster
from tests.core.test_taints import KEY, NOT_READY, fleet, policy, shown, windowed


def test_a_taint_goes_when_the_mismatch_has_lasted_its_window() -> None:
    story = fleet(windowed())
    story.ready("member1", "False")
    story.pass_seconds(300)
    story.ready("member1", "True")

    story.pass_seconds(179)
    assert shown(story) == {"down:NoExecute"}
    story.pass_seconds(1)
    assert shown(story) == set()


def test_a_short_recovery_keeps_the_taint_and_its_time() -> None:
    story = fleet(windowed())
    story.ready("member1", "False")
    story.pass_seconds(300)
    before = story.cluster("member1").spec.taints[-1]
    story.ready("member1", "True")
    story.pass_seconds(100)
    story.ready("member1", "False")
    story.pass_seconds(300)

    assert before in story.cluster("member1").spec.taints


def test_a_taint_a_person_takes_off_comes_back_in_the_next_outage_however_soon_that_begins() -> None:
    story = fleet(windowed())
    story.ready("member1", "False")
    story.pass_seconds(300)
    story.untaint("member1")
    story.pass_seconds(60)

    story.ready("member1", "True")
    story.pass_seconds(60)
    story.ready("member1", "False")
    story.pass_seconds(299)
    assert "down:NoExecute" not in shown(story)
    story.pass_seconds(1)
    assert "down:NoExecute" in shown(story)


def test_without_windows_a_taint_a_person_takes_off_comes_back_when_its_conditions_begin_again() -> None:
    story = fleet(policy(add_on_conditions=NOT_READY, taints=(PolicyTaint(KEY, "NoExecute"),)))
    story.ready("member1", "False")
    assert "not-ready:NoExecute" in shown(story)

    story.untaint("member1")
    story.pass_seconds(3600)
    assert "not-ready:NoExecute" not in shown(story)

    story.ready("member1", "True")
    story.ready("member1", "False")
    assert "not-ready:NoExecute" in shown(story)


def test_a_short_failure_adds_nothing_and_restarts_the_window() -> None:
    story = fleet(windowed())
    for _ in range(3):
        story.ready("member1", "False")
        story.pass_seconds(299)
        story.ready("member1", "True")
        story.pass_seconds(1)

    assert shown(story) == set()


def test_false_to_unknown_does_not_reset_the_window() -> None:
    story = fleet(windowed())
    story.ready("member1", "False")
    story.pass_seconds(200)
    story.ready("member1", "Unknown")

    story.pass_seconds(100)

    assert "down:NoExecute" in shown(story)


@pytest.mark.parametrize(
    ("ready", "at", "ends"), [("False", 200, 500), ("Unknown", 200, 300), ("False", 0, 300)], ids=str
)
def test_an_unobserved_recovery_restarts_the_window(ready: str, at: int, ends: int) -> None:
    """Ready was True for a moment while our controller was away; False and Unknown in a row are one match."""
    turned = cluster("member1", ready=ready, at=START + timedelta(seconds=at))
    windows: dict[str, MatchWindow] = {}

    def wanted(one: Cluster, after: float) -> bool:
        now = START + timedelta(seconds=after)
        sight = taint_policies.Sight(now)
        found = taint_policies.wanted(
            one, [windowed()], {}, windows, sight=sight, moving_since=START, counting_since=START, now=now
        )
        windows.update((row.key, row) for row in found.windows)
        return bool(found.wanted.wants)

    assert not wanted(cluster("member1", ready="False", at=START), 1)
    assert not wanted(turned, 210)
    assert not wanted(turned, ends - 1)
    assert wanted(turned, ends)


def test_no_match_conditions_means_always_counted_from_when_both_exist() -> None:
    story = fleet(policy(taints_to_add=(TaintToAdd("every", "NoSchedule", "", 60, 60),)))

    story.pass_seconds(59)
    assert shown(story) == set()
    story.pass_seconds(1)
    assert shown(story) == {"every:NoSchedule"}


@pytest.mark.parametrize("again", ["policy", "cluster"])
def test_a_policy_or_cluster_recreated_under_its_name_starts_over(again: str) -> None:
    """What is kept of the one before may still be there: its garbage is collected a moment later."""
    always = policy(taints_to_add=(TaintToAdd("every", "NoSchedule", "", 60, 60),))
    story = fleet(always)
    story.pass_seconds(40)

    first: Any = always if again == "policy" else story.cluster("member1")
    second = replace(first, metadata=replace(first.metadata, uid="second", creation_timestamp=story.now))
    story.store.apply([(None, Decision(changes=(Delete(story.store.get([first.ref])[first.ref]),)))], by=Actor("ana"))
    story.store.create(second)

    story.pass_seconds(59)
    assert shown(story) == set()
    story.pass_seconds(1)
    assert shown(story) == {"every:NoSchedule"}


def test_the_longest_possible_window_never_ends_and_blocks_nothing() -> None:
    story = fleet(
        windowed("never", add=2**63 - 1), policy(taints_to_add=(TaintToAdd("every", "NoSchedule", "", 60, 60),))
    )
    story.ready("member1", "False")

    story.pass_seconds(600)

    assert shown(story) == {"not-ready:NoSchedule", "every:NoSchedule"}


def test_time_in_which_the_cluster_was_not_observed_does_not_count() -> None:
    story = fleet(windowed())
    story.ready("member1", "False")
    seen = Observation("member1", status="False", since=START, observed_at=START)
    story.save(seen)

    story.pass_seconds(600)

    assert shown(story) == {"not-ready:NoSchedule"}


@pytest.mark.parametrize(("looked_again", "seconds"), [(None, 300), (200, 500)])
def test_a_window_that_is_opened_late_does_not_count_unobserved_time(looked_again: int | None, seconds: int) -> None:
    """Ready turned at START; our controller was away, and so were the probes, until they looked again."""
    resumed = None if looked_again is None else START + timedelta(seconds=looked_again)
    sick = cluster("member1", ready="False", at=START)

    def wanted(after: float) -> bool:
        now = START + timedelta(seconds=after)
        found = taint_policies.wanted(
            sick,
            [windowed()],
            {},
            {},
            sight=taint_policies.Sight(now, 0.0 if resumed is None else 100.0, resumed),
            moving_since=START,
            counting_since=START,
            now=now,
        )
        return bool(found.wanted.wants)

    assert not wanted(seconds - 1)
    assert wanted(seconds)


def test_an_upgrade_keeps_the_digests_of_stored_policies() -> None:
    """With another digest, every taint of every policy would be removed and added again after an upgrade."""
    assert taint_policies.digest(policy().spec) == "039027fdfb64"
    assert taint_policies.digest(windowed().spec) == "3c925b9370c4"
