"""Evictions as objects: read from the queue's rows, steered by hold, release, skip and expedite.

They are made when they are asked for: there is no watch, and a list comes in the queue's order.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import orjson
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import pages
from apps.api.answer import Many, One
from apps.api.eviction_metrics import tokens
from apps.api.query import Continue, Listing, listing_of
from apps.api.target import Target
from apps.api.views import TargetView, refuse_watch
from apps.failover import queue
from apps.failover.orders import order
from apps.objects.configuration import configuration
from apps.objects.store import store
from controlplane.apimachinery import causes as causes_of
from controlplane.apimachinery.errors import BadRequest, Invalid, MethodNotAllowed, NotFound
from controlplane.apimachinery.meta import Ref
from controlplane.eviction import operator_orders
from controlplane.insight.forecast import Forecast, queue_end
from controlplane.kinds.eviction import EvictionItem, Stopped, eviction_item, eviction_name
from controlplane.kinds.rows import Eviction


class EvictionsView(TargetView):
    """GET the queue or one eviction of it; POST …/hold, release, skip or expedite with {"reason": "…"}."""

    http_method_names = ["get", "head", "post", "options"]
    renderer_classes = pages.OBJECTS

    def get(self, request: Request) -> Response:
        target = self.target
        refuse_watch(request, target.resource)
        if target.subresource:
            raise MethodNotAllowed(f"POST to {target.resource.plural}/{target.name}/{target.subresource}")
        found = queue.read(store(), configuration().settings())
        forecasts = found.forecast(rate=_rate(request.query_params.get("rate", "")), tokens=tokens(found.buckets()))
        version = store().current_version()
        if target.name:
            item = _item(_named(found.rows, target), forecasts, queue_end(forecasts.values()), found.stopped)
            return Response(One(target.resource, _encoded(item, version)))
        asked = pages.bounded(listing_of(request.query_params, target.resource, namespace=target.namespace), request)
        items = _chosen(found, forecasts, target, asked)
        begin = _begin(asked)
        page = items[begin : begin + asked.limit] if asked.limit else items[begin:]
        meta = {"resourceVersion": str(version)}
        if begin + len(page) < len(items):
            meta["continue"] = Continue(version, "", str(begin + len(page))).token()
        return Response(Many(target.resource, [_encoded(item, version) for item in page], meta))

    def post(self, request: Request) -> Response:
        """Order something for one eviction. The order is written on its binding, under the name of who asks."""
        target = self.target
        if not target.subresource:
            raise MethodNotAllowed(f"{target.resource.plural} come from taints; post to one of hold, release, skip, …")
        reason = _said(request.body).get("reason")
        reason = reason.strip() if isinstance(reason, str) else ""
        why = 'say why, as {"reason": "…"}: it is kept with the order and in the change log'
        if causes := causes_of.reason("reason", reason, why):
            raise Invalid.of(target.resource.kind, target.name, causes, group=target.resource.group)
        item = _named(queue.read(store(), configuration().settings()).rows, target)
        verb, user = operator_orders.VERBS[target.subresource], request.user.get_username()
        if not order(item.key, verb, reason=reason, by=user):
            raise _missing(target)
        found = queue.read(store(), configuration().settings())
        forecasts = found.forecast(tokens=tokens(found.buckets()))
        after = _item(_named(found.rows, target), forecasts, queue_end(forecasts.values()), found.stopped)
        return Response(One(target.resource, _encoded(after, store().current_version())), status=201)


def _begin(asked: Listing) -> int:
    """Return how many a page leaves out. Raises BadRequest for a token of another list."""
    if asked.start is None:
        return 0
    if not asked.start.name.isdecimal():
        raise BadRequest("query parameter continue is a token of another list; list again without it")
    return int(asked.start.name)


def _said(raw: bytes) -> dict[str, Any]:
    """Return the body of an order. Raises BadRequest where it is no JSON object."""
    try:
        found = orjson.loads(raw or b"{}")
    except orjson.JSONDecodeError as error:
        raise BadRequest(f'the body is no JSON ({error}); send {{"reason": "…"}}') from None
    if not isinstance(found, dict):
        raise BadRequest('the body is no JSON object; send {"reason": "…"}')
    return found


def _rate(text: str) -> float | None:
    """Return the rate a forecast is asked at, in evictions a second; None: the one in force."""
    if not text:
        return None
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate < 1e6:
        raise BadRequest(f'query parameter rate: "{text}" is not a number of evictions a second; write e.g. rate=0.5')
    return rate


def _named(rows: tuple[Eviction, ...], target: Target) -> Eviction:
    wanted = (target.namespace, target.name)
    found = [row for row in rows if (Ref.parse(row.binding).namespace, eviction_name(row)) == wanted]
    if not found:
        raise _missing(target)
    return found[0]


def _missing(target: Target) -> NotFound:
    return NotFound.of(target.resource.plural, target.name, group=target.resource.group)


def _item(row: Eviction, forecasts: dict[str, Forecast], end: datetime | None, stopped: Stopped | None) -> EvictionItem:
    seen = forecasts.get(row.key, Forecast())
    return eviction_item(
        row,
        position=seen.position,
        estimated_at=seen.at,
        estimate=seen.unknown_because,
        queue_ends_at=end,
        stopped=stopped,
    )


def _chosen(found: queue.Queue, forecasts: dict[str, Forecast], target: Target, asked: Listing) -> list[EvictionItem]:
    """Return the evictions a list is about: those in order first, then what is held, then what is over."""
    rows, stopped = found.rows, found.stopped
    named = bool(target.resource.namespaced)
    mine = [row for row in rows if bool(Ref.parse(row.binding).namespace) == named]
    last = len(rows) + 1
    placed = sorted(mine, key=lambda row: (forecasts.get(row.key, Forecast()).position or last, row.state, row.key))
    end = queue_end(forecasts.values())
    items = [_item(row, forecasts, end, stopped) for row in placed]
    return [item for item in items if asked.choice.takes(_document(item))]


def _document(item: EvictionItem) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(item)
    return found


def _encoded(item: EvictionItem, version: int) -> bytes:
    return msgspec.json.encode(item.with_meta(resource_version=str(version)))
