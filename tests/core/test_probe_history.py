"""The last day of a cluster's probes, as spells of equal results."""

from __future__ import annotations

from datetime import timedelta

from controlplane.clusters.health import Seen, observe
from controlplane.clusters.probe_history import ACCESS_LOST, KEPT, MOST, UNOBSERVED, Section, noted, sections
from controlplane.kinds.rows import Observation, ProbeSpell
from controlplane.settings import Settings
from tests.builders.objects import START

EVERY = timedelta(seconds=Settings().cluster_status_update_frequency)
READY, DOWN, REFUSED = Seen("True"), Seen("False", "ClusterNotReachable", "no answer"), Seen("", "X", access_lost="401")


def probed(*results: Seen, every: timedelta = EVERY) -> Observation:
    row = Observation("member1")
    for number, result in enumerate(results):
        row = observe(row, result, Settings(), now=START + number * every)
    return row


def test_a_spell_is_added_when_the_result_changes_and_not_for_each_probe() -> None:
    history = probed(READY, READY, DOWN, DOWN, REFUSED, READY).history

    assert [spell.status for spell in history] == ["True", "False", ACCESS_LOST, "True"]
    assert history[1].since == START + 2 * EVERY


def test_a_time_without_probes_is_a_spell_of_its_own() -> None:
    row = observe(probed(READY), READY, Settings(), now=START + timedelta(hours=1))

    assert [spell.status for spell in row.history] == ["True", UNOBSERVED, "True"]
    assert row.history[1].since == START + 2 * EVERY  # a probe is valid for twice the time between two probes


def test_the_history_keeps_a_day_and_the_spell_before_it_and_no_more_than_its_limit() -> None:
    old = (ProbeSpell("True", START), ProbeSpell("False", START + timedelta(hours=1)))
    late = START + KEPT + timedelta(hours=5)

    assert noted(old, "True", now=late) == (old[1], ProbeSpell("True", late))
    flapping = old
    for number in range(3 * MOST):
        flapping = noted(flapping, f"{number % 2}", now=late + timedelta(seconds=number))
    assert len(flapping) == MOST


def test_sections_cover_the_day_without_gaps_and_end_where_nothing_is_heard_any_more() -> None:
    now = START + timedelta(hours=30)
    history = (ProbeSpell("True", now - timedelta(hours=10)), ProbeSpell("False", now - timedelta(hours=2)))

    found = sections(history, heard_until=now - timedelta(hours=1), now=now)

    assert found == [
        Section(UNOBSERVED, now - KEPT, now - timedelta(hours=10)),
        Section("True", now - timedelta(hours=10), now - timedelta(hours=2)),
        Section("False", now - timedelta(hours=2), now - timedelta(hours=1)),
        Section(UNOBSERVED, now - timedelta(hours=1), now),
    ]
    assert sections((), heard_until=None, now=now) == [Section(UNOBSERVED, now - KEPT, now)]
