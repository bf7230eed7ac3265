"""The figures of the eviction queue, row by row: the rules that the database follows when it counts the rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from controlplane.apimachinery.meta import Ref
from controlplane.clusters import eviction_tier
from controlplane.eviction.eligibility import earliest_judgement
from controlplane.insight.figures import BUCKETS, WINDOW, QueueCount, QueueFigures, queue_figures
from controlplane.insight.forecast import forecast, queue_end
from controlplane.kinds.rows import ENDED, EVICTED, HELD, Eviction


def figures_of(
    rows: Iterable[Eviction],
    fleet: eviction_tier.FleetHealth,
    tier: eviction_tier.Tier,
    *,
    ageing_seconds: float = 300.0,
    scope: str = "Fleet",
    tokens: Mapping[str, float] = {},
    now: datetime,
) -> QueueFigures:
    """Return the figures of rows at `now`. `tokens`: the tokens in each bucket, as in `forecast`."""
    counted = [row for row in rows if row.due_at is not None or row.state in ENDED]
    groups: dict[tuple[str, ...], list[Eviction]] = defaultdict(list)
    for row in counted:
        kind = Ref.parse(row.binding).kind.rpartition("/")[2]
        groups[row.cluster, row.resource_kind, kind, row.state, row.reason if row.state == HELD else ""].append(row)
    found = forecast(counted, rate=tier.rate, ageing_seconds=ageing_seconds, scope=scope, tokens=tokens, now=now)
    last = queue_end(found.values())
    eta = None if last is None else (last - now).total_seconds()
    counts = [_count(group, some, now=now) for group, some in sorted(groups.items())]
    return queue_figures(counts, fleet, tier, eta_seconds=eta, now=now)


def _count(group: tuple[str, ...], rows: list[Eviction], *, now: datetime) -> QueueCount:
    cluster, resource_kind, binding_kind, state, reason = group
    ended = [row.ended_at for row in rows if row.state == EVICTED and row.ended_at is not None]
    seconds = [_latency(row) for row in rows if row.state == EVICTED and row.ended_at is not None]
    failed = [row.failed_at for row in rows if row.failed_at is not None]
    numbers: dict[str, Any] = {
        "waiting": sum(row.due_at is not None for row in rows),
        "evicted": len(ended),
        "evicted_recently": sum(now - moment <= WINDOW for moment in ended),
        "failed": len(failed),
        "failed_recently": sum(now - moment <= WINDOW for moment in failed),
        "latency_sum": sum(seconds),
        "latency_within": tuple(sum(one <= bound for one in seconds) for bound in BUCKETS),
        "possible_from": min((at for row in rows if (at := _possible_from(row)) is not None), default=None),
    }
    named: dict[str, Any] = {"cluster": cluster, "resource_kind": resource_kind, "binding_kind": binding_kind}
    return QueueCount(**named, state=state, reason=reason, **numbers)


def _latency(row: Eviction) -> float:
    """Return the seconds between the queueing and the eviction of a row that was evicted."""
    assert row.ended_at is not None, "it has been evicted"
    return max(0.0, (row.ended_at - (row.queued_at or row.ended_at)).total_seconds())


def _possible_from(row: Eviction) -> datetime | None:
    """Return when an eviction could first take place; None: it is not known when the row was queued."""
    first = earliest_judgement(row.judged)
    due = row.due_at if row.due_at is not None else None if first is None else first.due_at
    return row.queued_at if row.queued_at is None or due is None else max(row.queued_at, due)
