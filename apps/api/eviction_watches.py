"""Watches of the eviction queue: the present evictions, and the changes after a version.

Triggers log each change of a row of the queue with a version. Positions, estimates and the reason why nothing is
evicted at all change for the whole queue at once. They are shown as they are at the time of the event and cause none.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from apps.api.eviction_metrics import pace_of
from apps.api.streams import Computed
from apps.api.target import Target
from apps.failover import queue
from apps.failover.queue_page import EVERYTHING, Pace, QueueChoice, QueuePage, read_counts, read_page
from apps.objects import change_log
from apps.objects.apply import binary_cursor
from apps.objects.arrays import texts
from apps.objects.configuration import configuration
from apps.objects.listing import Logged
from apps.objects.store import store
from controlplane.apimachinery.errors import Expired
from controlplane.apimachinery.meta import Ref
from controlplane.insight.forecast import Forecast
from controlplane.kind import Kind
from controlplane.kinds import CLUSTER_RESOURCE_BINDING, RESOURCE_BINDING
from controlplane.kinds.eviction import EvictionItem, Stopped, eviction_item, eviction_name
from controlplane.kinds.rows import Eviction
from controlplane.wire.request import Choice
from controlplane.wire.watch import ADDED, DELETED, MODIFIED

MOST: Final = 20_000  # evictions of one answer

_CHANGED: Final = f"""
    SELECT key, max(version) AS latest, (array_agg(before ORDER BY version))[1],
        (array_agg(before ORDER BY version DESC))[1], (array_agg(removed ORDER BY version DESC))[1]
    FROM objects_rowchange
    WHERE version > %s AND version <= %s AND of = 'Eviction' AND starts_with(key, %s)
    GROUP BY key ORDER BY latest LIMIT {MOST + 1}"""

_GONE: Final = """
    SELECT DISTINCT ON (key) key, before FROM objects_rowchange
    WHERE version > %s AND of = 'Eviction' AND removed AND key = ANY(%s) ORDER BY key, version"""


class Paced(NamedTuple):
    """What the forecast of the queue depends on, at one time."""

    pace: Pace
    stopped: Stopped | None
    now: datetime

    def items(self, page: QueuePage) -> list[EvictionItem]:
        """Return the evictions of a page."""
        return [self.item(one.row, one.forecast, page.ends_at) for one in page.items]

    def item(self, row: Eviction, forecast: Forecast, ends_at: datetime | None) -> EvictionItem:
        """Return the eviction of a row. `ends_at`: when the queue ends."""
        return item_of(row, forecast, ends_at, self.stopped)


def item_of(row: Eviction, forecast: Forecast, ends_at: datetime | None, stopped: Stopped | None) -> EvictionItem:
    """Return the eviction of a row. `ends_at`: when the queue ends; `stopped` None: evictions go on."""
    return eviction_item(
        row,
        position=forecast.position,
        estimated_at=forecast.at,
        estimate=forecast.unknown_because,
        queue_ends_at=ends_at,
        stopped=stopped,
    )


def paced(rate: float | None = None) -> Paced:
    """Return what the forecast depends on now. `rate`: evictions a second; None: the rate in force."""
    settings = configuration().settings()
    _, tier, now = queue.read_tier(store(), settings)
    pace = pace_of(tier.rate if rate is None else rate, settings, read_counts().clusters)
    return Paced(pace, queue.stopped_by(tier), now)


def computed(target: Target) -> Computed:
    """Return how evictions of a kind and their changes are computed."""
    return Computed(partial(_changes, target.kind), partial(_present, target.kind))


def _present(kind: Kind, choice: Choice) -> tuple[list[bytes], int]:
    """Return the evictions of a choice in the order of the queue, and their version. Raises Expired beyond MOST."""
    version, current = store().current_version(), paced()
    asked = QueueChoice(namespace=choice.namespace, state=EVERYTHING, kind=binding_kind(kind))
    page = read_page(store(), current.pace, asked, limit=MOST, now=current.now)
    if page.in_all > MOST:
        raise Expired(f"{page.in_all} evictions are too many to begin a watch with: list with limit=500 first")
    items = [item for item in current.items(page) if choice.is_everything or choice.takes(msgspec.to_builtins(item))]
    return [_encoded(item, version) for item in items], version


def _changes(kind: Kind, since: int, until: int) -> list[Logged]:
    """Return the changes of evictions after a version up to another. Raises Expired.

    An eviction is shown as it is now, or as it was when it was removed after `until`. What changed after `until` is
    sent again with the version of that change.
    """
    with binary_cursor() as cursor:
        found = cursor.run(_CHANGED, (since, until, f"{binding_kind(kind)}:")).fetchall()
        oldest = change_log.oldest(cursor)  # after reading, because a partition may be dropped in between
    if since < oldest:
        raise Expired(f"too old resource version: {since} ({oldest})")
    if len(found) > MOST:
        raise Expired(f"more than {MOST} evictions changed since resource version {since}: list again with limit=500")
    if not found:
        return []
    current = paced()
    items = _items(current, [key for key, _, _, _, removed in found if not removed], until)
    logged = list[Logged]()
    for key, version, first, last, removed in found:
        if removed:
            if first is not None:
                row = _row(last)
                logged.append(_logged(kind, DELETED, current.item(row, Forecast(), None), row, version))
        elif key in items:
            item, row = items[key]
            old = None if first is None else replace(row, state=first["state"], reason=first["reason"])
            event = _logged(kind, ADDED if old is None else MODIFIED, item, row, version)
            before = None if old is None else _encoded(current.item(old, Forecast(), None), version)
            logged.append(event._replace(old_document=before))
    return logged


def _items(current: Paced, keys: Collection[str], until: int) -> dict[str, tuple[EvictionItem, Eviction]]:
    """Return evictions with their rows, by key. If one was removed after `until`: as it was then."""
    if not keys:
        return {}
    choice = QueueChoice(state=EVERYTHING)
    page = read_page(store(), current.pace, choice, limit=len(keys), now=current.now, only=keys)
    items = {one.row.key: (made, one.row) for one, made in zip(page.items, current.items(page), strict=True)}
    if missing := [key for key in keys if key not in items]:
        with binary_cursor() as cursor:
            for key, before in cursor.run(_GONE, (until, texts(missing))):
                row = _row(before)
                items[key] = current.item(row, Forecast(), None), row
    return items


def _logged(kind: Kind, event: str, item: EvictionItem, row: Eviction, version: int) -> Logged:
    namespace = Ref.parse(row.binding).namespace
    return Logged(version, kind.key, namespace, eviction_name(row), event, _encoded(item, version), None)


def _encoded(item: EvictionItem, version: int) -> bytes:
    return msgspec.json.encode(item.with_meta(resource_version=str(version)))


def _row(columns: dict[str, Any]) -> Eviction:
    """Return the row of a logged line."""
    fields = msgspec.structs.fields(Eviction)
    row: Eviction = msgspec.convert({field.encode_name: columns[field.name] for field in fields}, Eviction)
    return row


def binding_kind(kind: Kind) -> str:
    """Return the kind of the bindings of the evictions of a kind."""
    return RESOURCE_BINDING if kind.resource.namespaced else CLUSTER_RESOURCE_BINDING
