"""When what waits will leave, at the rate in force or at another one, in the queue's own order (D7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from controlplane.apimachinery.times import later
from controlplane.eviction.queue_priority import aged_priority, sorted_due
from controlplane.eviction.rate import bucket_of, capacity
from controlplane.kinds.rows import QUEUED, Eviction


class Forecast(msgspec.Struct, frozen=True):
    """`position` counts from 1; `at` None: nobody can say, and `told` says why."""

    position: int | None = None
    at: datetime | None = None
    told: str = ""


STOPPED = "stopped"


def forecast(
    rows: Iterable[Eviction],
    *,
    rate: float,
    ageing_seconds: float,
    scope: str = "Fleet",
    tokens: Mapping[str, float] = {},
    now: datetime,
) -> dict[str, Forecast]:
    """Return position and estimate of every row that waits, by key.

    `rate`: tokens a second in each bucket (`scope`: eviction.bucket_scope), 0 is "stopped". `tokens`: those there are
    already, by bucket; one that is not named is empty. Held rows have no place in order: when they go on is somebody
    else's to say, so that is what they tell.
    """
    waiting = [row for row in rows if row.due_at is not None]
    found = {row.key: Forecast(told=row.reason or row.state) for row in waiting if row.state != QUEUED}
    order = _in_order([row for row in waiting if row.state == QUEUED], ageing_seconds=ageing_seconds, now=now)
    sharing: dict[str, list[Eviction]] = {}
    for row in order:
        sharing.setdefault(bucket_of(row.cluster, scope), []).append(row)
    moments: dict[str, datetime | None] = {}
    for bucket, queue in sharing.items():
        times = _eviction_times(queue, rate=rate, tokens=tokens.get(bucket, 0.0), now=now)
        moments.update(zip((row.key for row in queue), times, strict=True))
    for place, row in enumerate(order, start=1):
        at = moments[row.key]
        found[row.key] = Forecast(place, at, STOPPED if at is None else "")
    return found


def _in_order(rows: Sequence[Eviction], *, ageing_seconds: float, now: datetime) -> list[Eviction]:
    """Return due rows as they are worked off, then the others as they fall due."""
    due = sorted_due(rows, ageing_seconds=ageing_seconds, now=now)
    later = [row for row in rows if row.due_at is not None and row.due_at > now]
    return due + sorted(
        later, key=lambda row: (row.due_at, -aged_priority(row, ageing_seconds=ageing_seconds, now=now), row.key)
    )


def _eviction_times(order: Sequence[Eviction], *, rate: float, tokens: float, now: datetime) -> list[datetime | None]:
    if rate <= 0:
        return [None] * len(order)
    full, at, moments = float(capacity(rate)), now, list[datetime | None]()
    level = min(tokens, full)
    for row in order:
        assert row.due_at is not None, "only what is due some day is in order"
        begins = max(at, row.due_at)
        level = min(full, level + (begins - at).total_seconds() * rate)
        wait = max(0.0, (1 - level) / rate)
        at = later(begins, wait)
        level = max(0.0, level + wait * rate - 1)
        moments.append(at)
    return moments


def queue_end(forecasts: Iterable[Forecast]) -> datetime | None:
    """Return when the last of them has left; None where nothing waits or nobody can say."""
    moments = [one.at for one in forecasts if one.position is not None]
    return max((one for one in moments if one is not None), default=None) if all(moments) else None
