"""Eviction and ClusterEviction (failover.lifeboat.io/v1alpha1): the queue's rows as objects people read and steer.

They are not stored: each is made from its row when it is asked for. An eviction lives in the namespace of its binding
(that of a ClusterResourceBinding is a ClusterEviction), called "<binding>.<cluster>": names of clusters have no dots.
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
    """Which copy leaves which cluster, and why."""

    binding: Annotated[str, Meta(description="Name of the ResourceBinding or ClusterResourceBinding.")]
    cluster: Annotated[str, Meta(description="The cluster that is left.")]
    resource_kind: Annotated[str, Meta(description="apiVersion and kind of the workload: apps/v1/Deployment.")] = ""
    priority: Annotated[int, Meta(description="schedulePriority of the binding; what is expedited has 2^40.")] = 0
    taints: Annotated[tuple[str, ...], Meta(description="key:effect of the taints that move the copy.")] = ()


class EvictionStatus(Struct, frozen=True):
    """How it stands in the queue now."""

    state: Annotated[str, Meta(description="Queued, Held, Recovering, Evicted or Abandoned.")] = ""
    reason: Annotated[
        str,
        Meta(
            description="Queued: Stopped, Blind or the tier whose rate is 0, while nothing leaves. Held: NoRefuge, "
            "StateMissing, OnHold, Maintenance, Flapping or HeldByHand. Evicted: the key of the taint. Abandoned: "
            "Skipped or TargetGone."
        ),
    ] = ""
    message: Annotated[str, Meta(description="The reason in words.")] = ""
    queued_at: Annotated[datetime | None, Meta(description="When it came into the queue.")] = None
    due_at: Annotated[datetime | None, Meta(description="Not before this time: the taint has to be borne so long.")] = (
        None
    )
    ended_at: Annotated[datetime | None, Meta(description="When it was evicted or abandoned.")] = None
    position: Annotated[int | None, Meta(description="From 1, over the fleet's one queue. Held ones have none.")] = None
    estimated_at: Annotated[
        datetime | None,
        Meta(description="When it will leave, at the rate in force or at ?rate=<evictions a second>."),
    ] = None
    estimate: Annotated[str, Meta(description="Why nobody can say when: stopped, or what it is held for.")] = ""
    queue_ends_at: Annotated[
        datetime | None, Meta(description="When the last of all that waits will have left. Unset: it is stopped.")
    ] = None


class EvictionItem(Object, frozen=True):
    """A copy that taints want away from a cluster: an item of the eviction queue, made when it is asked for. Steer it
    by POST of {"reason": "…"} to its subresources hold, release, skip and expedite."""

    spec: EvictionSpec = EvictionSpec("", "")
    status: EvictionStatus = EvictionStatus()


class Stopped(Struct, frozen=True):
    """Why nothing leaves at present: the tier in a word, and the rule in words."""

    tier: str
    why: str


def taint_cause(row: Eviction) -> str:
    """Return the taint that put a row into the queue, and for how long it is tolerated; "" if none is known."""
    moving = [one for one in row.judged if one.wait_seconds is not None]
    if not moving:
        return ""
    first = min(moving, key=lambda one: (one.due_at or one.time_added, one.key))
    taint, wait = f"taint {first.key}:{first.effect}", f"{first.wait_seconds:g} s"
    if first.effect == PREFER_NO_EXECUTE:
        return f"{taint}, and failover.cluster.tolerationSeconds is {wait}"
    return f"{taint}, tolerated for {wait}" if first.wait_seconds else f"{taint}, not tolerated"


def eviction_name(row: Eviction) -> str:
    """Return the name of a row as an object."""
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
    """Return a row as an object. `position` and the estimates: see EvictionStatus. `stopped`: nothing leaves now."""
    binding = Ref.parse(row.binding)
    reason, message = row.reason, row.message
    if row.state == QUEUED and not row.held:
        reason, message = "", taint_cause(row)
        if stopped is not None:
            reason, message = stopped.tier, f"{stopped.why}; {message}" if message else stopped.why
    moving = tuple(f"{one.key}:{one.effect}" for one in row.judged if one.wait_seconds is not None)
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
            verbs=("get", "list"),
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
