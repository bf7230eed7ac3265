"""What people order for single evictions: hold, release, skip, expedite.

An order is kept on the binding in the annotation `failover.lifeboat.io/eviction-orders`, {"member1": {"verb": "Hold",
…}}: written like any other change, so the change log says who ordered what, when and why. It stands while a taint it
was given for is still on the cluster; a later, harder taint is its own question (D6).
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import Eviction
from controlplane.meta import Struct, to_seconds

ANNOTATION = "failover.lifeboat.io/eviction-orders"
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


def orders(binding: Binding) -> dict[str, Order]:
    """Return the orders by cluster; what cannot be read orders nothing."""
    text = binding.metadata.annotations.get(ANNOTATION, "")
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Order])
    except msgspec.DecodeError:
        return {}


def standing(binding: Binding, cluster: Cluster) -> Order | None:
    """Return the order about leaving a cluster that still counts there."""
    order = orders(binding).get(cluster.metadata.name)
    if order is None:
        return None
    present = {(taint.key, taint.effect, taint.time_added) for taint in cluster.spec.taints}
    return order if present.intersection(order.taints) else None


def given(binding: Binding, row: Eviction, verb: str, *, reason: str, by: str, now: datetime) -> Binding:
    """Return the binding with an order about one of its evictions; Release takes the order there is away."""
    known = orders(binding)
    if verb == RELEASE:
        known.pop(row.cluster, None)
    else:
        taints = tuple((one.key, one.effect, one.time_added) for one in row.judged)
        known[row.cluster] = Order(verb, reason, by, to_seconds(now), taints)
    annotations = {name: text for name, text in binding.metadata.annotations.items() if name != ANNOTATION}
    if known:
        annotations[ANNOTATION] = msgspec.json.encode(known, order="sorted").decode()
    return binding.with_meta(annotations=annotations)
