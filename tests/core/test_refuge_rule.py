"""Which answers of a dry run are a refuge [refuge-first]."""

from __future__ import annotations

import pytest

from controlplane.eviction.refuge import DryRunResult, Refuge, refuge_from, reserve_refuge
from controlplane.kinds.binding import BindingSuspension, TargetCluster
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import SuspendClusters
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


DOWN = {"b": cluster("b", ready="False"), "c": cluster("c"), "d": cluster("d", ready="False")}
TO_ALL, TO_C = BindingSuspension(dispatching=True), BindingSuspension(None, SuspendClusters(("c",)))


@pytest.mark.parametrize(
    ("answer", "clusters", "suspension", "found", "why"),
    [
        (on(b=2), {}, None, True, MINIMUM),
        (on(b=2), DOWN, None, False, "cluster b cannot be reached"),  # its copy may be dead
        (on(b=2, c=2), DOWN, None, True, REPLACED),
        (on(b=2, d=2), DOWN, None, False, "cluster d cannot be reached"),
        (on(c=2), {}, TO_ALL, False, "dispatching to c is suspended"),
        (on(c=2), {}, TO_C, False, "dispatching to c is suspended"),
        (on(d=2), {}, TO_C, True, REPLACED),
        (on(b=2), {}, TO_ALL, True, MINIMUM),  # the copy on b works, and does not change
    ],
)
def test_a_copy_that_would_not_start_replaces_none(
    answer: tuple[TargetCluster, ...],
    clusters: dict[str, Cluster],
    suspension: BindingSuspension | None,
    found: bool,
    why: str,
) -> None:
    one = binding("web", duplicated(least=1, most=3), on={"a": 2, "b": 2}).with_spec(suspension=suspension)

    refuge = refuge_from(one, {"a"}, DryRunResult(answer), Settings(), source_ready=True, clusters=clusters)

    assert refuge.found is found
    assert why in refuge.why


@pytest.mark.parametrize(
    ("answer", "is_allowed", "source_ready", "found", "why"),
    [
        (on(b=2, c=4), True, True, True, "all replicas fit"),  # b keeps what it has
        (on(b=4, c=2), True, True, False, "replicas would be added on b: cluster b cannot be reached"),
        (on(b=4, c=2), True, False, True, "2 replicas can start, the others wait"),
        (on(b=4, c=2), False, False, False, "replicas would be added on b"),
        (on(b=6), True, False, False, "replicas would be added on b"),
    ],
)
def test_replicas_that_would_not_start_have_no_place(
    answer: tuple[TargetCluster, ...], is_allowed: bool, source_ready: bool, found: bool, why: str
) -> None:
    one = binding("web", by_room(), on={"a": 4, "b": 2}, replicas=6)
    settings = Settings(eviction=EvictionSettings(partial_refuge=is_allowed))

    refuge = refuge_from(one, {"a"}, DryRunResult(answer), settings, source_ready=source_ready, clusters=DOWN)

    assert refuge.found is found
    assert why in refuge.why


@pytest.mark.parametrize(("part", "found"), [(on(b=5), False), (on(b=4, c=1), True)])
def test_of_a_part_only_replicas_that_would_start_count(part: tuple[TargetCluster, ...], found: bool) -> None:
    one = binding("web", by_room(), on={"a": 4, "b": 2}, replicas=6)
    answer = DryRunResult(refused="no room for all", part=part)

    assert refuge_from(one, {"a"}, answer, Settings(), source_ready=False, clusters=DOWN).found is found


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
