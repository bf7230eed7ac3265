"""Whether a binding is scheduled at all, and what is noted on it afterwards."""

from __future__ import annotations

from typing import Any

import msgspec

from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import Placement
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.trigger import applied_text, needs_scheduling
from controlplane.settings import Settings
from tests.conformance.documents import typed

Document = dict[str, Any]


def run(given: Document) -> Document:
    binding = typed(given["binding"], Binding)
    clusters = [
        typed({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", **one}, Cluster)
        for one in given["clusters"]
    ]
    reason = needs_scheduling(binding, Fleet.of(clusters, settings=Settings()))
    placement = binding.spec.placement
    return {
        "scheduled": reason is not None,
        "placement": applied_text(placement) if placement is not None else "",
        "reason": reason,
    }


def agree(expect: Document, result: Document) -> bool:
    if expect["scheduled"] != result["scheduled"]:
        return False
    applied = expect.get("appliedPlacementAnnotation")
    return applied is None or _placement(applied) == _placement(result["placement"])


def _placement(text: str) -> Placement:
    return msgspec.json.decode(text, type=Placement)


def differs(given: Document, expect: Document, result: Document) -> str | None:
    return None
