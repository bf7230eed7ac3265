"""Which answers of a dry run are a refuge [refuge-first]."""

from __future__ import annotations

import pytest

from controlplane.eviction.refuge import DryRunResult, Refuge, refuge_from, reserve_refuge
from controlplane.kinds.binding import TargetCluster
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.question import question_of
from controlplane.settings import EvictionSettings, Settings
from tests.builders.objects import START, binding, cluster
from tests.builders.placements import by_room, duplicated


def on(**replicas: int) -> tuple[TargetCluster, ...]:
    return tuple(TargetCluster(name, count) for name, count in replicas.items())


@pytest.mark.parametrize(
    ("part", "is_allowed", "source_ready", "found"),
    [
        (on(b=2, c=1), True, False, True),  # 1 replica more than b holds
        (on(b=2), True, False, False),  # none more
        (on(b=1), True, False, False),  # fewer than now
        (on(b=2, c=1), False, False, False),
        (on(b=2, c=1), True, True, False),  # all of them still run
        ((), True, False, False),
    ],
)
def test_a_part_is_a_refuge_if_more_replicas_run_and_the_source_is_not_ready(
    part: tuple[TargetCluster, ...], is_allowed: bool, source_ready: bool, found: bool
) -> None:
    one = binding("web", by_room(), on={"a": 4, "b": 2}, replicas=6)
    settings = Settings(eviction=EvictionSettings(partial_refuge=is_allowed))
    answer = DryRunResult(refused="no room for all", part=part)

    refuge = refuge_from(one, {"a"}, answer, settings, source_ready=source_ready)

    assert (refuge.found, refuge.clusters) == (found, part if found else ())
    assert "no room for all" in refuge.why


REPLACED, MINIMUM, ONLY = "a replacement for each lost copy", "the spread constraint still has its minimum", "no other"


@pytest.mark.parametrize(
    ("least", "answer", "is_full", "found", "why"),
    [
        (2, on(b=2, c=2), False, True, REPLACED),
        (2, on(b=2, c=2, d=2), False, True, REPLACED),  # more than are lost
        (1, on(b=2), False, True, MINIMUM),
        (2, on(b=2), False, False, ONLY),
        (1, on(b=2), True, False, ONLY),  # the setting wants a replacement for each
        (1, on(b=2, c=2), True, True, REPLACED),
        (0, on(b=2), False, False, ONLY),  # without a constraint nothing says that fewer are enough
    ],
)
def test_a_copy_leaves_for_another_one_or_while_the_minimum_is_met(
    least: int, answer: tuple[TargetCluster, ...], is_full: bool, found: bool, why: str
) -> None:
    one = binding("web", duplicated(least=least, most=3 if least else 0), on={"a": 2, "b": 2})
    settings = Settings(eviction=EvictionSettings(require_full_replacement=is_full))

    refuge = refuge_from(one, {"a"}, DryRunResult(answer), settings, source_ready=False)

    assert (refuge.found, refuge.clusters) == (found, answer if found else ())
    assert refuge.why.startswith(why)


def test_more_clusters_than_the_minimum_are_enough() -> None:
    one = binding("web", duplicated(least=1, most=3), on={"a": 2, "b": 2, "c": 2})

    assert refuge_from(one, {"a"}, DryRunResult(on(b=2, c=2)), Settings(), source_ready=False).found


def test_only_more_replicas_than_before_are_reserved() -> None:
    fleet = Fleet.of([cluster(name) for name in "abcd"], settings=Settings())
    one = binding("web", by_room(), on={"a": 2, "b": 3, "c": 1}, replicas=6, cpu="1")
    asked = question_of(one.spec, one.status, settings=Settings()).asked
    refuge = Refuge(True, "", on(b=2, c=1, d=3, elsewhere=1), asked)

    found = reserve_refuge(Ledger(fleet), fleet, one, refuge, seen=0, now=START)

    assert [(each.cluster, each.replicas) for each in found.reservations] == [("d", 3)]
