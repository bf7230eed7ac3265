"""The rows of the eviction queue that a binding has to have: what is kept of the stored rows."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from controlplane.eviction.queue import wanted_rows
from controlplane.kinds.rows import HELD, NO_REFUGE, QUEUED, Eviction
from tests.builders.objects import START, binding, cluster, no_execute
from tests.builders.placements import duplicated

WEB = binding("web", duplicated("member1"), on={"member1": 2})
CLUSTERS = {"member1": cluster("member1", taints=[replace(no_execute(), time_added=START)])}
LATER = START + timedelta(seconds=60)


def rows(*stored: Eviction, now: object = START) -> Eviction:
    (row,) = wanted_rows(WEB, CLUSTERS, stored, clocks_from=START, judge_again=False, now=now)  # type: ignore[arg-type]
    return row


def test_a_row_keeps_the_time_at_which_it_was_queued() -> None:
    first = rows()

    assert first.queued_at == START
    assert rows(first, now=LATER) == first
    assert rows(replace(first, queued_at=None), now=LATER).queued_at == LATER


def test_a_row_without_a_refuge_stays_held_until_its_due_time_or_its_binding_changes() -> None:
    first = rows()
    held = replace(first, state=HELD, reason=NO_REFUGE, message="no other cluster fits")

    assert rows(held, now=LATER) == held
    assert rows(replace(held, generation=held.generation - 1), now=LATER).state == QUEUED
    assert rows(replace(held, due_at=LATER), now=LATER).state == QUEUED
