"""The eviction queue as objects: get, list, and the orders hold, release, skip and expedite.

Evictions are rows of the queue, computed as objects for each request. There is no watch. A list has the queue's order.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import orjson
from django.http import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import pages
from apps.api.answer import ListAnswer, ObjectAnswer
from apps.api.confirming import confirmation, lifeboat_line
from apps.api.eviction_lists import listed
from apps.api.eviction_watches import binding_kind, computed, paced
from apps.api.permissions import is_watch
from apps.api.query import Continue, dry_run, listing_of
from apps.api.streams import watch_response
from apps.api.target import Target
from apps.api.views import TargetView, warning
from apps.failover.destinations import destinations
from apps.failover.orders import order as give_order
from apps.failover.queue_page import EVERYTHING, QueueChoice, read_page
from apps.objects.configuration import configuration
from apps.objects.preview import Preview
from apps.objects.store import store
from controlplane.apimachinery import causes as causes_of
from controlplane.apimachinery.errors import BadRequest, Invalid, MethodNotAllowed, NotFound
from controlplane.apimachinery.meta import Ref
from controlplane.controllers.reads.readiness_state import situation_of
from controlplane.eviction import operator_orders
from controlplane.insight.preview_texts import order_text
from controlplane.kinds.eviction import EvictionItem
from controlplane.kinds.rows import ENDED, Eviction, eviction_key


class EvictionsView(TargetView):
    """Serves GET of the queue or of one eviction, and POST …/hold, release, skip and expedite with {"reason": "…"}."""

    http_method_names = ["get", "head", "post", "options"]
    renderer_classes = pages.OBJECTS

    @property
    def allowed_methods(self) -> list[str]:
        """Return the methods of this URL: orders take POST, and everything else GET."""
        target = getattr(self, "target", None)
        return ["POST", "OPTIONS"] if target is not None and target.subresource else ["GET", "HEAD", "OPTIONS"]

    def get(self, request: Request) -> HttpResponseBase:
        target = self.target
        if is_watch(request) and not target.subresource:
            return watch_response(request, target, store(), allowed=self.attributes(request), computed=computed(target))
        if target.subresource:
            raise MethodNotAllowed(
                f"{target.subresource} takes only POST; the command is: lifeboat {target.subresource} {target.name} "
                "--reason …"
            )
        rate, version = _rate(request.query_params.get("rate", "")), store().current_version()
        if target.name:
            return Response(ObjectAnswer(target.resource, _encoded(_found(target, rate), version)))
        listing = self.limited(listing_of(request.query_params, target.resource, namespace=target.namespace))
        if listing.start is not None:
            version = listing.start.version  # a watch from here has every change since the first page
        page = listed(target, listing, rate=rate)
        meta: dict[str, Any] = {"resourceVersion": str(version)}
        if page.remaining:
            meta["continue"] = Continue(version, page.list_id, str(page.ends)).token()
            if listing.choice.is_everything:
                meta["remainingItemCount"] = page.remaining
        return Response(ListAnswer(target.resource, [_encoded(item, version) for item in page.items], meta))

    def post(self, request: Request) -> Response:
        """Give an order about one eviction. The order is stored on the binding, with the name of the user."""
        target = self.target
        if not target.subresource:
            raise MethodNotAllowed(
                f"{target.resource.plural} are created by taints, not by requests: "
                "give orders about evictions with lifeboat hold, release, skip or expedite"
            )
        reason = _body(request.body).get("reason")
        reason = reason.strip() if isinstance(reason, str) else ""
        why = 'give the reason of the order, as {"reason": "…"}: it is kept with the order and in the change log'
        if causes := causes_of.reason("reason", reason, why):
            raise Invalid.of(target.resource.kind, target.name, causes, group=target.resource.group)
        item = _named(target)
        verb, user = operator_orders.VERBS[target.subresource], request.user.get_username()
        warnings, is_trial = _effects(verb, item), dry_run(request.query_params, {})
        if not is_trial:
            line = partial(lifeboat_line, target, reason=True)
            confirmation(request, target.name, line)(Preview(tuple(warnings), 1))
        if not give_order(item.key, verb, reason=reason, by=user, dry_run=is_trial):
            raise _missing(target)
        after = _encoded(_found(target, None), store().current_version())
        answer = Response(ObjectAnswer(target.resource, after), status=201)
        return warning(answer, warnings)


def _effects(verb: str, row: Eviction) -> list[str]:
    """Return what an order does to the workload, as a warning for its author; []: nothing."""
    refuge = None
    if verb == operator_orders.EXPEDITE:
        refuge = destinations(store(), [row], situation_of(store()), configuration().settings()).get(row.key)
    text = order_text(verb, row, refuge, now=store().now())
    return [text] if text else []


def _body(raw: bytes) -> dict[str, Any]:
    """Return the body of an order. Raises BadRequest if the body is not a JSON object."""
    try:
        document = orjson.loads(raw or b"{}")
    except orjson.JSONDecodeError as error:
        raise BadRequest(f'the body is not JSON ({error}); send {{"reason": "…"}}') from None
    if not isinstance(document, dict):
        raise BadRequest('the body is not a JSON object; send {"reason": "…"}')
    return document


def _rate(text: str) -> float | None:
    """Return the rate for a forecast, in evictions per second. None: use the rate in force. Raises BadRequest."""
    if not text:
        return None
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate < 1e6:
        raise BadRequest(
            f'query parameter rate: "{text}" is not a number of evictions per second; write for example rate=0.5'
        )
    return rate


def _named(target: Target) -> Eviction:
    """Return the eviction that a URL names. Its name ends with a dot and its cluster, and both parts may have dots.

    Raises NotFound.
    """
    kind, name = binding_kind(target.kind), target.name
    splits = [(name[:place], name[place + 1 :]) for place, sign in enumerate(name) if sign == "."]
    keys = [eviction_key(Ref(kind, target.namespace, binding), cluster) for binding, cluster in splits]
    for some in store().rows(Eviction, "key", keys).values() if keys else ():
        for row in some:
            if row.due_at is not None or row.state in ENDED:
                return row
    raise _missing(target)


def _found(target: Target, rate: float | None) -> EvictionItem:
    """Return the eviction that a URL names, with its forecast. `rate`: evictions a second; None: the rate in force.

    Raises NotFound.
    """
    current, key, choice = paced(rate), _named(target).key, QueueChoice(state=EVERYTHING)
    page = read_page(store(), current.pace, choice, limit=1, now=current.now, only=[key])
    items = current.items(page)
    if not items:  # it was removed meanwhile
        raise _missing(target)
    return items[0]


def _missing(target: Target) -> NotFound:
    return NotFound.of(target.resource.plural, target.name, group=target.resource.group)


def _encoded(item: EvictionItem, version: int) -> bytes:
    return msgspec.json.encode(item.with_meta(resource_version=str(version)))
