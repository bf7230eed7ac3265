from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from controlplane.clusters.tolerations import spelled, tolerates, untolerated
from controlplane.eviction.eligibility import earliest_judgement, judge_taints
from controlplane.kinds.binding import ObjectReference, ResourceBindingSpec
from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import Placement, Toleration
from controlplane.kinds.rows import Judgement
from tests.builders.objects import cluster

EVER = datetime.min.replace(tzinfo=UTC)
NOW = datetime(2026, 3, 14, 9, 30, tzinfo=UTC)
EARLIER = NOW - timedelta(seconds=60)
DOWN = Taint("down", "NoExecute", time_added=EARLIER)


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
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
def test_what_a_toleration_tolerates(toleration: Toleration, tolerated: bool) -> None:
    assert tolerates(toleration, DOWN) is tolerated


def leaves_at(taints: Sequence[Taint], tolerations: Sequence[Toleration], *, since: datetime = EVER) -> datetime | None:
    """Return when a copy leaves a cluster with these taints; None: it stays."""
    placed = ResourceBindingSpec(
        ObjectReference("apps/v1", "Deployment", "web"), placement=Placement(cluster_tolerations=tuple(tolerations))
    )
    found = earliest_judgement(judge_taints(placed, cluster("member1", taints=taints), (), clocks_from=since))
    return None if found is None else found.due_at


def test_an_untolerated_taint_drives_away_at_once() -> None:
    assert leaves_at([DOWN], []) == EARLIER


def test_a_taint_dated_ahead_drives_away_from_its_date_on() -> None:
    ahead = Taint("down", "NoExecute", time_added=NOW + timedelta(hours=1))

    assert leaves_at([ahead], []) == NOW + timedelta(hours=1)


@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule", "PreferNoExecute"])
def test_other_effects_drive_nothing_away(effect: str) -> None:
    assert leaves_at([Taint("down", effect, time_added=EARLIER)], []) is None


@pytest.mark.parametrize(("seconds", "at"), [(300, EARLIER + timedelta(seconds=300)), (0, EARLIER), (-5, EARLIER)])
def test_a_toleration_with_seconds_ends_that_long_after_the_taint_was_added(seconds: int, at: datetime) -> None:
    bears = Toleration("down", "Exists", toleration_seconds=seconds)

    assert leaves_at([DOWN], [bears]) == at


def test_the_first_toleration_that_tolerates_a_taint_is_the_one_used() -> None:
    for_ever, short = Toleration("down", "Exists"), Toleration("down", "Exists", toleration_seconds=10)

    assert leaves_at([DOWN], [for_ever, short]) is None
    assert leaves_at([DOWN], [short, for_ever]) == EARLIER + timedelta(seconds=10)


@pytest.mark.parametrize("added", [NOW, None])
def test_a_used_toleration_runs_for_every_taint_it_tolerates(added: datetime | None) -> None:
    full = Taint("full", "NoExecute", time_added=added)
    tolerations = [Toleration("down", "Exists"), Toleration("", "Exists", toleration_seconds=90)]

    assert leaves_at([DOWN, full], tolerations) == EARLIER + timedelta(seconds=90)


def test_a_toleration_of_another_taint_does_not_shorten_the_wait() -> None:
    full = Taint("full", "NoExecute", time_added=NOW)
    tolerations = [Toleration("down", toleration_seconds=300), Toleration("full", toleration_seconds=0)]

    assert leaves_at([DOWN, full], tolerations) == NOW
    assert leaves_at([DOWN, full], [tolerations[0], Toleration("full")]) == EARLIER + timedelta(seconds=300)
    assert leaves_at([DOWN, full], [Toleration("down"), tolerations[1]]) == NOW


@pytest.mark.parametrize(("again", "seconds"), [(False, 300), (True, 0)])
def test_a_stored_judgement_is_kept_unless_taints_are_judged_again(again: bool, seconds: float) -> None:
    spec = ResourceBindingSpec(ObjectReference("apps/v1", "Deployment", "web"), placement=Placement())
    before = Judgement("down", "NoExecute", EARLIER, EARLIER + timedelta(seconds=300), 300)
    member = cluster("member1", taints=[DOWN])

    (found,) = judge_taints(spec, member, [before], clocks_from=EVER, judge_again=again)

    assert (found.wait_seconds, found.due_at) == (seconds, EARLIER + timedelta(seconds=seconds))


def test_clocks_do_not_start_before_evictions_were_switched_on() -> None:
    bears = Toleration("down", "Exists", toleration_seconds=300)

    assert leaves_at([DOWN], [bears], since=NOW) == NOW + timedelta(seconds=300)
    assert leaves_at([DOWN], [], since=NOW) == NOW


def test_a_taint_that_does_not_say_when_it_was_added_starts_no_clock() -> None:
    undated = Taint("down", "NoExecute")

    assert leaves_at([undated], [Toleration("down", "Exists", toleration_seconds=1)]) is None


def test_only_the_effects_asked_for_are_listed() -> None:
    assert untolerated([DOWN, Taint("x", "NoSchedule")], [], ("NoSchedule",)) == (Taint("x", "NoSchedule"),)
    assert spelled(DOWN) == "down:NoExecute"
