"""When waiting evictions will take place, at the present rate or another one, in the order of the queue
[eviction-queue]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from controlplane.apimachinery.times import later
from controlplane.eviction.queue_priority import aged_priority, sorted_due
from controlplane.eviction.rate import bucket_of, capacity
from controlplane.kinds.rows import QUEUED, Eviction


class Forecast(msgspec.Struct, frozen=True):
    """`position` counts from 1. `at` None: the time is unknown, and `unknown_because` is the reason."""

    position: int | None = None
    at: datetime | None = None
    unknown_because: str = ""


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
    """Return the position and the estimated time of every waiting row, by key.

    `rate`: tokens per second in each bucket; 0: no evictions take place. `scope`: setting eviction.bucket_scope.
    `tokens`: the tokens in each bucket now; a missing bucket is empty.

    Held rows have no position, because it is unknown when their hold ends. Their forecast has the hold reason.
    """
    waiting = [row for row in rows if row.due_at is not None]
    forecasts = {row.key: Forecast(unknown_because=row.reason or row.state) for row in waiting if row.state != QUEUED}
    order = in_order([row for row in waiting if row.state == QUEUED], ageing_seconds=ageing_seconds, now=now)
    sharing: dict[str, list[Eviction]] = {}
    for row in order:
        sharing.setdefault(bucket_of(row.cluster, scope), []).append(row)
    times_by_key: dict[str, datetime | None] = {}
    for bucket, queue in sharing.items():
        times = _eviction_times(queue, rate=rate, tokens=tokens.get(bucket, 0.0), now=now)
        times_by_key.update(zip((row.key for row in queue), times, strict=True))
    for position, row in enumerate(order, start=1):
        at = times_by_key[row.key]
        forecasts[row.key] = Forecast(position, at, STOPPED if at is None else "")
    return forecasts


def in_order(rows: Sequence[Eviction], *, ageing_seconds: float, now: datetime) -> list[Eviction]:
    """Return the due rows in the order in which they are processed, then the others in the order of their due times."""
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
        assert row.due_at is not None, "only rows with a due time are in order"
        begins = max(at, row.due_at)
        level = min(full, level + (begins - at).total_seconds() * rate)
        wait = max(0.0, (1 - level) / rate)
        at = later(begins, wait)
        level = max(0.0, level + wait * rate - 1)
        moments.append(at)
    return moments


def queue_end(forecasts: Iterable[Forecast]) -> datetime | None:
    """Return when the last row will be evicted. None: no row waits, or the time is unknown."""
    moments = [item.at for item in forecasts if item.position is not None]
    return max((moment for moment in moments if moment is not None), default=None) if all(moments) else None
