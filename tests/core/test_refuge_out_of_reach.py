"""Divided replicas leave for clusters that answer, although the workload has more copies that cannot grow now
[refuge-first]."""

from __future__ import annotations

import msgspec
import pytest

from controlplane.apimachinery.meta import Condition, Ref
from controlplane.kinds import CLUSTER, RESOURCE_BINDING
from controlplane.kinds.binding import BindingSuspension, TargetCluster
from controlplane.kinds.cluster import ACCESS_LOST, Cluster, Taint
from controlplane.kinds.policy import ClusterAffinityTerm, Placement, SpreadConstraint, SuspendClusters, Toleration
from controlplane.kinds.policy import ReplicaSchedulingStrategy as Strategy
from controlplane.kinds.rows import HELD, Eviction
from tests.builders.objects import START, binding, cluster
from tests.builders.placements import AGGREGATED, DYNAMIC, duplicated, placement
from tests.core.evicting import evict, queued

LOST = Taint("failover.lifeboat.io/access-lost", "NoSchedule", time_added=START)


def refusing(name: str) -> Cluster:
    """Return a cluster that refuses access. Nothing evicts from it [lost-access]."""
    one = cluster(name)
    lost = Condition(ACCESS_LOST, "True", "AccessRefused", last_transition_time=START)
    return one.with_spec(taints=(LOST,)).with_status(conditions=(*one.status.conditions, lost))


def evicted_to(second: Cluster, how: Strategy, suspension: BindingSuspension | None = None) -> dict[str, int]:
    """Return where the replicas are after an eviction from member1. There are two on member1 and two on member2."""
    one = binding("web", placement(how=how), on={"member1": 2, "member2": 2}, replicas=4)
    store = queued(one.with_spec(suspension=suspension))
    old = store.objects[second.ref]
    new = old.with_spec(taints=second.spec.taints).with_status(conditions=second.status.conditions)
    assert not store.put(new, old).lost
    evict(store)
    (found,) = store.list(RESOURCE_BINDING)
    return {target.name: target.replicas for target in found.spec.clusters}


TO_MEMBER2 = BindingSuspension(None, SuspendClusters(("member2",)))
SPLIT = {"member2": 2, "member3": 2}


@pytest.mark.parametrize("how", [AGGREGATED, DYNAMIC])
def test_replicas_go_where_they_start_and_not_to_a_copy_that_cannot_be_reached(how: Strategy) -> None:
    """No part of them is enough, because member1 is Ready."""
    assert evicted_to(refusing("member2"), how) == SPLIT


@pytest.mark.parametrize("how", [AGGREGATED, DYNAMIC])
def test_replicas_go_where_they_start_and_not_to_a_copy_that_is_not_sent(how: Strategy) -> None:
    assert evicted_to(cluster("member2"), how, TO_MEMBER2) == SPLIT


@pytest.mark.parametrize("placement", [duplicated(least=1, most=1), placement(how=DYNAMIC)])
def test_a_copy_goes_to_a_cluster_that_it_is_sent_to_although_the_scheduler_prefers_another(
    placement: Placement,
) -> None:
    store = queued(binding("web", placement, on={"member1": 2}).with_spec(suspension=TO_MEMBER2))

    evict(store)

    (found,) = store.list(RESOURCE_BINDING)
    assert found.spec.clusters == (TargetCluster("member3", 2),)


TOLERANT = Toleration(key=LOST.key, operator="Exists")


@pytest.mark.parametrize(
    "placement",
    [duplicated(least=1, most=1, tolerations=(TOLERANT,)), placement(how=DYNAMIC, tolerations=(TOLERANT,))],
    ids=["copy", "replicas"],
)
def test_a_copy_goes_to_a_cluster_that_answers_although_the_scheduler_prefers_another(placement: Placement) -> None:
    """The placement tolerates lost access, so that the scheduler places copies there as well."""
    store = queued(binding("web", placement, on={"member1": 2}))
    old, lost = store.objects[Ref(CLUSTER, "", "member2")], refusing("member2")
    new = old.with_spec(taints=lost.spec.taints).with_status(conditions=lost.status.conditions)
    assert not store.put(new, old).lost

    evict(store)

    (found,) = store.list(RESOURCE_BINDING)
    assert found.spec.clusters == (TargetCluster("member3", 2),)


@pytest.mark.parametrize("how", [AGGREGATED, DYNAMIC])
def test_replicas_of_a_lost_cluster_for_which_there_is_room_start_although_the_others_are_not_sent(
    how: Strategy,
) -> None:
    """All of them would fit on member2, to which dispatching is suspended. One fits on member3."""
    one = binding("web", placement(how=how), on={"member1": 4}, replicas=4).with_spec(suspension=TO_MEMBER2)
    store = queued(one)
    for new in (cluster("member1", ready="False"), cluster("member3", room=1)):
        old = store.objects[new.ref]
        assert not store.put(old.with_status(**msgspec.structs.asdict(new.status)), old).lost  # type: ignore[attr-defined]

    evict(store)

    (found,) = store.list(RESOURCE_BINDING)
    assert {target.name: target.replicas for target in found.spec.clusters} == {"member2": 3, "member3": 1}


def test_what_waits_only_because_a_copy_would_not_be_sent_says_so() -> None:
    """A copy on each cluster is wanted, and all others have one."""
    one = binding("web", duplicated(), on={"member1": 2, "member3": 2}).with_spec(suspension=TO_MEMBER2)
    store = queued(one)

    evict(store)

    (row,) = store.rows(Eviction, "state", [HELD])[HELD]
    assert "dispatching to member2 is suspended" in row.message


FIRST_MEMBER2 = (
    ClusterAffinityTerm(cluster_names=("member1", "member2"), affinity_name="first"),
    ClusterAffinityTerm(cluster_names=("member3",), affinity_name="second"),
)
IN_ONE_REGION = (SpreadConstraint("region", min_groups=1, max_groups=1), SpreadConstraint("cluster", min_groups=1))


@pytest.mark.parametrize(
    "where",
    [
        placement(how=AGGREGATED, groups=FIRST_MEMBER2),
        placement(how=AGGREGATED, spread=IN_ONE_REGION),
    ],
)
def test_replicas_stay_where_the_policy_lets_the_scheduler_add_them_only_to_a_copy_that_cannot_be_reached(
    where: Placement,
) -> None:
    one = binding("web", where, on={"member1": 2, "member2": 2}, replicas=4)
    store = queued(one)
    for name in ("member1", "member2", "member3"):
        old = store.objects[Ref(CLUSTER, "", name)]
        new = refusing(name) if name == "member2" else old
        region = "south" if name == "member3" else "north"
        after = old.with_spec(taints=new.spec.taints, region=region).with_status(conditions=new.status.conditions)
        assert not store.put(after, old).lost

    evict(store)

    (found,) = store.list(RESOURCE_BINDING)
    assert {target.name: target.replicas for target in found.spec.clusters} == {"member1": 2, "member2": 2}


def test_a_copy_stays_where_the_policy_prefers_the_group_of_a_cluster_that_it_is_not_sent_to() -> None:
    where = placement(groups=FIRST_MEMBER2, spread=duplicated(least=1, most=1).spread_constraints)
    store = queued(binding("web", where, on={"member1": 2}).with_spec(suspension=TO_MEMBER2))

    evict(store)

    (found,) = store.list(RESOURCE_BINDING)
    assert found.spec.clusters == (TargetCluster("member1", 2),)
