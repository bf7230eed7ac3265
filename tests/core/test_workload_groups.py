"""Workload affinity groups [scheduling-filters] are asked about alike by the scheduler, evictions, readiness and
Drain."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controlplane.eviction.refuge import refuge_from
from controlplane.insight.failure_outlook import Situation, dry_run_of
from controlplane.kinds.binding import Binding, TargetCluster, WorkloadAffinityGroups
from controlplane.scheduling.workload_affinity import WorkloadGroups
from controlplane.settings import GATES, Settings
from tests.builders.objects import START, binding, cluster, no_execute
from tests.builders.placements import duplicated
from tests.core.fleet_story import Story

GROUPED = Settings(feature_gates={**GATES, "Failover": True, "WorkloadAffinity": True}, resource_eviction_rate=1e6)
APART = WorkloadAffinityGroups(anti_affinity_group="app=db")
TOGETHER = WorkloadAffinityGroups(affinity_group="app=db")


def of_group(name: str, groups: WorkloadAffinityGroups, *on: str) -> Binding:
    """Return one copy somewhere, of a workload that is in groups."""
    one = binding(name, duplicated(least=1, most=1), on=dict.fromkeys(on, 2))
    return replace(one, spec=replace(one.spec, workload_affinity_groups=groups))


def placed_after(groups: WorkloadAffinityGroups, neighbour: str) -> list[str]:
    """Return where a copy is after its cluster failed; another of its groups is on the neighbour."""
    tried = Story(
        cluster("member1"),
        cluster("member2"),
        of_group("web", groups, "member1"),
        of_group("other", groups, neighbour),
        settings=GROUPED,
    )
    tried.taint("member1", no_execute())
    tried.pass_seconds(5)
    return sorted(tried.placed("web"))


@pytest.mark.parametrize(
    ("groups", "neighbour", "placed"),
    [
        (APART, "member2", ["member1"]),  # the only other cluster has one of its group
        (APART, "member1", ["member1"]),  # which leaves as well, and takes the only other cluster
        (TOGETHER, "member2", ["member2"]),
    ],
)
def test_no_copy_leaves_for_a_cluster_its_groups_keep_it_from(
    groups: WorkloadAffinityGroups, neighbour: str, placed: list[str]
) -> None:
    assert placed_after(groups, neighbour) == placed


@pytest.mark.parametrize("rate", [1e6, 0.5])
def test_a_group_leaves_a_lost_cluster_together(rate: float) -> None:
    """The first binding that is evicted chooses the cluster, the others follow."""
    clusters, group = [cluster(f"member{n}") for n in range(1, 6)], ("web", "api", "jobs")
    bindings = [of_group(name, TOGETHER, "member1") for name in group]
    tried = Story(*clusters, *bindings, settings=replace(GROUPED, resource_eviction_rate=rate))
    tried.taint("member1", no_execute())
    tried.pass_seconds(10)

    places = [sorted(tried.placed(name)) for name in group]
    assert places[0] != ["member1"]
    assert places == [places[0]] * 3


def test_the_dry_run_of_a_failure_moves_a_group_and_that_of_a_drain_does_not() -> None:
    clusters, one = [cluster(name) for name in ("member1", "member2")], of_group("web", TOGETHER, "member1")
    groups = {("default", "affinity", "app=db"): {"api-deployment": ["member1"]}}
    dry_run = dry_run_of(Situation(clusters, groups=groups), GROUPED)

    assert [place.name for place in dry_run.place_without(one, {"member1"}).clusters] == ["member2"]
    assert "affinity group is on member1" in dry_run.place_without(one, {"member1"}, lost=False).refused


def test_a_group_on_several_clusters_stays_on_those_that_are_left() -> None:
    clusters = [cluster(f"member{n}") for n in range(1, 4)]
    groups = {("default", "affinity", "app=db"): {"api-deployment": ["member1", "member2"]}}
    dry_run = dry_run_of(Situation(clusters, groups=groups), GROUPED)

    result = dry_run.place_without(of_group("web", TOGETHER, "member1"), {"member1"})

    assert [place.name for place in result.clusters] == ["member2"]


def test_dry_runs_see_groups_and_one_that_goes_is_seen_by_the_next() -> None:
    clusters = [cluster(name) for name in ("member1", "member2", "member3")]
    pair = [of_group(name, APART, "member1") for name in ("web", "api")]
    rehearsal = dry_run_of(Situation(clusters), GROUPED)
    busy = {("default", "antiAffinity", "app=db"): {"other-deployment": ["member2", "member3"]}}

    for one, expected in zip(pair, ["member2", "member3"], strict=True):
        answer = rehearsal.place_without(one, {"member1"})
        assert [place.name for place in answer.clusters] == [expected]
        rehearsal.reserve(one, refuge_from(one, {"member1"}, answer, GROUPED, source_ready=True), now=START)

    assert (
        "anti-affinity"
        in dry_run_of(Situation(clusters, groups=busy), GROUPED).place_without(pair[0], {"member1"}).refused
    )


@pytest.mark.parametrize("group", ["app=db", "example.io/app=db"])
def test_a_group_is_known_by_the_names_of_its_clusters(group: str) -> None:
    together, groups = WorkloadAffinityGroups(affinity_group=group), WorkloadGroups({})
    groups.placed(of_group("web", together, "member1"), (TargetCluster("member1", 2), TargetCluster("member2", 2)))

    assert groups.seen_by(of_group("api", together)).together == {frozenset({"member1", "member2"})}
    assert groups.seen_by(of_group("web", together)).together is None
