"""What people order for single evictions: hold, release, skip, expedite.

Orders are kept on the binding in the annotation `failover.lifeboat.io/eviction-orders`, {"member1": [{"verb": "Hold",
…}]}: written like any other change, so the change log says who ordered what, when and why. An order stands while a
taint it was given for is still on the cluster; a later, harder taint is its own question (D6). A hold is about the
item: it goes on while that waits, whichever taint takes the place of the first.
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
VERBS = {one.lower(): one for one in (HOLD, RELEASE, SKIP, EXPEDITE)}
EXPEDITED = 1 << 40  # the priority of what was expedited: first in order, whatever else waits

Identity = tuple[str, str, datetime]  # key, effect, timeAdded


class Order(Struct, frozen=True):
    """What somebody wants done about one eviction. `taints`: those it was given for."""

    verb: str
    reason: str = ""
    by: str = ""
    at: datetime | None = None
    taints: tuple[Identity, ...] = ()


def orders_by_cluster(binding: Binding) -> dict[str, tuple[Order, ...]]:
    """Return the orders by cluster; what cannot be read orders nothing."""
    text = binding.metadata.annotations.get(EVICTION_ORDERS_ANNOTATION, "")
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, tuple[Order, ...]])
    except msgspec.DecodeError:
        return {}


def order_events(binding: Binding, row: Eviction, verb: str, *, reason: str, by: str) -> tuple[Event, ...]:
    """Return the Events that say who ordered what about an eviction, on the binding and on its workload."""
    message = f"{by} ordered {verb} for the eviction from cluster {row.cluster}: {reason}"
    return tuple(Event(about, f"Eviction{verb}Ordered", message) for about in (binding, template_of(binding)))


def active_orders(binding: Binding, cluster: Cluster, *, held: bool = False) -> dict[str, Order]:
    """Return the orders about leaving a cluster that still count there, by verb. `held`: a hold keeps the item
    waiting already, so that hold goes on."""
    present = {(taint.key, taint.effect, taint.time_added) for taint in cluster.spec.taints}
    known = orders_by_cluster(binding).get(cluster.metadata.name, ())
    return {one.verb: one for one in known if _is_active(one, present, held=held)}


def _is_active(order: Order, taints: Iterable[tuple[str, str, datetime | None]], *, held: bool) -> bool:
    return not set(order.taints).isdisjoint(taints) or (held and order.verb == HOLD)


def with_order(binding: Binding, row: Eviction, verb: str, *, reason: str, by: str, now: datetime) -> Binding:
    """Return the binding with an order about one of its evictions.

    Nothing but Release ends a hold: what is expedited or skipped beneath one stays held. Skip and Expedite take each
    other's place. Release takes the hold away, and what else was ordered where there is none.
    """
    known = orders_by_cluster(binding)
    taints = tuple((one.key, one.effect, one.time_added) for one in row.judged)
    old = [one for one in known.pop(row.cluster, ()) if _is_active(one, taints, held=row.reason == HELD_BY_HAND)]
    held = tuple(one for one in old if one.verb == HOLD)
    others = tuple(one for one in old if one.verb != HOLD)
    if verb == RELEASE:
        left = others if held else ()
    else:
        order = Order(verb, reason, by, to_seconds(now), taints)
        left = (order, *others) if verb == HOLD else (*held, order)
    if left:
        known[row.cluster] = left
    annotations = {
        name: text for name, text in binding.metadata.annotations.items() if name != EVICTION_ORDERS_ANNOTATION
    }
    if known:
        annotations[EVICTION_ORDERS_ANNOTATION] = msgspec.json.encode(known, order="sorted").decode()
    return binding.with_meta(annotations=annotations)
