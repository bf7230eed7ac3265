from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import Toleration
from controlplane.tolerations import STAY, EvictAt, eviction_due, filter_reason, spelled, tolerates, untolerated

NOW = datetime(2026, 3, 14, 9, 30, tzinfo=UTC)
EARLIER = NOW - timedelta(seconds=60)
DOWN = Taint("down", "NoExecute", time_added=EARLIER)


@pytest.mark.parametrize(
    ("toleration", "bears"),
    [
        (Toleration("down", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("down"), True),
        (Toleration("down", "Equal", "x"), False),
        (Toleration("down", "Exists", effect="NoExecute"), True),
        (Toleration("down", "Exists", effect="NoSchedule"), False),
        (Toleration("up", "Exists"), False),
        (Toleration("down", "Gt"), False),
    ],
)
def test_what_a_toleration_bears(toleration: Toleration, bears: bool) -> None:
    assert tolerates(toleration, DOWN) is bears


def test_an_untolerated_taint_drives_away_at_once() -> None:
    assert eviction_due([DOWN], [], now=NOW) == EvictAt(EARLIER, DOWN)


def test_a_taint_dated_in_the_future_by_a_wrong_clock_drives_away_now() -> None:
    ahead = Taint("down", "NoExecute", time_added=NOW + timedelta(hours=1))

    assert eviction_due([ahead], [], now=NOW) == EvictAt(NOW, ahead)


@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule", "PreferNoExecute"])
def test_other_effects_drive_nothing_away(effect: str) -> None:
    assert eviction_due([Taint("down", effect, time_added=EARLIER)], [], now=NOW) == STAY


@pytest.mark.parametrize(("seconds", "at"), [(300, EARLIER + timedelta(seconds=300)), (0, EARLIER), (-5, EARLIER)])
def test_a_toleration_with_seconds_ends_that_long_after_the_taint_was_added(seconds: int, at: datetime) -> None:
    bears = Toleration("down", "Exists", toleration_seconds=seconds)

    assert eviction_due([DOWN], [bears], now=NOW) == EvictAt(at, DOWN)


def test_the_first_toleration_that_bears_a_taint_is_the_one_used() -> None:
    for_ever, short = Toleration("down", "Exists"), Toleration("down", "Exists", toleration_seconds=10)

    assert eviction_due([DOWN], [for_ever, short], now=NOW) == STAY
    assert eviction_due([DOWN], [short, for_ever], now=NOW) == EvictAt(EARLIER + timedelta(seconds=10), DOWN)


def test_a_used_toleration_runs_for_every_taint_it_bears() -> None:
    full = Taint("full", "NoExecute", time_added=NOW)
    tolerations = [Toleration("down", "Exists"), Toleration("", "Exists", toleration_seconds=90)]

    assert eviction_due([DOWN, full], tolerations, now=NOW) == EvictAt(EARLIER + timedelta(seconds=90), DOWN)


def test_clocks_do_not_start_before_evictions_were_switched_on() -> None:
    bears = Toleration("down", "Exists", toleration_seconds=300)

    due = eviction_due([DOWN], [bears], now=NOW, clocks_from=NOW)

    assert due == EvictAt(NOW + timedelta(seconds=300), DOWN)
    assert eviction_due([DOWN], [], now=NOW, clocks_from=NOW) == EvictAt(NOW, DOWN)


def test_a_taint_that_does_not_say_when_it_was_added_starts_no_clock() -> None:
    undated = Taint("down", "NoExecute")

    assert eviction_due([undated], [Toleration("down", "Exists", toleration_seconds=1)], now=NOW) == STAY


def test_the_scheduler_is_told_the_first_taint_that_refuses() -> None:
    taints = [Taint("soft", "PreferNoSchedule"), Taint("gpu", "NoSchedule", "a"), DOWN]

    assert filter_reason(taints, []) == "cluster(s) had untolerated taint {gpu=a:NoSchedule}"
    assert filter_reason(taints, [Toleration("gpu", "Exists")]) == "cluster(s) had untolerated taint {down:NoExecute}"
    assert filter_reason(taints, [Toleration("", "Exists")]) is None


def test_what_runs_on_a_cluster_already_is_not_filtered_away() -> None:
    assert filter_reason([DOWN], [], already_target=True) is None


def test_only_the_effects_asked_for_are_listed() -> None:
    assert untolerated([DOWN, Taint("x", "NoSchedule")], [], ("NoSchedule",)) == (Taint("x", "NoSchedule"),)
    assert spelled(DOWN) == "down:NoExecute"
