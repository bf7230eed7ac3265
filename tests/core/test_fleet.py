"""A fleet is read again only where clusters changed."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from controlplane.estimate.request import request_from
from controlplane.kinds.cluster import APIEnablement, APIResource, Cluster
from controlplane.kinds.policy import Placement
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.placement_plan import plan_of
from controlplane.settings import Settings
from tests.builders.objects import START, cluster


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


def test_without_keeps_what_is_not_retained_and_its_answers_are_not_those_of_a_later_reading() -> None:
    settings = Settings()
    members = [cluster("a").with_meta(deletion_timestamp=START), cluster("b"), cluster("c")]
    fleet = Fleet.of(members, settings=settings)

    less = fleet.without(["b"])

    assert less.retaining.tolist() == [False, False, True]
    assert less.retaining.dtype == bool
    assert Fleet.of(members, settings=settings, previous=less).retaining.tolist() == [False, True, True]


def test_without_shares_what_clusters_are_and_makes_its_own_plans() -> None:
    """Readiness leaves out each of 300 clusters in turn, and compared all clusters with each condition each time."""
    fleet = Fleet.of([cluster("a", room=3), cluster("b", room=5)], settings=Settings())
    asked, placement = request_from({}), Placement()

    less = fleet.without(["a"])

    assert less.replicas(asked) is fleet.replicas(asked)
    assert less.with_prefer_no_execute() is fleet.with_prefer_no_execute()
    assert less.regions() is fleet.regions()
    own, whole = (plan_of(seen, placement, 0, workload=True) for seen in (less, fleet))
    assert own.fleet.excluded.tolist() == [True, False]
    assert whole.fleet.excluded.tolist() == [False, False]
    assert plan_of(less, placement, 0, workload=True) is own


def test_a_fleet_read_again_from_the_database_is_the_same_fleet() -> None:
    members = [cluster("a"), cluster("b")]
    first = Fleet.of(members, settings=Settings())
    again = [msgspec.convert(msgspec.to_builtins(one), Cluster) for one in members]

    assert Fleet.of(again, settings=Settings(), previous=first) is first


def test_clusters_without_a_region_are_in_none() -> None:
    members = [cluster(name).with_spec(region=region) for name, region in (("a", ""), ("b", "west"), ("c", "east"))]

    numbers, names = Fleet.of(members, settings=Settings()).regions()

    assert (numbers.tolist(), names) == ([-1, 1, 0], ("east", "west"))


@pytest.mark.parametrize(
    ("enablements", "serves"),
    [
        ((APIEnablement("apps/v1", (APIResource("deployments", "Deployment"),)),), True),
        ((APIEnablement("apps/v1", (APIResource("daemonsets", "DaemonSet"),)),), False),
        ((APIEnablement("apps/v1", (APIResource("statefulsets", "StatefulSet"),)),), False),
        ((APIEnablement("apps/v1beta1", (APIResource("deployments", "Deployment"),)),), False),
        ((APIEnablement("apps/v0", (APIResource("deployments", "Deployment"),)),), False),
        (
            (
                APIEnablement("apps/v1", (APIResource("statefulsets", "StatefulSet"),)),
                APIEnablement("apps/v1beta1", (APIResource("deployments", "Deployment"),)),
            ),
            False,
        ),
    ],
)
def test_a_kind_is_served_in_exactly_its_version(enablements: tuple[APIEnablement, ...], serves: bool) -> None:
    fleet = Fleet.of([cluster("a").with_status(api_enablements=enablements)], settings=Settings())

    assert fleet.enables("apps/v1", b"Deployment".decode()).tolist() == [serves]
