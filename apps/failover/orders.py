"""Orders about evictions, as the API, the admin and the console give them. An order is stored on its binding."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.objects.writer import ATTEMPTS, Author, Change, Writer
from controlplane.apimachinery.errors import Conflict
from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Event, Put
from controlplane.eviction import operator_orders
from controlplane.kinds.binding import Binding
from controlplane.kinds.rows import ENDED, EVICTED, Eviction


class Ordered(NamedTuple):
    """What became of orders: the items that have the order now, and the keys that are in the queue no more.

    `refused`: by key, why an item cannot have the order, because its copy has been evicted already.
    """

    done: tuple[Eviction, ...]
    gone: tuple[str, ...]
    refused: dict[str, str]


def order(key: str, verb: str, *, reason: str, by: str, dry_run: bool = False) -> bool:
    """Give an order about one eviction; return whether an eviction with that key is in the queue.

    `verb` is a value of `operator_orders.VERBS`. The reason is kept with the order and in the change log. `dry_run`:
    store nothing. Raises Conflict if the copy has been evicted already, or if other writes keep changing the binding.
    """
    found = order_all([key], verb, reason=reason, by=by, dry_run=dry_run)
    if found.refused:
        raise Conflict(found.refused[key])
    return bool(found.done)


def order_all(keys: Collection[str], verb: str, *, reason: str, by: str, dry_run: bool = False) -> Ordered:
    """Give one order about many evictions. The number of queries does not depend on how many there are.

    `dry_run`: store nothing. Raises Conflict if other writes keep changing one of the bindings.
    """
    author = Author(by, f"Eviction{verb}: {reason}"[:200])
    writer = Writer(store(), configuration().settings(), author, dry_run=dry_run)
    given = _Order(verb, reason, by)
    waiting, done, gone, refused = list(dict.fromkeys(keys)), list[Eviction](), list[str](), dict[str, str]()
    for _ in range(ATTEMPTS):
        rows, evicted = _queued(waiting)
        ordered, lost = _attempt(writer, rows, given)
        done += ordered
        refused |= evicted
        known = {*evicted, *(row.key for row in (*ordered, *lost))}
        gone += (key for key in waiting if key not in known)
        waiting = [row.key for row in lost]
        if not waiting:
            return Ordered(tuple(done), tuple(gone), refused)
    raise writer.conflict(Ref.parse(lost[0].binding))


class _Order(NamedTuple):
    verb: str
    reason: str
    by: str


def _attempt(writer: Writer, rows: Iterable[Eviction], given: _Order) -> tuple[list[Eviction], list[Eviction]]:
    """Give an order about evictions, with one write. Return those that have it now, and those whose binding was written
    by another at the same time. Evictions without a binding are in neither."""
    by_binding: dict[Ref, list[Eviction]] = {}
    for row in rows:
        by_binding.setdefault(Ref.parse(row.binding), []).append(row)
    live = writer.store.get(by_binding)
    refs = [ref for ref in by_binding if ref in live]
    outcomes = writer.apply([[_change(live[ref], by_binding[ref], given, writer)] for ref in refs]) if refs else []
    ordered, lost = list[Eviction](), list[Eviction]()
    for ref, outcome in zip(refs, outcomes, strict=True):
        (lost if outcome.lost else ordered).extend(by_binding[ref])
    return ordered, lost


def _change(live: Binding, rows: Iterable[Eviction], given: _Order, writer: Writer) -> Change:
    """Return the change of a binding that gives the order about some of its evictions."""
    new, events = live, list[Event]()
    for row in rows:
        new = operator_orders.with_order(new, row, given.verb, reason=given.reason, by=given.by, now=writer.now)
        events += operator_orders.order_events(live, row, given.verb, reason=given.reason, by=given.by)
    # The order depends on the spec that was read: if a copy is evicted at the same time, the order is lost.
    return Change(Put(new, live, upon=("spec",)), events=tuple(events))


def _queued(keys: Iterable[str]) -> tuple[list[Eviction], dict[str, str]]:
    """Return the waiting and abandoned evictions with these keys, and by key a message for each evicted copy."""
    found = [row for some in store().rows(Eviction, "key", list(keys)).values() for row in some]
    rows = [row for row in found if row.due_at is not None or row.state in ENDED]
    evicted = {
        row.key: f"{row.binding} has already been evicted from cluster {row.cluster}"
        for row in rows
        if row.state == EVICTED
    }
    return [row for row in rows if row.key not in evicted], evicted
