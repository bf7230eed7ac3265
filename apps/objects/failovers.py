"""The failovers of bindings, from the change log: see `controlplane.record`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from operator import or_

from django.db.models import Q

from apps.objects import log
from apps.objects.models import ChangeLog
from controlplane import record
from controlplane.kinds import BINDINGS
from controlplane.kinds.binding import Binding
from controlplane.kinds.failover_record import FailoverRecord
from controlplane.meta import Ref
from controlplane.state import Change

MOST_CHANGES = 20_000  # lines of the log read for one answer
MOST_BINDINGS = 200  # whose failovers one list shows, those that failed over last
STARTING = (
    "Evictions",
    "ApplicationFailover",
    "Drain",
    "Failback",
    "Revert",
)  # reasons of changes that begin failovers


def before(binding: Ref) -> Binding | None:
    """Return a binding as it was before its latest failover; None where the log knows of none."""
    return record.before(_changes([binding]))


def of_binding(binding: Ref) -> Sequence[FailoverRecord]:
    """Return the failovers of a binding, oldest first. Two queries."""
    own = _changes([binding])
    return record.records(own, _changes(record.concerned(own)))


def of_fleet(*, namespace: str = "") -> Sequence[FailoverRecord]:
    """Return the failovers of those bindings that failed over last, oldest first.

    `namespace` "" is everywhere. Cluster-scoped bindings have theirs in `record.EVENTS_NAMESPACE`.
    """
    rows = ChangeLog.objects.filter(kind__in=BINDINGS, reason__in=STARTING, type="MODIFIED")
    if namespace:
        places = [namespace, ""] if namespace == record.EVENTS_NAMESPACE else [namespace]
        rows = rows.filter(namespace__in=places)
    found = rows.order_by("-version").values_list("kind", "namespace", "name")[:MOST_CHANGES]
    refs = list(dict.fromkeys(Ref(*one) for one in found))[:MOST_BINDINGS]
    by_ref: dict[Ref, list[Change]] = {ref: [] for ref in refs}
    for change in _changes(refs):
        by_ref[change.ref].append(change)
    needed = {ref: record.concerned(own) for ref, own in by_ref.items()}
    others: dict[Ref, list[Change]] = {}
    for change in _changes({ref for refs_ in needed.values() for ref in refs_}):
        others.setdefault(change.ref, []).append(change)
    told = [
        one
        for ref, own in by_ref.items()
        for one in record.records(own, [line for near in needed[ref] for line in others.get(near, ())])
    ]
    return sorted(told, key=lambda one: (one.metadata.namespace, one.metadata.name))


def _changes(refs: Collection[Ref]) -> list[Change]:
    """Return the newest changes of objects, oldest first."""
    if not refs:
        return []
    any_of = reduce(or_, (Q(kind=ref.kind, namespace=ref.namespace, name=ref.name) for ref in refs))
    rows = ChangeLog.objects.filter(any_of).order_by("-version")[:MOST_CHANGES]
    return [_change(row) for row in reversed(rows)]


def _change(row: ChangeLog) -> Change:
    old = None if row.old_doc is None else row.old_doc.encode()
    texts = log.opened_both(row.kind, row.doc.encode(), old)
    return Change(
        row.version, row.type, Ref(row.kind, row.namespace, row.name), *texts, row.actor, row.reason, row.cause, row.at
    )
