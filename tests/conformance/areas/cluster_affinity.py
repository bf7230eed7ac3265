"""Which clusters an affinity chooses."""

from __future__ import annotations

from typing import Any

from controlplane.clusters.affinity import matches
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import ClusterAffinity
from tests.conformance.documents import typed

Document = dict[str, Any]


def run(given: Document) -> Document:
    cluster = typed(given["cluster"], Cluster)
    affinity = typed(given["clusterAffinity"], ClusterAffinity)
    return {"matches": matches(cluster, affinity)}


def agree(expect: Document, result: Document) -> bool:
    return result == expect
