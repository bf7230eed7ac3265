"""What filters read of a cluster has three readers: the scheduler, evictions held for lack of a cluster, readiness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from controlplane.eviction.capacity_digest import CapacityDigest
from controlplane.insight.readiness_row import relevant_change
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import DUPLICATED, ClusterAffinity, Placement, ReplicaSchedulingStrategy
from tests.builders.objects import START, cluster
from tests.core import desk
from tests.core.desk import Desk

ON_BOTH = Placement(ClusterAffinity(cluster_names=("a", "b")), replica_scheduling=ReplicaSchedulingStrategy(DUPLICATED))
KEPT = cluster("a", room=9, labels={"env": "prod"}).with_meta(finalizers=("cluster.karmada.io/cluster-controller",))
CHANGES: dict[str, tuple[Mapping[str, Any], bool]] = {  # of metadata, and whether answers may change
    "it gets a label": ({"labels": {"env": "prod", "new": "yes"}}, True),
    "it loses a label": ({"labels": {}}, True),
    "it begins to be deleted": ({"deletion_timestamp": START}, True),
    "it gets an annotation": ({"annotations": {"note": "text"}}, False),
}


@pytest.fixture(params=CHANGES)
def changed(request: pytest.FixtureRequest) -> tuple[Cluster, bool]:
    fields, matters = CHANGES[request.param]
    return KEPT.with_meta(**fields), matters


def test_the_scheduler_looks_at_its_bindings_again(changed: tuple[Cluster, bool]) -> None:
    after, matters = changed
    at = Desk(KEPT, cluster("b", room=9), desk.pending("web", ON_BOTH))
    stored = at.cluster("a")

    at.store.put(after.with_meta(resource_version=stored.metadata.resource_version), stored)

    assert at.decided() == (["web"] if matters else [])


def test_held_evictions_are_tried_again(changed: tuple[Cluster, bool]) -> None:
    after, matters = changed

    assert (CapacityDigest().digest([after]) != CapacityDigest().digest([KEPT])) is matters


def test_answers_about_readiness_are_computed_again(changed: tuple[Cluster, bool]) -> None:
    after, matters = changed

    assert relevant_change(KEPT, after) is matters
