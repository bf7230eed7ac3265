"""What a revert makes of a binding, and what keeps it from one: each rule alone [edits-by-hand]."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.apimachinery.meta import Condition, condition
from controlplane.eviction.revert import revert_obstacles, reverted_binding
from controlplane.kinds.binding import PARTLY_REVERTED, Binding, GracefulEvictionTask, PendingEviction, TargetCluster
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.policy import (
    DIRECTLY,
    GRACEFULLY,
    ClusterFailoverBehavior,
    FailoverBehavior,
    Placement,
    Toleration,
)
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster
from tests.builders.placements import by_weight, duplicated, placement

SETTINGS = Settings()
NOW = START + timedelta(hours=1)
GONE = Taint("gone", "NoExecute", time_added=START)
PREFERRED = Taint("slow", "PreferNoExecute", time_added=START)


def placed(mode: str = GRACEFULLY, *, spread: Placement | None = None, **on: int) -> Binding:
    one = binding("web", spread or by_weight(member1=1, member2=1), on=on, replicas=sum(on.values()))
    return one.with_spec(failover=FailoverBehavior(cluster=ClusterFailoverBehavior(purge_mode=mode)))


@pytest.mark.parametrize(
    ("now", "before", "mode", "parts"),
    [
        ({"member2": 4}, {"member1": 2, "member2": 2}, GRACEFULLY, {"member2": 2}),
        ({"member2": 4}, {"member1": 3, "member2": 1}, GRACEFULLY, {"member2": 3}),
        ({"member2": 4}, {"member1": 2, "member2": 2}, DIRECTLY, {"member2": 2}),
        ({"member2": 4}, {"member2": 4}, GRACEFULLY, {}),  # it keeps what it has
        ({"member1": 2, "member2": 2}, {"member1": 1, "member2": 3}, GRACEFULLY, {"member1": 1}),
        ({"member2": 4}, {"member1": 4, "member2": 0}, GRACEFULLY, {}),  # it kept no replicas: no part of them
    ],
)
def test_a_target_runs_the_replicas_it_took_over_until_the_others_are_healthy(
    now: dict[str, int], before: dict[str, int], mode: str, parts: dict[str, int]
) -> None:
    old = placed(mode, **now)
    earlier = old.with_spec(clusters=tuple(TargetCluster(name, count) for name, count in before.items()))

    new = reverted_binding(old, earlier, SETTINGS, by="ana", now=NOW)

    assert new.spec.clusters == earlier.spec.clusters
    tasks = new.spec.graceful_eviction_tasks
    assert {task.from_cluster: task.replicas for task in tasks} == parts
    assert {task.reason for task in tasks} <= {PARTLY_REVERTED}


def test_a_duplicated_target_has_no_part_to_give_back() -> None:
    old = placed(spread=duplicated("member1", "member2"), member1=4, member2=4)
    before = old.with_spec(clusters=(TargetCluster("member1", 2), TargetCluster("member2", 2)))

    assert reverted_binding(old, before, SETTINGS, by="ana", now=NOW).spec.graceful_eviction_tasks == ()


def test_a_target_that_is_being_left_gets_no_second_task() -> None:
    leaving = GracefulEvictionTask("member2", reason="Maintenance")
    old = placed(member2=4).with_spec(graceful_eviction_tasks=(leaving,))
    before = old.with_spec(clusters=(TargetCluster("member1", 2), TargetCluster("member2", 2)))

    assert reverted_binding(old, before, SETTINGS, by="ana", now=NOW).spec.graceful_eviction_tasks == ()


def obstacles(one: Binding, *clusters: Cluster) -> list[str]:
    known = {member.metadata.name: member for member in clusters}
    return list(revert_obstacles(one, one, known, SETTINGS))


@pytest.mark.parametrize(
    ("spread", "refused"),
    [
        (None, True),
        (placement("member1"), True),
        (placement("member1", tolerations=[Toleration("gone", "Exists")]), False),
        (placement("member1", tolerations=[Toleration("other", "Exists")]), True),
    ],
)
def test_a_taint_that_the_earlier_placement_tolerates_is_no_obstacle(spread: Placement | None, refused: bool) -> None:
    one = binding("web", duplicated("member1"), on={"member1": 2}).with_spec(placement=spread)

    found = obstacles(one, cluster("member1", taints=[GONE]))

    assert found == (["cluster member1 has the taint gone:NoExecute, which would evict it again"] if refused else [])


@pytest.mark.parametrize(
    ("failover", "refused"),
    [
        (None, False),
        (FailoverBehavior(), False),
        (FailoverBehavior(cluster=ClusterFailoverBehavior()), True),
    ],
)
def test_prefer_no_execute_is_an_obstacle_for_bindings_that_it_evicts(
    failover: FailoverBehavior | None, refused: bool
) -> None:
    one = binding("web", duplicated("member1"), on={"member1": 2}).with_spec(failover=failover)

    found = obstacles(one, cluster("member1", taints=[PREFERRED, Taint("x", "NoSchedule", time_added=START)]))

    assert found == (
        ["cluster member1 has the taint slow:PreferNoExecute, which would evict it again"] if refused else []
    )


def test_every_cluster_that_is_gone_is_named_and_those_after_it_are_checked() -> None:
    one = binding("web", duplicated(), on={"member1": 2, "member2": 2, "member3": 2})

    assert obstacles(one, cluster("member3", ready="False")) == [
        "cluster member1 is gone",
        "cluster member2 is gone",
        "cluster member3 is not Ready",
    ]


@pytest.mark.parametrize("waited", [True, False])
def test_the_condition_reports_the_revert_if_an_eviction_was_reported_before(waited: bool) -> None:
    old = placed(member2=4)
    if waited:
        pending = Condition("EvictionPending", "False", "Evicted", "cluster member1: …")
        old = old.with_status(conditions=(pending,), pending_evictions=(PendingEviction("member2", "Queued", "due"),))
    before = old.with_spec(clusters=(TargetCluster("member1", 4),))

    new = reverted_binding(old, before, SETTINGS, by="ana", now=NOW)

    found = condition(new.status.conditions, "EvictionPending")
    assert (found is not None) is waited
    assert new.status.pending_evictions == ()
    if found is not None:
        message = "ana reverted the failover: the binding is placed on member1 again"
        assert (found.status, found.reason, found.message) == ("False", "Reverted", message)
