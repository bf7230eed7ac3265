"""Which clusters an affinity chooses."""

from __future__ import annotations

from typing import Any

import msgspec

from controlplane.affinity import matches
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import ClusterAffinity
from tests.conformance.compare import without_nulls

Document = dict[str, Any]


def run(given: Document) -> Document:
    cluster = msgspec.convert(without_nulls(given["cluster"]), Cluster)
    affinity = msgspec.convert(without_nulls(given["clusterAffinity"]), ClusterAffinity)
    return {"matches": matches(cluster, affinity)}


def agree(expect: Document, result: Document) -> bool:
    return result == expect
