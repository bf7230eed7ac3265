"""Dry runs of the scheduler count what they have reserved, and no answer of one binding is given to another
[refuge-first]."""

from __future__ import annotations

from controlplane.eviction.refuge import Refuge
from controlplane.eviction.scheduler_dry_run import SchedulerDryRun, targets_with_reservations
from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster
from tests.builders.placements import by_room

ON = Settings()
LEAVING = ["a"]


def dry_runs(**room: int) -> SchedulerDryRun:
    """Dry runs on a fleet with this room on each cluster."""
    fleet = Fleet.of([cluster(name, room=free) for name, free in room.items()], settings=ON)
    return SchedulerDryRun(lambda: fleet, ON, applications={}, groups={})


def one(name: str, *, replicas: int = 1) -> Binding:
    return binding(name, by_room(), on={"a": replicas}, replicas=replicas, cpu="1")


def placed(runs: SchedulerDryRun, of: Binding) -> list[str]:
    return [target.name for target in runs.place_without(of, LEAVING).clusters]


def reserve(runs: SchedulerDryRun, of: Binding) -> None:
    answer = runs.place_without(of, LEAVING)
    runs.reserve(of, Refuge(True, "", answer.clusters, answer.asked), now=START)


def test_what_one_binding_reserved_is_free_for_itself_and_for_no_other() -> None:
    runs = dry_runs(a=9, b=1)
    reserve(runs, one("web"))

    assert placed(runs, one("other")) == []
    assert placed(runs, one("web")) == ["b"]
    assert placed(runs, one("other")) == []


def test_a_second_reservation_of_a_binding_takes_the_place_of_the_first() -> None:
    runs = dry_runs(a=9, b=2)
    for _ in range(3):
        reserve(runs, one("web"))

    assert placed(runs, one("other")) == ["b"]
    assert placed(runs, one("large", replicas=2)) == []


def test_targets_have_what_they_run_and_what_is_reserved_there() -> None:
    runs = dry_runs(a=9, b=1, c=1)
    web = binding("web", by_room(), on={"a": 2, "b": 3}, replicas=5, cpu="1")
    reserve(runs, web)
    reserved = runs._reserved(web)

    assert targets_with_reservations(web, reserved) == (TargetCluster("b", 4), TargetCluster("c", 1))
