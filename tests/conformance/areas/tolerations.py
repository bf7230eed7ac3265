"""When taints drive a placement away, and which clusters the scheduler's taint filter lets through."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from controlplane.clusters.tolerations import spelled, untolerated
from controlplane.eviction.eligibility import earliest_judgement, judge_taints
from controlplane.kinds.binding import ObjectReference, ResourceBindingSpec
from controlplane.kinds.cluster import NO_EXECUTE, Cluster, ClusterSpec, Taint
from controlplane.kinds.policy import Placement, Toleration
from controlplane.scheduling.placement_plan import REFUSING
from tests.conformance.compare import equivalent
from tests.conformance.documents import typed

Document = dict[str, Any]
_EVER = datetime.min.replace(tzinfo=UTC)


def run(given: Document) -> Document:
    taints, tolerations, now = _read(given)
    refusing = () if given["clusterAlreadyInTargets"] else untolerated(taints, tolerations, REFUSING)
    reasons = [f"cluster(s) had untolerated taint {{{spelled(one)}}}" for one in refusing[:1]]
    result: Document = {"schedulerFilter": {"feasible": not reasons, "reasons": reasons}}
    placed = ResourceBindingSpec(ObjectReference("", "", ""), placement=Placement(cluster_tolerations=tolerations))
    tainted = Cluster("", "", spec=ClusterSpec(taints=taints))
    moving = earliest_judgement(judge_taints(placed, tainted, (), clocks_from=_EVER))
    if moving is None or moving.due_at is None:
        return result | {"eviction": "never"}
    if moving.due_at <= now:
        return result | {"eviction": "now"}
    return result | {"eviction": "after", "afterSeconds": (moving.due_at - now).total_seconds()}


def agree(expect: Document, result: Document) -> bool:
    return equivalent(expect, result)


def differs(given: Document, expect: Document, result: Document) -> str | None:
    """What nothing tolerates leaves at once, in the original, whatever the taint's date; here it leaves from that date
    on, and a taint without one is given the present time when it is written."""
    if expect["eviction"] != "now" or not equivalent(expect["schedulerFilter"], result["schedulerFilter"]):
        return None
    taints, tolerations, now = _read(given)
    moving = untolerated(taints, tolerations, (NO_EXECUTE,))
    later = all(one.time_added is None or one.time_added > now for one in moving)
    return "the eviction by a taint counts from the taint's date" if moving and later else None


def _read(given: Document) -> tuple[tuple[Taint, ...], tuple[Toleration, ...], datetime]:
    taints = typed(given["taints"] or [], tuple[Taint, ...])
    tolerations = typed(given["clusterTolerations"] or [], tuple[Toleration, ...])
    return taints, tolerations, typed(given["now"], datetime)
