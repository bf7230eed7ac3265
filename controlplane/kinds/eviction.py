"""Eviction and ClusterEviction (failover.lifeboat.io/v1alpha1): the rows of the eviction queue as objects.

They are not stored. Each is made from its row for every request. An Eviction is in the namespace of its binding, and a
ClusterEviction is that of a ClusterResourceBinding. Their name is "<binding>.<cluster>"; names of clusters have no
dots.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta

from controlplane.apimachinery.meta import Object, ObjectMeta, Ref, Struct, to_seconds
from controlplane.kind import Kind
from controlplane.kinds import cells
from controlplane.kinds.cluster import PREFER_NO_EXECUTE
from controlplane.kinds.field_texts import BOTH, explain
from controlplane.kinds.rows import ENDED, QUEUED, Eviction
from controlplane.wire.resource import Column, Resource
from controlplane.wire.structs import schema_of

GROUP, VERSION = "failover.lifeboat.io", "v1alpha1"
EVICTION = f"{GROUP}/Eviction"
CLUSTER_EVICTION = f"{GROUP}/ClusterEviction"
EVICTIONS = (EVICTION, CLUSTER_EVICTION)


class EvictionSpec(Struct, frozen=True):
    """The copy that is evicted, and the reason."""

    binding: Annotated[str, Meta(description="Name of the ResourceBinding or ClusterResourceBinding.")]
    cluster: Annotated[str, Meta(description="The cluster from which the copy is evicted.")]
    resource_kind: Annotated[str, Meta(description="apiVersion and kind of the workload: apps/v1/Deployment.")] = ""
    priority: Annotated[int, Meta(description="schedulePriority of the binding. An expedited eviction has 2^40.")] = 0
    taints: Annotated[tuple[str, ...], Meta(description="key:effect of the taints that evict the copy.")] = ()


class EvictionStatus(Struct, frozen=True):
    """The present state of the eviction in the queue."""

    state: Annotated[str, Meta(description="Queued, Held, Recovering, Evicted or Abandoned.")] = ""
    reason: Annotated[
        str,
        Meta(
            description="Queued: Stopped, Blind or the tier whose rate is 0, while nothing is evicted. Held: NoRefuge, "
            "StateMissing, OnHold, Maintenance, Flapping, HeldByHand or Unreadable. Evicted: the key of the taint. "
            "Abandoned: Skipped or TargetGone."
        ),
    ] = ""
    message: Annotated[str, Meta(description="Explanation of the reason.")] = ""
    queued_at: Annotated[datetime | None, Meta(description="When the eviction was queued.")] = None
    due_at: Annotated[
        datetime | None, Meta(description="Earliest time of the eviction: the taint is tolerated until then.")
    ] = None
    ended_at: Annotated[datetime | None, Meta(description="When the copy was evicted, or the eviction abandoned.")] = (
        None
    )
    position: Annotated[
        int | None, Meta(description="Position in the queue of the fleet, from 1. Held evictions have none.")
    ] = None
    estimated_at: Annotated[
        datetime | None,
        Meta(description="Estimated time of the eviction, at the current rate or at ?rate=<evictions per second>."),
    ] = None
    estimate: Annotated[
        str, Meta(description="Why there is no estimated time: evictions are stopped, or this eviction is held.")
    ] = ""
    queue_ends_at: Annotated[
        datetime | None,
        Meta(description="Estimated time of the last eviction in the queue. Unset: evictions are stopped."),
    ] = None


class EvictionItem(Object, frozen=True):
    """An eviction of a copy because of taints: an item of the eviction queue.

    To control it: lifeboat hold, release, skip or expedite, which POST {"reason": "…"} to its subresources.
    """

    spec: EvictionSpec = EvictionSpec("", "")
    status: EvictionStatus = EvictionStatus()


class Stopped(Struct, frozen=True):
    """Why nothing is evicted now: the name of the tier, and an explanation."""

    tier: str
    why: str


def taint_cause(row: Eviction) -> str:
    """Return the taint that queued an eviction, and how long it is tolerated; "": the row has no such taint."""
    evicting = [judgement for judgement in row.judged if judgement.wait_seconds is not None]
    if not evicting:
        return ""
    first = min(evicting, key=lambda judgement: (judgement.due_at or judgement.time_added, judgement.key))
    taint, wait = f"taint {first.key}:{first.effect}", f"{first.wait_seconds:g} s"
    if first.effect == PREFER_NO_EXECUTE:
        return f"{taint}, and failover.cluster.tolerationSeconds is {wait}"
    return f"{taint}, tolerated for {wait}" if first.wait_seconds else f"{taint}, not tolerated"


def eviction_name(row: Eviction) -> str:
    """Return the name of the Eviction of a row."""
    return f"{Ref.parse(row.binding).name}.{row.cluster}"


def eviction_item(
    row: Eviction,
    *,
    position: int | None,
    estimated_at: datetime | None,
    estimate: str,
    queue_ends_at: datetime | None,
    stopped: Stopped | None = None,
) -> EvictionItem:
    """Return the Eviction of a row. `position` and the estimates: see EvictionStatus. `stopped`: why nothing is evicted
    now; None: evictions run."""
    binding = Ref.parse(row.binding)
    reason, message = row.reason, row.message
    if row.state == QUEUED and not row.held:
        reason, message = "", taint_cause(row)
        if stopped is not None:
            reason, message = stopped.tier, f"{stopped.why}; {message}" if message else stopped.why
    moving = tuple(
        f"{judgement.key}:{judgement.effect}" for judgement in row.judged if judgement.wait_seconds is not None
    )
    return EvictionItem(
        api_version=f"{GROUP}/{VERSION}",
        kind="Eviction" if binding.namespace else "ClusterEviction",
        metadata=ObjectMeta(
            name=eviction_name(row),
            namespace=binding.namespace,
            creation_timestamp=None if row.queued_at is None else to_seconds(row.queued_at),
            uid=row.key,
        ),
        spec=EvictionSpec(binding.name, row.cluster, row.resource_kind, row.priority, moving),
        status=EvictionStatus(
            state=row.state,
            reason=reason,
            message=message,
            queued_at=row.queued_at,
            due_at=row.due_at,
            ended_at=row.ended_at,
            position=None if row.state in ENDED else position,
            estimated_at=estimated_at,
            estimate=estimate,
            queue_ends_at=queue_ends_at,
        ),
    )


def _estimate(doc: dict[str, Any], now: datetime) -> str:
    status = doc.get("status", {})
    return str(status.get("estimate") or status.get("estimatedAt", ""))


def _kind(name: str, plural: str, *, namespaced: bool) -> Kind:
    return Kind(
        resource=Resource(
            GROUP,
            VERSION,
            name,
            plural,
            name.lower(),
            namespaced,
            categories=("lifeboat",),
            subresources=("hold", "release", "skip", "expedite"),
            verbs=("get", "list", "watch"),
            fields=("spec.binding", "spec.cluster", "spec.resourceKind", "status.reason", "status.state"),
            columns=(
                Column("Cluster", cells.field("spec", "cluster")),
                Column("State", cells.field("status", "state")),
                Column("Reason", cells.field("status", "reason")),
                Column("Position", cells.field("status", "position"), type="integer"),
                Column("Due", cells.field("status", "dueAt")),
                Column("ETA", _estimate),
                Column("Queued", cells.since("status", "queuedAt"), priority=1),
                Column("Message", cells.field("status", "message"), priority=1),
            ),
        ),
        type=EvictionItem,
        schema=lambda: schema_of(EvictionItem),
        has_generation=False,
        audited=False,
    )


explain({EvictionItem: BOTH})

DECLARED = (
    _kind("Eviction", "evictions", namespaced=True),
    _kind("ClusterEviction", "clusterevictions", namespaced=False),
)
