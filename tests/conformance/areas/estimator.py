"""Estimating how many replicas, or sets of components, a cluster has room for."""

from __future__ import annotations

from typing import Any

from controlplane.estimate.capacity import Capacity, free_capacity
from controlplane.estimate.request import bundle_of, request_of
from controlplane.estimate.resource_model_room import SIMULATE
from controlplane.kinds.binding import Component, ReplicaRequirements
from controlplane.kinds.cluster import Cluster
from tests.conformance.documents import typed
from tests.conformance.mixed_units import MIXED_UNITS, as_the_original_mixes_units

Document = dict[str, Any]


def run(given: Document) -> int:
    return _estimate(given, typed(given["cluster"], Cluster))


def _estimate(given: Document, cluster: Cluster) -> int:
    capacity = Capacity([free_capacity(cluster)], SIMULATE, graded=True)
    if given["op"] == "maxAvailableReplicas":
        asked = typed(given.get("replicaRequirements"), ReplicaRequirements | None)
        return int(capacity.replicas(request_of(asked))[0])
    components = typed(given.get("components") or (), tuple[Component, ...])
    return int(capacity.bundles(bundle_of(components))[0])


def agree(expect: Document, result: int) -> bool:
    return bool(expect["replicas"] == result)


def differs(given: Document, expect: Document, result: int) -> str | None:
    if given["op"] == "maxAvailableReplicas":
        return None
    cluster = typed(given["cluster"], Cluster)
    mixed = as_the_original_mixes_units([cluster], given.get("components"))[0]
    return MIXED_UNITS if _estimate(given, mixed) == expect["replicas"] else None
