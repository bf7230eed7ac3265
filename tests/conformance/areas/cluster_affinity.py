"""Which clusters an affinity chooses."""

from __future__ import annotations

from typing import Any

from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import ClusterAffinity
from controlplane.kinds.policy.affinity import chooses
from tests.conformance.documents import typed

Document = dict[str, Any]


def run(given: Document) -> Document:
    cluster = typed(given["cluster"], Cluster)
    affinity = typed(given["clusterAffinity"], ClusterAffinity)
    return {"matches": chooses(affinity, cluster)}


def agree(expect: Document, result: Document) -> bool:
    return result == expect
