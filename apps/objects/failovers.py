"""The failovers of bindings, from the change log: see `controlplane.record`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q

from apps.objects import log
from apps.objects.models import ChangeLog
from controlplane import record
from controlplane.kinds import BINDINGS, CLUSTER, WORK
from controlplane.kinds.binding import Binding
from controlplane.kinds.failover_record import FailoverRecord
from controlplane.meta import Ref
from controlplane.state import Change

MOST_CHANGES = 20_000  # lines of the log read for one answer
MOST_BINDINGS = 200  # whose failovers one list shows, those that failed over last
WRITTEN_WITHIN = timedelta(seconds=60)  # after the moment a change speaks of
_AS_IT_WAS = """
    SELECT found.*, asked.version AS before FROM unnest(%s::text[], %s::bigint[]) AS asked (name, version)
    CROSS JOIN LATERAL (
        SELECT * FROM objects_changelog one
        WHERE one.kind = %s AND one.namespace = '' AND one.name = asked.name AND one.version < asked.version
        ORDER BY one.version DESC LIMIT 1) found"""
_AROUND = """
    SELECT DISTINCT ON (found.version) found.*
    FROM unnest(%s::text[], %s::timestamptz[], %s::bigint[]) AS asked (name, at, version) CROSS JOIN LATERAL (
        SELECT * FROM objects_changelog one
        WHERE one.kind = %s AND one.namespace = '' AND one.name = asked.name AND one.version < asked.version
        ORDER BY one.version DESC LIMIT %s) found
    WHERE found.at >= asked.at AND found.at < asked.at + %s ORDER BY found.version"""
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
    """Return the failovers of a binding, oldest first. Four queries."""
    own = _changes([binding])
    return record.records(own, [*_comings(record.concerned(own)), *_signs(record.signs(own))])


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
    signs = _signs({sign for own in by_ref.values() for sign in record.signs(own)})
    for change in (*_comings({ref for refs_ in needed.values() for ref in refs_}), *signs):
        others.setdefault(change.ref, []).append(change)
    told = [
        one
        for ref, own in by_ref.items()
        for one in record.records(own, [line for near in needed[ref] for line in others.get(near, ())])
    ]
    return sorted(told, key=lambda one: (one.metadata.namespace, one.metadata.name))


def _changes(refs: Collection[Ref], **only: Any) -> list[Change]:
    """Return the newest changes of objects, oldest first; `only` those of which these columns say so."""
    if not refs:
        return []
    any_of = reduce(or_, (Q(kind=ref.kind, namespace=ref.namespace, name=ref.name) for ref in refs))
    rows = ChangeLog.objects.filter(any_of, **only).order_by("-version")[:MOST_CHANGES]
    return [_change(row) for row in reversed(rows)]


def _comings(refs: Collection[Ref]) -> list[Change]:
    """Return when Works came and went: of their reports there may be thousands."""
    return _changes([ref for ref in refs if ref.kind == WORK], type__in=("ADDED", "DELETED"))


def _signs(asked: Collection[tuple[Ref, int]]) -> list[Change]:
    """Return the changes that clusters speak of as they were at some version: a cluster reports its resources every
    few seconds, so those changes are looked up by their time and not among all of them."""
    if not asked:
        return []
    names, versions = zip(*((ref.name, version) for ref, version in asked), strict=True)
    moments: dict[tuple[str, datetime], int] = {}
    for row in ChangeLog.objects.raw(_AS_IT_WAS, [list(names), list(versions), CLUSTER]):
        before: int = row.before  # type: ignore[attr-defined]  # a column of the query
        for moment in record.told_at(row.doc.encode()):
            moments[row.name, moment] = max(before, moments.get((row.name, moment), 0))
    clusters, times = [name for name, _ in moments], [moment for _, moment in moments]
    params = [clusters, times, list(moments.values()), CLUSTER, MOST_CHANGES, WRITTEN_WITHIN]
    return [_change(row) for row in ChangeLog.objects.raw(_AROUND, params)]


def _change(row: ChangeLog) -> Change:
    old = None if row.old_doc is None else row.old_doc.encode()
    texts = log.opened_both(row.kind, row.doc.encode(), old)
    return Change(
        row.version, row.type, Ref(row.kind, row.namespace, row.name), *texts, row.actor, row.reason, row.cause, row.at
    )
