"""Orders about single evictions, as the API and the admin give them. An order is stored on its binding."""

from __future__ import annotations

from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.objects.writer import Author, Change, Writer
from controlplane.apimachinery.errors import Conflict, NotFound
from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Put
from controlplane.eviction import operator_orders
from controlplane.kinds.rows import ENDED, EVICTED, Eviction


def order(key: str, verb: str, *, reason: str, by: str) -> bool:
    """Give an order about one eviction; return whether an eviction with that key is in the queue.

    `verb` is a value of `operator_orders.VERBS`. The reason is kept with the order and in the change log. Raises
    Conflict if the copy has been evicted already, or if other writes keep changing the binding.
    """
    row = _queued(key)
    if row is None:
        return False
    ref = Ref.parse(row.binding)
    author = Author(by, f"Eviction{verb}: {reason}"[:200])
    writer = Writer(store(), configuration().settings(), author)

    def build() -> Change:
        row = _queued(key)
        live = writer.live(ref)
        if row is None:
            raise NotFound(f"eviction {key} is not in the queue any more")
        new = operator_orders.with_order(live, row, verb, reason=reason, by=by, now=writer.store.now())
        events = operator_orders.order_events(live, row, verb, reason=reason, by=by)
        # The order depends on the spec that was read: if the copy is evicted at the same time, the order is lost.
        return Change(Put(new, live, upon=("spec",)), events=events)

    try:
        writer.change(ref, build)
    except NotFound:
        return False
    return True


def _queued(key: str) -> Eviction | None:
    """Return an eviction of the queue by its key. Raises Conflict if the copy has been evicted already."""
    row: Eviction | None = next(iter(store().rows(Eviction, "key", [key]).get(key, ())), None)
    if row is None or (row.due_at is None and row.state not in ENDED):
        return None
    if row.state == EVICTED:
        raise Conflict(f"{row.binding} has already been evicted from cluster {row.cluster}")
    return row
