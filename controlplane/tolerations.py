"""Which taints a placement bears, and for how long (semantics 2.5 and 3.2).

Only NoSchedule and NoExecute are asked about here. PreferNoExecute follows a policy's failover.cluster (D4) and
PreferNoSchedule only ranks clusters, which is the scheduler's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

from controlplane.kinds.cluster import NO_EXECUTE, NO_SCHEDULE, Taint
from controlplane.kinds.policy import Toleration
from controlplane.meta import Struct
from controlplane.moments import later


class Stay(Struct, frozen=True):
    """Nothing drives this placement away."""


class EvictAt(Struct, frozen=True):
    """The placement has to leave at this moment, because of this taint; a moment already past means now."""

    at: datetime
    taint: Taint


EvictionDue = Stay | EvictAt
STAY = Stay()


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether a toleration bears a taint; an empty effect or key stands for all of them."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def untolerated(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: Collection[str]
) -> tuple[Taint, ...]:
    """Return the taints with one of these effects that no toleration bears, in their order."""
    return tuple(
        taint
        for taint in taints
        if taint.effect in effects and not any(tolerates(toleration, taint) for toleration in tolerations)
    )


def eviction_due(
    taints: Sequence[Taint],
    tolerations: Sequence[Toleration],
    *,
    now: datetime,
    clocks_from: datetime | None = None,
) -> EvictionDue:
    """Return when NoExecute taints drive a placement away, if at all.

    An untolerated taint does so at once. Otherwise the first toleration that bears a taint is the one used for it, and
    a used toleration with seconds runs for every NoExecute taint it bears; the earliest end counts. Clocks start when
    the taint was added, but not before ``clocks_from`` (D9, D17); a taint that does not say when starts none.
    """
    evicting = [taint for taint in taints if taint.effect == NO_EXECUTE]
    driving = untolerated(evicting, tolerations, (NO_EXECUTE,))
    if driving:
        return min(
            (EvictAt(min(now, _clock_start(taint, clocks_from) or now), taint) for taint in driving), key=_moment
        )
    used = (next(toleration for toleration in tolerations if tolerates(toleration, taint)) for taint in evicting)
    ends = [end for toleration in dict.fromkeys(used) for end in _ends(toleration, evicting, clocks_from)]
    return min(ends, key=_moment, default=STAY)


def _ends(toleration: Toleration, taints: Iterable[Taint], clocks_from: datetime | None) -> Iterator[EvictAt]:
    if toleration.toleration_seconds is None:
        return
    bearing = max(0, toleration.toleration_seconds)
    for taint in taints:
        start = _clock_start(taint, clocks_from)
        if start is not None and tolerates(toleration, taint):
            yield EvictAt(later(start, bearing), taint)


def _clock_start(taint: Taint, clocks_from: datetime | None) -> datetime | None:
    if taint.time_added is None or clocks_from is None:
        return taint.time_added
    return max(taint.time_added, clocks_from)


def _moment(due: EvictAt) -> datetime:
    return due.at


def filter_reason(
    taints: Sequence[Taint], tolerations: Sequence[Toleration], *, already_target: bool = False
) -> str | None:
    """Return why the scheduler may not place something on a cluster with these taints, None where it may.

    What runs there already is left to eviction (semantics 3.2).
    """
    refusing = () if already_target else untolerated(taints, tolerations, (NO_SCHEDULE, NO_EXECUTE))
    return f"cluster(s) had untolerated taint {{{spelled(refusing[0])}}}" if refusing else None


def spelled(taint: Taint) -> str:
    """Return a taint as kubectl writes it: ``key=value:effect``, or ``key:effect`` without a value."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
