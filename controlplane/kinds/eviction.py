"""Eviction and ClusterEviction (failover.lifeboat.io/v1alpha1): the queue's rows as objects people read and steer.

They are not stored: each is made from its row when it is asked for. An eviction lives in the namespace of its binding
(that of a ClusterResourceBinding is a ClusterEviction), called "<binding>.<cluster>": names of clusters have no dots.
"""

from __future__ import annotations

from datetime import datetime

from controlplane.kinds.rows import ENDED, Eviction
from controlplane.meta import Object, ObjectMeta, Ref, Struct

GROUP_VERSION = "failover.lifeboat.io/v1alpha1"


class EvictionSpec(Struct, frozen=True):
    binding: str
    cluster: str
    resource_kind: str = ""
    priority: int = 0
    taints: tuple[str, ...] = ()  # key:effect of those that move the copy


class EvictionStatus(Struct, frozen=True):
    """`position` counts from 1 over the fleet's one queue; `estimated_at` None: nobody can say, `estimate` says why.

    `queue_ends_at` is when the last of all that waits will have left, at the same rate; None where it is stopped.
    """

    state: str = ""
    reason: str = ""
    message: str = ""
    queued_at: datetime | None = None
    due_at: datetime | None = None
    ended_at: datetime | None = None
    position: int | None = None
    estimated_at: datetime | None = None
    estimate: str = ""
    queue_ends_at: datetime | None = None


class EvictionItem(Object, frozen=True):
    spec: EvictionSpec = EvictionSpec("", "")
    status: EvictionStatus = EvictionStatus()


def eviction_name(row: Eviction) -> str:
    """Return the name of a row as an object."""
    return f"{Ref.parse(row.binding).name}.{row.cluster}"


def shown(
    row: Eviction,
    *,
    position: int | None,
    estimated_at: datetime | None,
    estimate: str,
    queue_ends_at: datetime | None,
) -> EvictionItem:
    """Return a row as an object. `position` and the estimates: see EvictionStatus."""
    binding = Ref.parse(row.binding)
    moving = tuple(f"{one.key}:{one.effect}" for one in row.judged if one.wait_seconds is not None)
    return EvictionItem(
        api_version=GROUP_VERSION,
        kind="Eviction" if binding.namespace else "ClusterEviction",
        metadata=ObjectMeta(
            name=eviction_name(row), namespace=binding.namespace, creation_timestamp=row.queued_at, uid=row.key
        ),
        spec=EvictionSpec(binding.name, row.cluster, row.resource_kind, row.priority, moving),
        status=EvictionStatus(
            state=row.state,
            reason=row.reason,
            message=row.message,
            queued_at=row.queued_at,
            due_at=row.due_at,
            ended_at=row.ended_at,
            position=None if row.state in ENDED else position,
            estimated_at=estimated_at,
            estimate=estimate,
            queue_ends_at=queue_ends_at,
        ),
    )
