"""A what-if question is shown in sentences."""

from __future__ import annotations

from typing import get_args

import pytest

from controlplane.insight import changes
from controlplane.insight.change_sentence import change_sentence
from controlplane.insight.changes import Change
from controlplane.kinds.cluster import Taint
from controlplane.kinds.workload_rebalancer import RebalancedWorkload, WorkloadSelector

SENTENCES = [
    (changes.ClustersLost(("member1",)), "Cluster member1 stops answering"),
    (
        changes.ClustersLost(("member1", "member2"), ("eu", "us"), ("aws",)),
        "Clusters member1, member2 and all clusters of regions eu, us and all clusters of provider aws stop answering",
    ),
    (changes.ClustersLost(regions=("eu",)), "All clusters of region eu stop answering"),
    (
        changes.ClustersDrained(("member1", "member2"), 2.0),
        "Clusters member1, member2: a Drain moves 2 workloads a second from each",
    ),
    (
        changes.TaintAdded("member1", Taint("gone", "NoExecute", "yes")),
        "Cluster member1 gets the taint gone=yes:NoExecute",
    ),
    (changes.TaintRemoved("member1", "gone", "NoExecute"), "The taint gone:NoExecute is removed from cluster member1"),
    (changes.Cordoned(("member1",)), "Cluster member1: no new copies, as after a cordon"),
    (changes.ClusterRemoved("member1"), "Cluster member1 is deleted"),
    (changes.ClusterRemoved("member1", "keep"), "Cluster member1 is deleted; its copies stay"),
    (changes.ClusterRemoved("member1", "delete"), "Cluster member1 is deleted; its copies are deleted"),
    (
        changes.GateOrRateChanged({"resourceEvictionRate": 2, "featureGates": {}}),
        "FailoverConfiguration/default sets featureGates, resourceEvictionRate",
    ),
    (
        changes.PolicyEdited({"kind": "PropagationPolicy", "metadata": {"namespace": "shop", "name": "web"}}),
        "PropagationPolicy shop/web is created or replaced",
    ),
    (
        changes.HoldEdited({"kind": "EvictionHold", "metadata": {"name": "night"}}),
        "EvictionHold night is created or replaced",
    ),
    (changes.Failback("member1"), "A Failback returns 0.5 workloads a second to cluster member1"),
    (
        changes.Rescheduled((RebalancedWorkload("apps/v1", "Deployment", "web", "shop"),)),
        "The scheduler chooses the clusters of Deployment shop/web again",
    ),
    (
        changes.Rescheduled(workload_selector=WorkloadSelector("apps/v1", "Deployment")),
        "The scheduler chooses the clusters of selected workloads of kind Deployment again",
    ),
    (changes.ObjectsDeleted(("v1/Namespace::shop",)), "Deleted: v1/Namespace::shop"),
]


@pytest.mark.parametrize(("change", "sentence"), SENTENCES)
def test_a_change_is_a_sentence(change: Change, sentence: str) -> None:
    assert change_sentence(change) == sentence


def test_every_change_has_a_sentence() -> None:
    assert {type(change) for change, _ in SENTENCES} == set(get_args(Change))
