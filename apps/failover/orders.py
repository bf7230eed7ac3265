"""Orders about single evictions, as the API and the admin write them: on the binding, in the name of who gives them."""

from __future__ import annotations

from apps.objects.store import store
from controlplane.apimachinery.errors import Conflict
from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Decision, Put
from controlplane.engine.state import Actor
from controlplane.eviction import operator_orders
from controlplane.kinds.rows import ENDED, EVICTED, Eviction

ATTEMPTS = 10


def order(key: str, verb: str, *, reason: str, by: str) -> bool:
    """Give an order about the queue's item of that key; return whether there is such an item.

    `verb` is one of `controlplane.eviction.operator_orders`. The reason is kept with the order and in the change log.
    Raises Conflict where the copy has left already, or where others kept changing the binding.
    """
    writing = store()
    for _ in range(ATTEMPTS):
        row = next(iter(writing.rows(Eviction, "key", [key]).get(key, ())), None)
        if row is None or (row.due_at is None and row.state not in ENDED):
            return False
        if row.state == EVICTED:
            raise Conflict(f"{row.binding} has left cluster {row.cluster} already: there is nothing to {verb.lower()}")
        ref = Ref.parse(row.binding)
        live = writing.get([ref]).get(ref)
        if live is None:
            return False
        new = operator_orders.with_order(live, row, verb, reason=reason, by=by, now=writing.now())
        # Of two that write at once the first one wins: an order about a copy that has just left is none.
        given = Put(new, live, upon=("spec",))
        events = operator_orders.order_events(live, row, verb, reason=reason, by=by)
        decision = Decision(changes=(given,), events=events, reason=f"Eviction{verb}: {reason}"[:200])
        if not writing.apply([(None, decision)], by=Actor(by))[0].lost:
            return True
    raise Conflict(f"eviction {key}: others kept changing its binding; try again")
