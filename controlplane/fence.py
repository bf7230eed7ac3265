"""A fence: an operator's word that a cluster nobody can reach is down, so that Directly evictions may go on (D14).

It is kept as an annotation of the Cluster: who said so, why, and until when it counts. A cluster that answers is not
fenced, whatever somebody said of it; one that does not let us in any more (D22) may well be down.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from controlplane.causes import invalid, reason
from controlplane.errors import Cause, Invalid
from controlplane.kinds.cluster import Cluster
from controlplane.meta import Struct, to_seconds
from controlplane.names import FENCE_ANNOTATION

LONGEST_SECONDS = 7 * 24 * 3600


class FenceRequest(Struct, frozen=True):
    """What an operator sends: `reason` how the cluster is known to be down, `expires_in_seconds` how long that counts.

    0 seconds takes a fence away.
    """

    reason: str = ""
    expires_in_seconds: int = 0


class Fence(Struct, frozen=True):
    """A cluster confirmed to be down."""

    by: str
    reason: str
    made_at: Annotated[datetime, Meta(tz=True)]
    expires_at: Annotated[datetime, Meta(tz=True)]


def fence_of(cluster: Cluster) -> Fence | None:
    """Return the fence on a cluster, expired or not; None where there is none, or where it cannot be read."""
    text = cluster.metadata.annotations.get(FENCE_ANNOTATION)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Fence)
    except msgspec.MsgspecError:
        return None


def in_force(cluster: Cluster | None, *, now: datetime) -> Fence | None:
    """Return the fence that counts now: not expired, and its cluster does not answer."""
    fence = None if cluster is None or cluster.answers else fence_of(cluster)
    return fence if fence is not None and now < fence.expires_at else None


def fenced(cluster: Cluster, asked: FenceRequest, *, by: str, now: datetime) -> Cluster:
    """Return the cluster with the fence somebody asks for, without any where it is to expire at once.

    Raises Invalid for a fence without a reason or an end, or on a cluster that is Ready and lets us in.
    """
    rest = {key: value for key, value in cluster.metadata.annotations.items() if key != FENCE_ANNOTATION}
    if asked == FenceRequest():
        return cluster.with_meta(annotations=rest)
    causes = list(_causes(cluster, asked))
    if causes:
        raise Invalid.of("Fence", cluster.metadata.name, causes, group="cluster.karmada.io")
    made_at = to_seconds(now)
    fence = Fence(by, asked.reason, made_at, made_at + timedelta(seconds=asked.expires_in_seconds))
    return cluster.with_meta(annotations={**rest, FENCE_ANNOTATION: msgspec.json.encode(fence).decode()})


def _causes(cluster: Cluster, asked: FenceRequest) -> list[Cause]:
    causes = reason("reason", asked.reason, "say how the cluster is known to be down")
    if not 0 < asked.expires_in_seconds <= LONGEST_SECONDS:
        rule = f"must be between 1 and {LONGEST_SECONDS}: a cluster is confirmed to be down for a time, not for ever"
        causes.append(invalid("expiresInSeconds", asked.expires_in_seconds, rule))
    if cluster.answers:
        rule = "the cluster is Ready, so its copies run; cordon or drain it instead"
        causes.append(invalid("cluster", cluster.metadata.name, rule))
    return causes
