"""When taints drive a placement away, and which clusters the scheduler's taint filter lets through."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import Toleration
from controlplane.tolerations import EvictAt, eviction_due, filter_reason
from tests.conformance.compare import equivalent, without_nulls

Document = dict[str, Any]


def run(given: Document) -> Document:
    taints = msgspec.convert(without_nulls(given["taints"] or []), list[Taint])
    tolerations = msgspec.convert(without_nulls(given["clusterTolerations"] or []), list[Toleration])
    now = msgspec.convert(given["now"], datetime)
    reason = filter_reason(taints, tolerations, already_target=given["clusterAlreadyInTargets"])
    result: Document = {"schedulerFilter": {"feasible": reason is None, "reasons": [reason] if reason else []}}
    match eviction_due(taints, tolerations, now=now):
        case EvictAt(at) if at <= now:
            return result | {"eviction": "now"}
        case EvictAt(at):
            return result | {"eviction": "after", "afterSeconds": (at - now).total_seconds()}
    return result | {"eviction": "never"}


def agree(expect: Document, result: Document) -> bool:
    return equivalent(expect, result)
