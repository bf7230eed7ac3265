from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import ClusterAffinity
from controlplane.kinds.policy.affinity import chooses

MEMBER1 = msgspec.convert(
    {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": "member1", "labels": {"env": "prod"}},
        "spec": {"provider": "aws", "zones": ["a", "b"]},
    },
    Cluster,
)


def _field(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"fieldSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}}


@pytest.mark.parametrize(
    ("affinity", "chosen"),
    [
        ({}, True),
        ({"clusterNames": ["member1", "member2"]}, True),
        ({"clusterNames": ["member2"]}, False),
        ({"exclude": ["member1"]}, False),
        ({"clusterNames": ["member1"], "exclude": ["member1"]}, False),
        ({"labelSelector": {"matchLabels": {"env": "prod"}}}, True),
        ({"labelSelector": {"matchLabels": {"env": "dev"}}, "clusterNames": ["member1"]}, False),
        (_field("provider", "In", "aws", "gcp"), True),
        (_field("provider", "NotIn", "aws"), False),
        (_field("region", "In", "us-east"), False),
        (_field("region", "NotIn", "us-east"), True),
        (_field("zone", "In", "b", "c"), True),
        (_field("zone", "NotIn", "b", "c"), False),
        (_field("zone", "NotIn", "c"), True),
        (_field("provider", "Like", "aws"), False),
    ],
)
def test_an_affinity_chooses_a_cluster_when_everything_it_says_holds(affinity: dict[str, Any], chosen: bool) -> None:
    assert chooses(msgspec.convert(affinity, ClusterAffinity), MEMBER1) is chosen


def test_no_affinity_chooses_every_cluster() -> None:
    assert chooses(None, MEMBER1)
