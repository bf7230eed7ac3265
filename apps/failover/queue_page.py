"""One page of the eviction queue, with positions and estimated times, computed by the database.

A queue may have 10,000 items and more. `apps.failover.queue` reads all of them. Here the database numbers them by the
same rules as `controlplane.insight.forecast`, and only the items of one page are read.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from math import inf
from typing import Any, Final, NamedTuple

import orjson

from apps.failover.models import Eviction as EvictionTable
from apps.objects import tallies
from apps.objects.apply import binary_cursor
from apps.objects.arrays import texts
from apps.objects.store import DjangoStore
from controlplane.apimachinery.times import later
from controlplane.eviction.rate import FLEET_BUCKET, bucket_of, capacity
from controlplane.insight.forecast import STOPPED, Forecast
from controlplane.insight.situation import STAYS, group
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.rows import ENDED, HELD, NO_REFUGE, QUEUED, STATE_MISSING, Eviction
from controlplane.settings import EvictionSettings

PAGE: Final = 40  # items: 50 take more than 30 ms of CPU on a slow machine
WAITING, EVERYTHING = "Waiting", "All"
"""Choices of `QueueChoice.state` besides the states themselves."""
LEAST_RATE: Final = 1e-15  # evictions a second; lower rates count as this one, because floats have an end

_TABLE: Final = EvictionTable._meta.db_table
_ENDED: Final = ", ".join(f"'{state}'" for state in ENDED)
# Why an item is held; an outdated reason of a queued item counts as none (rows.Eviction.held).
_REASON: Final = (
    f"CASE WHEN state <> '{QUEUED}' OR reason IN ('{NO_REFUGE}', '{STATE_MISSING}') THEN reason ELSE '' END"
)
_CHOSEN: Final = f"""(of_cluster = '' OR cluster = of_cluster) AND (of_reason = '' OR reason = of_reason)
    AND (of_kind = '' OR starts_with(binding, of_kind || ':'))
    AND (of_namespace = '' OR starts_with(binding, '{RESOURCE_BINDING}:' || of_namespace || '/'))
    AND CASE of_state WHEN '{EVERYTHING}' THEN true WHEN '{WAITING}' THEN state NOT IN ({_ENDED})
        WHEN state THEN state <> '{QUEUED}' OR reason = '' WHEN '{HELD}' THEN state = '{QUEUED}' AND reason <> ''
        ELSE false END"""
# `d`: seconds from now until an item is due. `i`: its number in its bucket. The tokens of a bucket allow the i-th
# eviction at (i - tokens) / rate. If nothing is due before the item j, the bucket is full when j is due. So the i-th
# eviction takes place no sooner than d(j) + (i - j + 1 - capacity) / rate. The estimate is the latest of these times.
_PAGE_QUERY: Final = f"""
    WITH asked AS (SELECT %s::timestamptz AS now, %s::float8 AS rate, %s::float8 AS capacity, %s::float8 AS ageing,
        %s::boolean AS per_cluster, %s::jsonb AS tokens,
        %s::text AS of_cluster, %s::text AS of_namespace, %s::text AS of_state, %s::text AS of_reason,
        %s::text AS of_kind, %s::text[] AS of_keys),
    waiting AS (
        SELECT key, binding, cluster, {_REASON} AS reason, due_at, due_at > now AS is_later, rate, capacity,
            greatest(0, extract(epoch FROM due_at - now))::float8 AS d,
            -(priority + floor(greatest(0, extract(epoch FROM now - due_at))::float8 / ageing)) AS rank,
            CASE WHEN per_cluster THEN cluster ELSE '' END AS bucket, tokens
        FROM {_TABLE} CROSS JOIN asked
        WHERE state = '{QUEUED}' AND due_at IS NOT NULL),
    placed AS (
        SELECT *, row_number() OVER (PARTITION BY bucket ORDER BY position) AS i FROM (
            SELECT *, row_number() OVER (ORDER BY is_later, CASE WHEN is_later THEN 0 ELSE rank END, due_at, rank, key)
                AS position FROM waiting) numbered),
    timed AS MATERIALIZED (
        SELECT key, binding, cluster, '{QUEUED}' AS state, reason, position, CASE WHEN rate IS NOT NULL THEN greatest(
            d, (i - least(coalesce((tokens ->> bucket)::float8, 0), capacity)) / rate,
            i / rate + max(d - (i - 1 + capacity) / rate) OVER (PARTITION BY bucket ORDER BY i)) END AS seconds
        FROM placed),
    chosen AS MATERIALIZED (
        SELECT one.* FROM (
            SELECT * FROM timed UNION ALL
            SELECT key, binding, cluster, state, {_REASON}, NULL, NULL FROM {_TABLE}
            WHERE state <> '{QUEUED}' AND (due_at IS NOT NULL OR state IN ({_ENDED}))) one
        CROSS JOIN asked WHERE (of_keys IS NULL OR key = ANY(of_keys)) AND {_CHOSEN})
    SELECT totals.*, page.key, page.position, page.seconds FROM (
        SELECT (SELECT count(*) FROM chosen), (SELECT max(seconds) FROM timed)) totals
    LEFT JOIN (
        SELECT key, position, seconds, state FROM chosen ORDER BY position, state, key LIMIT %s OFFSET %s) page ON true
    ORDER BY page.position, page.state, page.key"""
_KEYS_QUERY: Final = f"""
    WITH asked AS (
        SELECT %s::text AS of_cluster, %s::text AS of_namespace, %s::text AS of_state, %s::text AS of_reason,
            %s::text AS of_kind)
    SELECT key FROM (
        SELECT key, binding, cluster, state, {_REASON} AS reason FROM {_TABLE}
        WHERE due_at IS NOT NULL OR state IN ({_ENDED})) one
    CROSS JOIN asked WHERE {_CHOSEN} ORDER BY key LIMIT %s"""


class QueueChoice(NamedTuple):
    """Which items a page lists; "": all. `state`: a state of an Eviction, WAITING for those that have not ended, or
    EVERYTHING; one that is held and checked again is HELD, as everywhere (`situation.group`). `kind`: of their
    bindings."""

    cluster: str = ""
    namespace: str = ""
    state: str = WAITING
    reason: str = ""
    kind: str = ""


NO_CHOICE: Final = QueueChoice()


class Pace(NamedTuple):
    """How fast the queue is processed. `rate`: evictions a second; 0: none take place. `tokens`: by bucket, now."""

    rate: float
    settings: EvictionSettings
    tokens: Mapping[str, float]


class Item(NamedTuple):
    """An item of the queue with its forecast."""

    row: Eviction
    forecast: Forecast


class QueuePage(NamedTuple):
    """Items in the order of the queue; held items and ended ones follow.

    `in_all`: the number of items that were chosen. `ends_at`: when the last queued item of the whole queue is evicted;
    None: no item is queued, or nothing is evicted.
    """

    items: list[Item]
    in_all: int
    ends_at: datetime | None


class QueueOrder(NamedTuple):
    """The chosen items of a whole queue at one time, in its order: the keys, with their forecasts in short.

    positions: 0: the item has none. seconds: from `now` until the estimated time; inf: it is unknown.
    """

    keys: Sequence[str]
    positions: Sequence[int]
    seconds: Sequence[float]
    ends_at: datetime | None
    now: datetime


class QueueCounts(NamedTuple):
    """How many items are in each state, held for each reason, and waiting for each cluster."""

    states: Counter[str]
    held: Counter[str]
    clusters: Counter[str]

    @property
    def waiting(self) -> int:
        """The number of items that have not ended."""
        return sum(self.clusters.values())


def read_page(
    store: DjangoStore,
    pace: Pace,
    choice: QueueChoice = NO_CHOICE,
    *,
    offset: int = 0,
    limit: int = PAGE,
    now: datetime,
    only: Collection[str] | None = None,
) -> QueuePage:
    """Return `limit` items of the queue. Two queries, whatever the length of the queue. `only`: keys; None: all."""
    found = _found(pace, choice, offset=offset, limit=limit, now=now, only=only)
    in_all, last = found[0][:2]
    places = [(key, position, seconds) for _, _, key, position, seconds in found if key is not None]
    return QueuePage(_items(store, places, now=now), in_all, None if last is None else later(now, last))


def read_order(pace: Pace, choice: QueueChoice = NO_CHOICE, *, now: datetime) -> QueueOrder:
    """Return the order of all chosen items, to read pages of it by `page_of`. One query."""
    found = _found(pace, choice, offset=0, limit=None, now=now, only=None)
    last, places = found[0][1], [row[2:] for row in found if row[2] is not None]
    return QueueOrder(
        [key for key, _, _ in places],
        array("q", (position or 0 for _, position, _ in places)),
        array("d", (inf if seconds is None else seconds for _, _, seconds in places)),
        None if last is None else later(now, last),
        now,
    )


def page_of(store: DjangoStore, order: QueueOrder, *, offset: int, limit: int) -> QueuePage:
    """Return `limit` items of an order as they are now. Items that were removed since are left out. One query."""
    places = [
        (
            order.keys[place],
            order.positions[place] or None,
            order.seconds[place] if order.seconds[place] < inf else None,
        )
        for place in range(offset, min(offset + limit, len(order.keys)))
    ]
    return QueuePage(_items(store, places, now=order.now), len(order.keys), order.ends_at)


def _found(
    pace: Pace, choice: QueueChoice, *, offset: int, limit: int | None, now: datetime, only: Collection[str] | None
) -> list[Any]:
    """Return the rows of _PAGE_QUERY; at least one. `limit` None: all items."""
    settings = pace.settings
    tokens = {_bucket_key(bucket): level for bucket, level in pace.tokens.items()}
    rate = None if pace.rate <= 0 else max(pace.rate, LEAST_RATE)
    asked: tuple[Any, ...] = (now, rate, capacity(pace.rate), settings.ageing_seconds)
    asked += (settings.bucket_scope != "Fleet", orjson.dumps(tokens).decode())
    with binary_cursor() as cursor:
        keys_asked = None if only is None else texts(only)
        return cursor.run(_PAGE_QUERY, (*asked, *choice, keys_asked, limit, offset)).fetchall()


def _items(store: DjangoStore, places: Sequence[tuple[str, int | None, float | None]], *, now: datetime) -> list[Item]:
    keys = [key for key, _, _ in places]
    rows = {row.key: row for some in store.rows(Eviction, "key", keys).values() for row in some}
    return [
        Item(rows[key], _forecast(rows[key], position, seconds, now=now))
        for key, position, seconds in places
        if key in rows
    ]


def read_keys(choice: QueueChoice, *, limit: int) -> list[str]:
    """Return the keys of at most `limit` chosen items. One query."""
    with binary_cursor() as cursor:
        return [key for (key,) in cursor.run(_KEYS_QUERY, (*choice, limit))]


def read_counts() -> QueueCounts:
    """Return the numbers of items of the whole queue. One query."""
    states, held, clusters = Counter[str](), Counter[str](), Counter[str]()
    for one in tallies.evictions():
        if one.state == STAYS:
            continue
        states[group(one)] += one.number
        if group(one) == HELD:
            held[one.reason] += one.number
        if one.state not in ENDED:
            clusters[one.cluster] += one.number
    return QueueCounts(states, held, clusters)


def _bucket_key(bucket: str) -> str:
    return "" if bucket == FLEET_BUCKET else bucket.removeprefix(bucket_of("", "Cluster"))


def _forecast(row: Eviction, position: int | None, seconds: float | None, *, now: datetime) -> Forecast:
    if position is None or row.state != QUEUED:  # the latter: since the order was made
        return Forecast(unknown_because="" if row.state in ENDED else row.reason or row.state)
    return Forecast(position, None if seconds is None else later(now, seconds), STOPPED if seconds is None else "")
