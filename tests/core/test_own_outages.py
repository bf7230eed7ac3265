"""Times in which no worker ran, and what they add to a time limit [outage-of-our-own]."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from controlplane.clusters import health, own_outages
from controlplane.clusters.own_outages import KEPT, WHY
from controlplane.kinds.rows import FleetState, Observation, Stop
from controlplane.settings import Settings
from tests.builders.objects import START

SETTINGS = Settings()  # the fleet is looked at every 5 s, and members every 10 s


def after(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def row(looked: float | None = 0, *gaps: tuple[float, float]) -> FleetState:
    stops = tuple(Stop(START + after(begin), WHY, START + after(end)) for begin, end in gaps)
    return FleetState("workers", looked_at=None if looked is None else START + after(looked), stops=stops)


@pytest.mark.parametrize(
    ("before", "seconds", "then"),
    [
        (row(None), 5, row(5)),
        (row(0), 14, row(0)),
        (row(0), 15, row(15)),
        (row(0), 60, row(60)),
        (row(0), 60.5, row(60.5, (0, 60.5))),
        (row(100, (0, 90)), 200, row(200, (0, 90), (100, 200))),
        (row(0), -5, row(-5)),  # the clock was put back
    ],
)
def test_a_look_that_comes_late_ends_an_absence(before: FleetState, seconds: float, then: FleetState) -> None:
    assert own_outages.with_look(before, SETTINGS, now=START + after(seconds)) == then


def test_the_latest_absences_are_kept() -> None:
    known = row(0)
    for number in range(1, KEPT + 3):
        known = own_outages.with_look(known, SETTINGS, now=START + after(100 * number))

    assert len(known.stops) == KEPT
    assert known.stops[-1] == Stop(START + after(100 * (KEPT + 1)), WHY, START + after(100 * (KEPT + 2)))


@pytest.mark.parametrize(("period", "seconds"), [(5, 60), (10, 60), (3600, 10_830)])
def test_workers_that_look_seldom_are_not_away_between_two_looks(period: float, seconds: float) -> None:
    settings = Settings(cluster_monitor_period=period)

    assert [own_outages.are_away(row(0), settings, now=START + after(seconds + more)) for more in (0, 1)] == [
        False,
        True,
    ]


@pytest.mark.parametrize("off", [row(None), None])
def test_what_was_never_looked_at_is_not_away(off: FleetState | None) -> None:
    assert not own_outages.are_away(off, SETTINGS, now=START + after(9_000))


def test_without_the_controller_that_looks_no_worker_counts_as_away() -> None:
    settings = Settings(controllers=("*", "-fleet"))

    assert not own_outages.are_away(row(0), settings, now=START + after(9_000))


@pytest.mark.parametrize(
    ("gaps", "seconds"),
    [
        ([(10, 20)], 10),
        ([(-10, 5)], 5),  # only what is after the begin counts
        ([(-10, -5)], 0),
        ([(10, 20), (15, 30)], 20),  # the members process was away as well
        ([(15, 30), (10, 50)], 40),
        ([(10, 20), (40, 50)], 20),
        ([(20, 10)], 0),
    ],
)
def test_times_that_overlap_count_once(gaps: Sequence[tuple[float, float]], seconds: float) -> None:
    moments = [(START + after(begin), START + after(end)) for begin, end in gaps]

    assert own_outages.total(moments, since=START) == after(seconds)


OBSERVED = Observation("member1", "True", since=START, observed_at=START + after(700))


@pytest.mark.parametrize(
    ("workers", "ends"),
    [
        (None, 600),
        (row(700), 600),
        (row(700, (100, 400)), 900),
        (row(700, (-500, -100)), 600),
        (row(700, (590, 695)), 715),  # reports have to arrive: twice the time between two probes
        (row(500), 720),  # away now
    ],
)
@pytest.mark.parametrize("observed", [None, OBSERVED])
def test_a_limit_ends_later_by_the_time_without_workers(
    workers: FleetState | None, ends: float, observed: Observation | None
) -> None:
    now = START + after(700)

    assert health.ends_observed(START, 600, observed, SETTINGS, workers=workers, now=now) == START + after(ends)
