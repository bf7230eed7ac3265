"""Lists of evictions: in the order of the queue, in pages, and by selectors."""

from __future__ import annotations

from array import array
from functools import partial
from math import inf
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from apps.api.eviction_metrics import tokens
from apps.api.eviction_watches import binding_kind, item_of, paced
from apps.api.kept_queues import KEPT_QUEUES, KeptQueue
from apps.api.query import Listing, whole_number
from apps.api.target import Target
from apps.failover import queue
from apps.failover.queue_page import EVERYTHING, QueueChoice, QueueOrder, page_of, read_order, read_page
from apps.objects.configuration import configuration
from apps.objects.store import store
from controlplane.apimachinery.errors import BadRequest
from controlplane.apimachinery.meta import Ref
from controlplane.insight.forecast import Forecast, queue_end
from controlplane.kinds.eviction import EvictionItem
from controlplane.wire.request import Choice


class EvictionPage(NamedTuple):
    """A page of a list. `ends`: the place in the list at which it ends; `remaining`: how many evictions follow.

    list_id: names the list in the next request.
    """

    items: list[EvictionItem]
    ends: int
    remaining: int
    list_id: str


def listed(target: Target, listing: Listing, *, rate: float | None) -> EvictionPage:
    """Return a page of a list. `rate`: evictions a second, for the estimates; None: the rate in force.

    The first page of a list without selectors is read alone, because many clients want no other. All others are taken
    from the order of the whole list, which is made once.
    """
    offset, list_id = _offset(listing), (listing.start.namespace if listing.start is not None else "") or uuid4().hex
    if not listing.limit:
        items = _selected(target, listing.choice, rate)[offset:]
        return EvictionPage(items, offset + len(items), 0, list_id)
    if listing.choice.is_everything and not offset:
        current = paced(rate)
        page = read_page(store(), current.pace, _choice(target), limit=listing.limit, now=current.now)
        items = current.items(page)
        return EvictionPage(items, len(items), max(0, page.in_all - len(items)), list_id)
    whole = (list_id, target.kind.key, repr(listing.choice), rate)
    kept = KEPT_QUEUES.find(whole, partial(_whole, target, listing.choice, rate))
    page = page_of(store(), kept.order, offset=offset, limit=listing.limit)
    items = kept.paced.items(page)
    if not listing.choice.is_everything:
        items = [item for item in items if listing.choice.takes(msgspec.to_builtins(item))]
    ends = min(offset + listing.limit, page.in_all)
    return EvictionPage(items, ends, max(0, page.in_all - ends), list_id)


def _offset(listing: Listing) -> int:
    """Return how many evictions come before the page. Raises BadRequest for a `continue` token of another list."""
    if listing.start is None:
        return 0
    offset = whole_number(listing.start.name)
    if offset is None:
        raise BadRequest("query parameter continue is a token of another list; list again without it")
    return offset


def _choice(target: Target) -> QueueChoice:
    return QueueChoice(namespace=target.namespace, state=EVERYTHING, kind=binding_kind(target.kind))


def _whole(target: Target, choice: Choice, rate: float | None) -> KeptQueue:
    """Return the order of all evictions of a list."""
    current = paced(rate)
    if choice.is_everything:
        return KeptQueue(read_order(current.pace, _choice(target), now=current.now), current)
    status = [(item.metadata.uid, item.status) for item in _selected(target, choice, rate)]
    moments = (one.estimated_at for _, one in status)
    order = QueueOrder(
        [key for key, _ in status],
        array("q", (one.position or 0 for _, one in status)),
        array("d", (inf if at is None else (at - current.now).total_seconds() for at in moments)),
        next((one.queue_ends_at for _, one in status), None),
        current.now,
    )
    return KeptQueue(order, current)


def _selected(target: Target, choice: Choice, rate: float | None) -> list[EvictionItem]:
    """Return the evictions of a list: first those with a position in the queue, then held, then finished evictions."""
    queued = queue.read(store(), configuration().settings())
    forecasts = queued.forecast(rate=rate, tokens=tokens(queued.buckets()))
    rows, stopped = queued.rows, queued.stopped
    namespaced = bool(target.resource.namespaced)
    of_resource = [row for row in rows if bool(Ref.parse(row.binding).namespace) == namespaced]
    last = len(rows) + 1
    ordered = sorted(
        of_resource, key=lambda row: (forecasts.get(row.key, Forecast()).position or last, row.state, row.key)
    )
    end = queue_end(forecasts.values())
    items = [item_of(row, forecasts.get(row.key, Forecast()), end, stopped) for row in ordered]
    return [item for item in items if choice.takes(_document(item))]


def _document(item: EvictionItem) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(item)
    return document
