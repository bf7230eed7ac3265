"""A fence: an operator confirms that an unreachable cluster is down, so that Directly evictions continue
[directly-unreachable].

The fence is an annotation of the Cluster with its author, the reason and its end. It is valid for one outage only. It
ends when it expires, when an operator removes it, or when the cluster answers after the fence was made. An answer is a
readiness probe with 200, a heartbeat of a Pull member's agent, or a refusal of access (401, 403, TLS) that began after
the fence was made: each proves that the cluster runs. `check` then removes the annotation, and the condition Fenced
keeps how the fence ended.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

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
from controlplane.kinds.cluster.fence import Fence, fence_in

LONGEST_SECONDS = 7 * 24 * 3600
# Reasons of the condition Fenced: the fence is in force, or how it ended.
CONFIRMED_DOWN: Final = "ConfirmedDown"
ANSWERED, EXPIRED, TAKEN_AWAY = "ClusterAnswered", "Expired", "TakenAway"
# Reasons of lost access that prove that the member runs. Other reasons are faults on our side or of the network.
_REFUSED: Final = (ACCESS_REFUSED, CERTIFICATE_EXPIRED, CERTIFICATE_REFUSED)


class FenceRequest(Struct, frozen=True):
    """The request of an operator. `reason`: how the operator knows that the cluster is down. `expires_in_seconds`: how
    long the fence is valid.

    A request without both removes the fence.
    """

    reason: str = ""
    expires_in_seconds: int = 0


class CheckedFence(Struct, frozen=True):
    """A cluster after its fence was checked. `wake_at`: when the fence expires; None: there is no fence in force."""

    cluster: Cluster
    wake_at: datetime | None = None


def fence_of(cluster: Cluster) -> Fence | None:
    """Return the fence of a cluster, even if it has ended. None: there is none, or it cannot be read."""
    return fence_in(cluster.metadata.annotations)


def in_force(cluster: Cluster | None, *, answered_at: datetime | None = None, now: datetime) -> Fence | None:
    """Return the fence that is in force. None: there is none. `answered_at`: when the cluster last answered."""
    fence = None if cluster is None else fence_of(cluster)
    if cluster is None or fence is None or _ended(cluster, fence, answered_at, now=now):
        return None
    return fence


def _ended(cluster: Cluster, fence: Fence, answered_at: datetime | None, *, now: datetime) -> str:
    """Return why a fence has ended, as the reason of a condition. "": it is in force."""
    if cluster.answers or (answered_at is not None and answered_at > fence.made_at) or _refused_since(cluster, fence):
        return ANSWERED
    return EXPIRED if now >= fence.expires_at else ""


def _refused_since(cluster: Cluster, fence: Fence) -> bool:
    """Test whether the member began to refuse access after the fence was made. If it refused access before, the
    operator knew that."""
    lost = condition(cluster.status.conditions, ACCESS_LOST)
    if lost is None or lost.status != "True" or lost.reason not in _REFUSED or lost.last_transition_time is None:
        return False
    return lost.last_transition_time > to_seconds(fence.made_at)


def check(cluster: Cluster, *, answered_at: datetime | None, now: datetime) -> CheckedFence:
    """Return the cluster with its condition Fenced, and without its fence if that has ended."""
    fence = fence_of(cluster)
    if fence is None:
        published = condition(cluster.status.conditions, FENCED)
        if published is None or published.status != "True":
            return CheckedFence(cluster)
        return CheckedFence(_with(cluster, Condition(FENCED, "False", TAKEN_AWAY, "the fence was removed"), now=now))
    until = f"{to_seconds(fence.expires_at):%Y-%m-%dT%H:%M:%SZ}"
    why = _ended(cluster, fence, answered_at, now=now)
    if not why:
        message = f"confirmed down by {fence.by} until {until}: {fence.reason}"
        confirmed = Condition(FENCED, "True", CONFIRMED_DOWN, message)
        return CheckedFence(_with(cluster, confirmed, now=now), fence.expires_at)
    how = f"it expired at {until}"
    if why == ANSWERED:
        how = f"the cluster answered after the fence was made at {fence.made_at:%Y-%m-%dT%H:%M:%SZ}"
    ended = Condition(FENCED, "False", why, f"the fence of {fence.by} has ended: {how}")
    return CheckedFence(_with(cluster.with_meta(annotations=_without(cluster)), ended, now=now))


def _with(cluster: Cluster, fenced: Condition, *, now: datetime) -> Cluster:
    return cluster.with_status(conditions=with_condition(cluster.status.conditions, fenced, now=now))


def _without(cluster: Cluster) -> dict[str, str]:
    return {key: value for key, value in cluster.metadata.annotations.items() if key != FENCE_ANNOTATION}


def written_by_hand(new: Cluster, old: Cluster | None) -> list[Cause]:
    """Return why an ordinary write of a Cluster is refused: it adds or changes a fence. It may remove a fence."""
    before = None if old is None else old.metadata.annotations.get(FENCE_ANNOTATION)
    after = new.metadata.annotations.get(FENCE_ANNOTATION)
    if after is None or after == before:
        return []
    rule = "remove this annotation; a fence is made with: lifeboat fence <name> --reason … --for 1h"
    return [forbidden(f"metadata.annotations[{FENCE_ANNOTATION}]", rule)]


def fenced(cluster: Cluster, request: FenceRequest, *, by: str, now: datetime) -> Cluster:
    """Return the cluster with the fence of a request by the user `by`; without a fence if the request is empty.

    Raises Invalid if the request has no reason or no valid duration, or if the cluster is Ready and grants access. The
    time of the fence is not cut to the second, so that an answer from just before does not end it.
    """
    rest = _without(cluster)
    if request == FenceRequest():
        return cluster.with_meta(annotations=rest)
    causes = list(_causes(cluster, request))
    if causes:
        raise Invalid.of("Fence", cluster.metadata.name, causes, group="cluster.karmada.io")
    fence = Fence(by, request.reason, now, now + timedelta(seconds=request.expires_in_seconds))
    return cluster.with_meta(annotations={**rest, FENCE_ANNOTATION: msgspec.json.encode(fence).decode()})


def _causes(cluster: Cluster, request: FenceRequest) -> list[Cause]:
    causes = reason("reason", request.reason, "say how the cluster is known to be down")
    if not 0 < request.expires_in_seconds <= LONGEST_SECONDS:
        rule = f"must be between 1 and {LONGEST_SECONDS}: a fence is valid for a limited time"
        causes.append(invalid("expiresInSeconds", request.expires_in_seconds, rule))
    if cluster.answers:
        rule = "the cluster is Ready, so its copies run; cordon or drain it instead"
        causes.append(invalid("cluster", cluster.metadata.name, rule))
    return causes
