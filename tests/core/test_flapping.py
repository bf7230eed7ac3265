"""When a cluster flaps: counted before the debounce, over observed time, with a beginning and an end
[flapping-cluster]."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition
from controlplane.clusters.flapping import KEPT, settle, turned
from controlplane.clusters.health import Seen, heartbeat, observe
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import Observation
from controlplane.settings import Settings
from tests.builders.objects import START, cluster

SETTINGS = Settings()
UP, DOWN = Seen("True", "ClusterReady"), Seen("False", "ClusterNotReachable")


def after(*seconds: float) -> Observation:
    """An observation that changed at these moments."""
    return turned(Observation("member1", "True"), *(START + timedelta(seconds=one) for one in seconds))


def reported(status: str) -> Cluster:
    member = cluster("member1")
    said = () if not status else (Condition("Flapping", status, "AnswersChange" if status == "True" else "Calm"),)
    return member.with_status(conditions=(*member.status.conditions, *said))


def published(row: Observation, seconds: float, before: str = "", settings: Settings = SETTINGS) -> str:
    found = settle(reported(before), row, settings, until=START + timedelta(seconds=seconds)).condition
    return "" if found is None else found.status


@pytest.mark.parametrize(
    ("row", "seconds", "before", "status"),
    [
        (after(), 0, "", ""),
        (after(*range(0, 100, 20)), 80, "", ""),
        (after(*range(0, 120, 20)), 100, "", "True"),
        (after(*range(0, 600, 120)), 599, "", ""),
        (after(*range(0, 720, 120)), 600, "", ""),
        (after(0, 100, 200, 300, 400, 599), 599, "", "True"),
        (after(0, 100, 200, 300, 400, 600), 600, "", ""),
        (after(*range(0, 120, 20)), 399.999, "True", "True"),
        (after(*range(0, 120, 20)), 400, "True", "False"),
        (after(0, 299), 598, "True", "True"),
        (after(0, 299), 598, "False", "False"),
        (after(0), 10_000, "True", "False"),
        (after(*range(0, 120, 20)), 100, "False", "True"),
    ],
    ids=[
        *("steady", "five changes", "six", "five in the window", "the first is too old", "just within", "just not"),
        *("not calm yet", "calm", "slower, but not calm", "slow, and it was calm", "long ago", "again"),
    ],
)
def test_it_flaps_from_six_changes_in_600_s_until_none_for_300_s(
    row: Observation, seconds: float, before: str, status: str
) -> None:
    assert published(row, seconds, before) == status


def test_it_is_measured_in_the_longer_threshold_and_without_one_nothing_flaps() -> None:
    quick = replace(SETTINGS, cluster_failure_threshold=3, cluster_success_threshold=1)
    none = replace(SETTINGS, cluster_failure_threshold=0, cluster_success_threshold=0)

    assert published(after(*range(0, 12, 2)), 39, "True", quick) == "True"
    assert published(after(*range(0, 12, 2)), 40, "True", quick) == "False"
    assert published(after(*range(0, 12, 2)), 10, "", none) == ""


def test_the_clock_alone_ends_it() -> None:
    found = settle(reported("True"), after(*range(0, 120, 20)), SETTINGS, until=START + timedelta(seconds=110))

    assert found.wake_at == START + timedelta(seconds=400)


def test_the_condition_names_few_counts_so_that_it_is_seldom_written() -> None:
    row, messages = Observation("member1", "True"), set()
    for second in range(0, 3600, 10):
        row = turned(row, START + timedelta(seconds=second))
        found = settle(reported("True"), row, SETTINGS, until=START + timedelta(seconds=second)).condition
        messages.add("" if found is None else found.message)

    assert len(messages) == 6
    assert (row.turns, len(row.turned_at)) == (360, KEPT)


def test_only_crossings_between_ready_and_not_ready_count_and_the_first_answer_is_none() -> None:
    row = Observation("member1")
    for place, what in enumerate([UP, UP, DOWN, Seen("Unknown"), DOWN, UP]):
        row = observe(row, what, SETTINGS, now=START + timedelta(seconds=10 * place))

    assert (row.turns, [moment - START for moment in row.turned_at]) == (
        2,
        [timedelta(seconds=20), timedelta(seconds=50)],
    )


def test_unobserved_time_is_taken_out() -> None:
    row = observe(Observation("member1"), UP, SETTINGS, now=START)
    row = observe(row, DOWN, SETTINGS, now=START + timedelta(seconds=10))
    row = observe(row, DOWN, SETTINGS, now=START + timedelta(seconds=10 + 20 + 3600))

    assert row.turned_at == (START + timedelta(seconds=10 + 3600),)


def test_an_agent_that_falls_silent_again_and_again_flaps() -> None:
    """Its silence is seen to have been one when it is back: it fell silent after the grace period, and returned."""
    row = heartbeat(Observation("member1"), UP, SETTINGS, now=START)
    for place in (1, 2, 3):
        back = START + timedelta(seconds=60 * place)
        listened = replace(row, observed_at=back - timedelta(seconds=5))
        row = heartbeat(listened, UP, SETTINGS, now=back)

    assert [(moment - START).total_seconds() for moment in row.turned_at] == [40, 60, 100, 120, 160, 180]
    assert published(row, 180) == "True"
