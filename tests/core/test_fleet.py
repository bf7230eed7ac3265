"""A fleet is read again only where clusters changed."""

from __future__ import annotations

from msgspec.structs import replace

from controlplane.estimate.request import request_from
from controlplane.kinds.cluster import Cluster
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.settings import Settings
from tests.builders.objects import cluster


def versioned(one: Cluster, version: str) -> Cluster:
    return one.with_meta(resource_version=version)


def test_a_fleet_that_reads_the_same_is_the_same_fleet() -> None:
    settings = Settings()
    first = Fleet.of([versioned(cluster("a"), "1"), versioned(cluster("b"), "2")], settings=settings)

    again = Fleet.of([versioned(cluster("b"), "2"), versioned(cluster("a"), "1")], settings=settings, previous=first)

    assert again is first


def test_a_changed_cluster_or_setting_makes_another_fleet() -> None:
    settings = Settings()
    members = [versioned(cluster("a", room=3), "1"), versioned(cluster("b", room=4), "2")]
    first = Fleet.of(members, settings=settings)
    changed = [members[0], versioned(cluster("b", room=9), "3")]

    second = Fleet.of(changed, settings=settings, previous=first)

    assert second.replicas(request_from({})).tolist() == [3, 9]
    assert first.replicas(request_from({})).tolist() == [3, 4]
    assert (
        Fleet.of(members, settings=replace(settings, enable_empty_workload_propagation=True), previous=first)
        is not first
    )
    assert Fleet.of(members[:1], settings=settings, previous=first).names == ("a",)
    assert Fleet.of([cluster("a", room=1), members[1]], settings=settings, previous=first).names == ("a", "b")


def test_a_cluster_of_the_same_uid_and_version_in_another_world_is_another_one() -> None:
    settings = Settings()
    first = Fleet.of([versioned(cluster("a", room=3), "7")], settings=settings)

    restored = Fleet.of([versioned(cluster("a", room=9), "7")], settings=settings, previous=first)

    assert restored.replicas(request_from({})).tolist() == [9]


def test_without_counts_clusters_as_gone_and_leaves_the_fleet_alone() -> None:
    fleet = Fleet.of([cluster("a"), cluster("b")], settings=Settings())

    less = fleet.without(["a", "unknown"])

    assert less.retaining.tolist() == [False, True]
    assert fleet.retaining.tolist() == [True, True]
    assert fleet.without(["unknown"]) is fleet
