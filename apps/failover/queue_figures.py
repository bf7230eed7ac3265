"""The figures of the eviction queue, counted by the database, for metrics.

A queue may have 100,000 items, and they are scraped several times a minute. So the database adds up the items, and what
is read here is a row for each cluster, kind, state and reason. `controlplane.insight.figures` makes figures of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from apps.failover.models import Eviction as EvictionTable
from apps.failover.queue import tier_of
from apps.failover.queue_page import LEAST_RATE
from apps.objects.apply import binary_cursor
from apps.objects.store import DjangoStore
from controlplane.apimachinery.times import later
from controlplane.clusters import eviction_tier
from controlplane.controllers.reads.readiness_state import situation_of
from controlplane.eviction.rate import bucket_of, capacity
from controlplane.insight.figures import BUCKETS, WINDOW, QueueCount, QueueFigures, queue_figures
from controlplane.kinds.rows import ENDED, EVICTED, HELD, QUEUED
from controlplane.settings import Settings

Tokens = Callable[[Iterable[str]], Mapping[str, float]]
"""Returns the tokens that buckets have now."""

_TABLE: Final = EvictionTable._meta.db_table
_ENDED: Final = ", ".join(f"'{state}'" for state in ENDED)
# When the taints of an item that is no longer queued first allowed its eviction.
_FIRST_DUE: Final = """
    CASE jsonb_array_length(judged) WHEN 0 THEN NULL WHEN 1 THEN (judged -> 0 ->> 'dueAt')::timestamptz
        ELSE (SELECT min((one ->> 'dueAt')::timestamptz) FROM jsonb_array_elements(judged) one) END"""
_WITHIN: Final = ", ".join(f"count(*) FILTER (WHERE seconds <= {bound})" for bound in BUCKETS)
# The least time from which on an item could be evicted: GREATEST leaves out what is NULL.
_COUNTS_QUERY: Final = f"""
    WITH counted AS (
        SELECT cluster, resource_kind, split_part(binding, ':', 1) AS binding_kind, state,
            CASE WHEN state = '{HELD}' THEN reason ELSE '' END AS held_for, due_at IS NOT NULL AS waits, failed_at,
            CASE WHEN state = '{EVICTED}' THEN ended_at END AS evicted_at,
            CASE WHEN state = '{EVICTED}' AND ended_at IS NOT NULL
                THEN greatest(0, extract(epoch FROM ended_at - coalesce(queued_at, ended_at)))::float8 END AS seconds,
            CASE WHEN queued_at IS NULL THEN NULL WHEN due_at IS NOT NULL THEN greatest(queued_at, due_at)
                ELSE greatest(queued_at, {_FIRST_DUE}) END AS possible_from
        FROM {_TABLE} WHERE due_at IS NOT NULL OR state IN ({_ENDED})),
    asked AS (SELECT %s::timestamptz AS since)
    SELECT cluster, resource_kind, binding_kind, state, held_for, count(*) FILTER (WHERE waits), count(evicted_at),
        count(*) FILTER (WHERE evicted_at >= since), count(failed_at), count(*) FILTER (WHERE failed_at >= since),
        coalesce(sum(seconds), 0)::float8, min(possible_from), {_WITHIN}
    FROM counted CROSS JOIN asked GROUP BY cluster, resource_kind, binding_kind, state, held_for
    ORDER BY cluster, resource_kind, binding_kind, state, held_for"""
# For each bucket: how many items are queued, and the seconds from now until the last one if only the due times and the
# capacity of the bucket delayed it. `before`: the items that are due earlier than those of a time. See
# `queue_page` for why an item that is due at `d` delays the last one until d + (number - before - capacity) / rate.
_ENDS_QUERY: Final = f"""
    WITH asked AS (
        SELECT %s::timestamptz AS now, %s::boolean AS per_cluster, %s::float8 AS rate, %s::float8 AS capacity),
    due AS (
        SELECT CASE WHEN per_cluster THEN cluster ELSE '' END AS bucket, greatest(due_at, now) AS at, count(*) AS number
        FROM {_TABLE} CROSS JOIN asked WHERE state = '{QUEUED}' AND due_at IS NOT NULL GROUP BY 1, 2),
    placed AS (
        SELECT bucket, extract(epoch FROM at - now)::float8 AS d, number,
            sum(number) OVER (PARTITION BY bucket ORDER BY at) - number AS before,
            sum(number) OVER (PARTITION BY bucket) AS all_of_it
        FROM due CROSS JOIN asked)
    SELECT bucket, max(all_of_it)::bigint, greatest(max(d), max(d + (all_of_it - before - capacity)::float8 / rate))
    FROM placed CROSS JOIN asked GROUP BY bucket"""


def read_figures(store: DjangoStore, settings: Settings, tokens: Tokens) -> QueueFigures:
    """Return the figures of the queue as it is now. Eight queries, and as many rows as there are clusters and kinds."""
    situation, now = situation_of(store), store.now()
    fleet, _, _ = tier_of(situation, settings, now=now)
    tier = eviction_tier.in_force(fleet, situation.fleet, settings)
    with binary_cursor() as cursor:
        counts = [_count(row) for row in cursor.run(_COUNTS_QUERY, (now - WINDOW,))]
    end = read_end(tier.rate, settings, tokens, now=now)
    eta = None if end is None else (end - now).total_seconds()
    return queue_figures(counts, fleet, tier, eta_seconds=eta, now=now)


def read_end(rate: float, settings: Settings, tokens: Tokens, *, now: datetime) -> datetime | None:
    """Return when the last queued item of the whole queue is evicted. One query.

    `rate`: evictions a second. None: no item is queued, or nothing is evicted.
    """
    seconds = _seconds_left(rate, settings, tokens, now) if rate > 0 else None
    return None if seconds is None else later(now, seconds)


def _count(row: Any) -> QueueCount:
    cluster, resource_kind, binding_kind, state, reason, *numbers = row
    waiting, evicted, recently, failed, failures, seconds, begun, *within = numbers
    return QueueCount(
        cluster=cluster,
        resource_kind=resource_kind,
        binding_kind=binding_kind.rpartition("/")[2],
        state=state,
        reason=reason,
        waiting=waiting,
        evicted=evicted,
        evicted_recently=recently,
        failed=failed,
        failed_recently=failures,
        latency_sum=seconds,
        latency_within=tuple(within),
        possible_from=begun,
    )


def _seconds_left(rate: float, settings: Settings, tokens: Tokens, now: datetime) -> float | None:
    """Return in how many seconds the last queued item is evicted; None: no item is queued."""
    scope, most = settings.eviction.bucket_scope, capacity(rate)
    pace = max(rate, LEAST_RATE)
    with binary_cursor() as cursor:
        found = cursor.run(_ENDS_QUERY, (now, scope != "Fleet", pace, most)).fetchall()
    ends = {bucket_of(cluster, scope): (number, last) for cluster, number, last in found}
    levels = tokens(ends)
    by_tokens = ((number - min(levels.get(bucket, 0.0), most)) / pace for bucket, (number, _) in ends.items())
    return max((*by_tokens, *(last for _, last in ends.values())), default=None)
