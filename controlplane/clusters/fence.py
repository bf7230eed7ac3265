"""A fence: an operator confirms that a cluster nobody can reach is down, so that Directly evictions may go on.

The fence is an annotation of the Cluster: who made it, why, and until when it counts. It counts for one outage only: it
ends for good when it expires, when somebody takes it away, or when the cluster answers after the fence was made. An
answer is a readiness probe answered with 200, a heartbeat of a Pull member's agent, or a refusal to let us in (401,
403, TLS) that began after the fence was made: each proves that the cluster runs. `settle` then removes the annotation,
and the condition Fenced keeps how the fence ended.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from controlplane.apimachinery.causes import forbidden, invalid, reason
from controlplane.apimachinery.errors import Cause, Invalid
from controlplane.apimachinery.meta import Condition, Struct, condition, to_seconds, with_condition
from controlplane.apimachinery.names import FENCE_ANNOTATION
from controlplane.kinds.cluster import (
    ACCESS_LOST,
    ACCESS_REFUSED,
    CERTIFICATE_EXPIRED,
    CERTIFICATE_REFUSED,
    FENCED,
    Cluster,
)

LONGEST_SECONDS = 7 * 24 * 3600
# Reasons of the condition Fenced: it is in force; and how it ended.
CONFIRMED_DOWN: Final = "ConfirmedDown"
ANSWERED, EXPIRED, TAKEN_AWAY = "ClusterAnswered", "Expired", "TakenAway"
# Reasons of lost access that prove that the member runs; the others are faults on our side, or of what stands between.
_REFUSED: Final = (ACCESS_REFUSED, CERTIFICATE_EXPIRED, CERTIFICATE_REFUSED)


class FenceRequest(Struct, frozen=True):
    """What an operator sends: `reason` says how the cluster is known to be down, `expires_in_seconds` for how long the
    fence counts.

    A request without both takes the fence away.
    """

    reason: str = ""
    expires_in_seconds: int = 0


class Fence(Struct, frozen=True):
    """A cluster confirmed to be down."""

    by: str
    reason: str
    made_at: Annotated[datetime, Meta(tz=True)]
    expires_at: Annotated[datetime, Meta(tz=True)]


class Settled(Struct, frozen=True):
    """A cluster with its fence looked at. `wake_at`: when the fence expires; None: there is none."""

    cluster: Cluster
    wake_at: datetime | None = None


def fence_of(cluster: Cluster) -> Fence | None:
    """Return the fence on a cluster, whether it still counts or not; None if there is none or it cannot be read."""
    text = cluster.metadata.annotations.get(FENCE_ANNOTATION)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Fence)
    except msgspec.MsgspecError:
        return None


def in_force(cluster: Cluster | None, *, answered_at: datetime | None = None, now: datetime) -> Fence | None:
    """Return the fence that counts now, None if there is none. `answered_at`: when the cluster last answered."""
    fence = None if cluster is None else fence_of(cluster)
    if cluster is None or fence is None or _ended(cluster, fence, answered_at, now=now):
        return None
    return fence


def _ended(cluster: Cluster, fence: Fence, answered_at: datetime | None, *, now: datetime) -> str:
    """Return why a fence has ended, as the reason of a condition; "" while it counts."""
    if cluster.answers or (answered_at is not None and answered_at > fence.made_at) or _refused_since(cluster, fence):
        return ANSWERED
    return EXPIRED if now >= fence.expires_at else ""


def _refused_since(cluster: Cluster, fence: Fence) -> bool:
    """Test whether the member began to refuse us after the fence was made. A fence on a member that refused us before
    is the word of an operator who knows that."""
    lost = condition(cluster.status.conditions, ACCESS_LOST)
    if lost is None or lost.status != "True" or lost.reason not in _REFUSED or lost.last_transition_time is None:
        return False
    return lost.last_transition_time > to_seconds(fence.made_at)


def settle(cluster: Cluster, *, answered_at: datetime | None, now: datetime) -> Settled:
    """Return the cluster with the condition Fenced as it is now, and without a fence that has ended."""
    fence = fence_of(cluster)
    if fence is None:
        told = condition(cluster.status.conditions, FENCED)
        if told is None or told.status != "True":
            return Settled(cluster)
        return Settled(_with(cluster, Condition(FENCED, "False", TAKEN_AWAY, "the fence was taken away"), now=now))
    until = f"{to_seconds(fence.expires_at):%Y-%m-%dT%H:%M:%SZ}"
    why = _ended(cluster, fence, answered_at, now=now)
    if not why:
        message = f"confirmed down by {fence.by} until {until}: {fence.reason}"
        told = Condition(FENCED, "True", CONFIRMED_DOWN, message)
        return Settled(_with(cluster, told, now=now), fence.expires_at)
    how = f"it expired at {until}"
    if why == ANSWERED:
        how = f"the cluster answered after {fence.made_at:%Y-%m-%dT%H:%M:%SZ}, when it was made; it counts no more"
    told = Condition(FENCED, "False", why, f"the fence of {fence.by} has ended: {how}")
    return Settled(_with(cluster.with_meta(annotations=_without(cluster)), told, now=now))


def _with(cluster: Cluster, told: Condition, *, now: datetime) -> Cluster:
    return cluster.with_status(conditions=with_condition(cluster.status.conditions, told, now=now))


def _without(cluster: Cluster) -> dict[str, str]:
    return {key: value for key, value in cluster.metadata.annotations.items() if key != FENCE_ANNOTATION}


def written_by_hand(new: Cluster, old: Cluster | None) -> list[Cause]:
    """Return why an ordinary write of a Cluster is refused: it adds or changes a fence. Removing one is allowed."""
    before = None if old is None else old.metadata.annotations.get(FENCE_ANNOTATION)
    after = new.metadata.annotations.get(FENCE_ANNOTATION)
    if after is None or after == before:
        return []
    rule = "a fence is made with POST …/clusters/<name>/fence {reason, expiresInSeconds}; leave this annotation out"
    return [forbidden(f"metadata.annotations[{FENCE_ANNOTATION}]", rule)]


def fenced(cluster: Cluster, asked: FenceRequest, *, by: str, now: datetime) -> Cluster:
    """Return the cluster with the fence that `by` asks for; without a fence if the request is empty.

    Raises Invalid for a fence without a reason or an end, or on a cluster that is Ready and lets us in. The time of the
    fence is exact, not cut to the second: an answer from just before does not end it.
    """
    rest = _without(cluster)
    if asked == FenceRequest():
        return cluster.with_meta(annotations=rest)
    causes = list(_causes(cluster, asked))
    if causes:
        raise Invalid.of("Fence", cluster.metadata.name, causes, group="cluster.karmada.io")
    fence = Fence(by, asked.reason, now, now + timedelta(seconds=asked.expires_in_seconds))
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
