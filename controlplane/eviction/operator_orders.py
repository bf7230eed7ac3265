"""Orders that operators give about single evictions: hold, release, skip, expedite.

Orders are stored on the binding in the annotation `failover.lifeboat.io/eviction-orders`, for example {"member1":
[{"verb": "Hold", …}]}. They are written like every other change, so the change log has the author, time and reason. An
order is active while a taint that it was given for is on the cluster. A taint that is added later is judged separately
[judged-once]. Only Hold stays active while the eviction waits, whichever taint replaces the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from controlplane.apimachinery.meta import Struct, to_seconds
from controlplane.apimachinery.names import EVICTION_ORDERS_ANNOTATION
from controlplane.engine.decision import Event
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import HELD_BY_HAND, Eviction
from controlplane.propagation.bindings import template_of

HOLD, SKIP, EXPEDITE, RELEASE = "Hold", "Skip", "Expedite", "Release"
VERBS = {verb.lower(): verb for verb in (HOLD, RELEASE, SKIP, EXPEDITE)}
EXPEDITED = 1 << 40  # the priority of an expedited eviction: higher than every other

Identity = tuple[str, str, datetime]  # key, effect, timeAdded


class Order(Struct, frozen=True):
    """An order about one eviction. `taints`: the taints that evicted the copy when the order was given."""

    verb: str
    reason: str = ""
    by: str = ""
    at: datetime | None = None
    taints: tuple[Identity, ...] = ()


def orders_by_cluster(binding: Binding) -> dict[str, tuple[Order, ...]]:
    """Return the orders of a binding by cluster. An annotation that cannot be decoded counts as no orders."""
    text = binding.metadata.annotations.get(EVICTION_ORDERS_ANNOTATION, "")
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, tuple[Order, ...]])
    except msgspec.DecodeError:
        return {}


def order_events(binding: Binding, row: Eviction, verb: str, *, reason: str, by: str) -> tuple[Event, ...]:
    """Return the Events that report an order about an eviction, for the binding and for its workload."""
    message = f"{by} ordered {verb} for the eviction from cluster {row.cluster}: {reason}"
    return tuple(Event(about, f"Eviction{verb}Ordered", message) for about in (binding, template_of(binding)))


def active_orders(binding: Binding, cluster: Cluster, *, held: bool = False) -> dict[str, Order]:
    """Return the active orders about leaving a cluster, by verb. `held`: a Hold order holds the eviction already, so it
    remains active."""
    orders = orders_by_cluster(binding).get(cluster.metadata.name)
    if not orders:
        return {}
    present = {(taint.key, taint.effect, taint.time_added) for taint in cluster.spec.taints}
    return {order.verb: order for order in orders if _is_active(order, present, held=held)}


def _is_active(order: Order, taints: Iterable[tuple[str, str, datetime | None]], *, held: bool) -> bool:
    return not set(order.taints).isdisjoint(taints) or (held and order.verb == HOLD)


def with_order(binding: Binding, row: Eviction, verb: str, *, reason: str, by: str, now: datetime) -> Binding:
    """Return the binding with one more order about one of its evictions.

    Only Release ends a Hold: an eviction that is expedited or skipped while it is held stays held. Skip and Expedite
    replace each other. Release removes the Hold, or, if there is none, all other orders.
    """
    orders = orders_by_cluster(binding)
    taints = tuple((judgement.key, judgement.effect, judgement.time_added) for judgement in row.judged)
    old = [order for order in orders.pop(row.cluster, ()) if _is_active(order, taints, held=row.reason == HELD_BY_HAND)]
    held = tuple(order for order in old if order.verb == HOLD)
    others = tuple(one for one in old if one.verb != HOLD)
    if verb == RELEASE:
        kept = others if held else ()
    else:
        order = Order(verb, reason, by, to_seconds(now), taints)
        kept = (order, *others) if verb == HOLD else (*held, order)
    if kept:
        orders[row.cluster] = kept
    annotations = {
        name: text for name, text in binding.metadata.annotations.items() if name != EVICTION_ORDERS_ANNOTATION
    }
    if orders:
        annotations[EVICTION_ORDERS_ANNOTATION] = msgspec.json.encode(orders, order="sorted").decode()
    return binding.with_meta(annotations=annotations)
