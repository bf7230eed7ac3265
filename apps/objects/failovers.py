"""The failovers of bindings, from the change log: see `controlplane.record`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple

from msgspec.structs import replace

from apps.objects.apply import binary_cursor
from apps.objects.arrays import bigints, moments, texts
from apps.objects.models import BEGINS_FAILOVER
from controlplane import record
from controlplane.kinds import BINDINGS, CLUSTER, WORK
from controlplane.kinds.binding import Binding
from controlplane.kinds.failover_record import FailoverRecord
from controlplane.meta import Ref
from controlplane.state import Change

MOST_CHANGES = 20_000  # lines of the log read for one answer
MOST_BINDINGS = 500  # whose failovers one page shows; without pages, those that failed over last
WRITTEN_WITHIN = timedelta(seconds=60)  # after the moment a change speaks of
LAST = 2**63 - 1  # beyond every version

_HOME = f"CASE namespace WHEN '' THEN '{record.EVENTS_NAMESPACE}' ELSE namespace END"
_REASONS = ", ".join(f"'{reason}'" for reason in BEGINS_FAILOVER)
_KINDS = ", ".join(f"'{kind}'" for kind in BINDINGS)
# What failed over, how often, and when last: read from the index changelog_failovers, whose condition this repeats.
_FAILED_OVER = f"""
    SELECT kind, namespace, name, home, times FROM (
        SELECT kind, namespace, name, {_HOME} AS home, count(*) AS times, max(version) AS latest FROM objects_changelog
        WHERE type = 'MODIFIED' AND reason IN ({_REASONS}) AND kind IN ({_KINDS})
        GROUP BY kind, namespace, name) found
    WHERE (%s = '' OR home = %s) AND (home, name) >= (%s, %s)"""
_ALL = f"{_FAILED_OVER} ORDER BY latest DESC LIMIT %s"
_IN_ORDER = f"{_FAILED_OVER} ORDER BY home, name, kind LIMIT %s"
# What a change began with is read only where the one before it, which ended with that, is not.
_OF_BINDINGS = """
    SELECT version, type, kind, namespace, name, textsend(doc),
        CASE WHEN lag(version) OVER (PARTITION BY kind, namespace, name ORDER BY version) IS NULL
            THEN textsend(old_doc) END,
        actor, reason, cause, at
    FROM (
        SELECT one.* FROM unnest(%s::text[], %s::text[], %s::text[]) AS asked (kind, namespace, name)
        CROSS JOIN LATERAL (
            SELECT * FROM objects_changelog line
            WHERE line.kind = asked.kind AND line.namespace = asked.namespace AND line.name = asked.name
            ORDER BY line.version DESC LIMIT %s) one
        ORDER BY one.version DESC LIMIT %s) found
    ORDER BY version"""
_COMINGS = """
    SELECT one.version, one.type, one.kind, one.namespace, one.name, ''::bytea, NULL, one.actor, one.reason, one.cause,
        one.at
    FROM unnest(%s::text[], %s::text[]) AS asked (namespace, name) CROSS JOIN LATERAL (
        SELECT * FROM objects_changelog line
        WHERE line.kind = %s AND line.namespace = asked.namespace AND line.name = asked.name
            AND line.type IN ('ADDED', 'DELETED')
        ORDER BY line.version DESC LIMIT %s) one
    ORDER BY one.version DESC LIMIT %s"""
_AS_IT_WAS = """
    SELECT line.name, textsend(line.doc), was.before FROM (
        SELECT one.version, max(asked.version) AS before
        FROM unnest(%s::text[], %s::bigint[]) AS asked (name, version) CROSS JOIN LATERAL (
            SELECT version FROM objects_changelog line
            WHERE line.kind = %s AND line.namespace = '' AND line.name = asked.name AND line.version < asked.version
            ORDER BY line.version DESC LIMIT 1) one
        GROUP BY one.version) was
    JOIN objects_changelog line ON line.version = was.version"""
_AROUND = """
    SELECT DISTINCT ON (version) version, type, kind, namespace, one.name, textsend(doc), textsend(old_doc), actor,
        reason, cause, one.at
    FROM unnest(%s::text[], %s::timestamptz[], %s::bigint[]) AS asked (name, at, before) CROSS JOIN LATERAL (
        SELECT * FROM objects_changelog line
        WHERE line.kind = %s AND line.namespace = '' AND line.name = asked.name AND line.version < asked.before
        ORDER BY line.version DESC LIMIT %s) one
    WHERE one.at >= asked.at AND one.at < asked.at + %s ORDER BY version"""


class Place(NamedTuple):
    """The place of a record among all of them: by namespace, binding, and the version its failover began with."""

    namespace: str = ""
    binding: str = ""
    version: int = 0


class Page(NamedTuple):
    """Records in the order of their places; `after` is where the next page goes on, None where this is the last."""

    records: Sequence[FailoverRecord]
    after: Place | None = None


class _FailedOver(NamedTuple):
    """A binding that failed over; `home`: the namespace of its records, `times`: about how many there are."""

    ref: Ref
    home: str
    times: int


def before(binding: Ref) -> Binding | None:
    """Return a binding as it was before its latest failover; None where the log knows of none."""
    return record.before(_changes([binding]))


def of_binding(binding: Ref) -> Sequence[FailoverRecord]:
    """Return the failovers of a binding, oldest first. Four queries."""
    return _records([binding])


def of_fleet(*, namespace: str = "") -> Sequence[FailoverRecord]:
    """Return the failovers of those bindings that failed over last, each binding's oldest first. Five queries.

    `namespace` "" is everywhere. Cluster-scoped bindings have theirs in `record.EVENTS_NAMESPACE`.
    """
    found = _failed_over(_ALL, namespace, Place(), limit=MOST_BINDINGS)
    return sorted(_records([one.ref for one in found]), key=place_of)


def page(*, namespace: str = "", after: Place | None = None, limit: int) -> Page:
    """Return at most `limit` of all failovers the log knows of, those behind a place. Five queries.

    A page may hold fewer although more follow, as any page of a list.
    """
    start = Place() if after is None else after
    most = min(limit, MOST_BINDINGS) + 1  # that of the place itself may have been shown to its end
    found = _failed_over(_IN_ORDER, namespace, start, limit=most + 1)
    chosen, times = list[_FailedOver](), 0
    for one in found[:most]:
        if times >= limit:
            break
        chosen.append(one)
        times += one.times if (one.home, one.ref.name) != start[:2] else 0
    told = sorted((one for one in _records([one.ref for one in chosen]) if place_of(one) > start), key=place_of)
    if len(told) > limit:
        return Page(told[:limit], place_of(told[limit - 1]))
    more = len(chosen) < len(found)
    return Page(told, Place(chosen[-1].home, chosen[-1].ref.name, LAST) if more else None)


def place_of(one: FailoverRecord) -> Place:
    """Return the place of a record in lists."""
    binding, _, version = one.metadata.name.rpartition(".")
    return Place(one.metadata.namespace, binding, int(version))


def _failed_over(query: str, namespace: str, after: Place, *, limit: int) -> list[_FailedOver]:
    with binary_cursor() as cursor:
        rows = cursor.run(query, (namespace, namespace, after.namespace, after.binding, limit)).fetchall()
    return [_FailedOver(Ref(kind, space, name), home, times) for kind, space, name, home, times in rows]


def _records(bindings: Sequence[Ref]) -> list[FailoverRecord]:
    """Return the failovers of bindings. Four queries, however many they are."""
    changes = sorted(_changes(bindings), key=lambda one: (one.ref, one.version))
    own = [record.failovers(record.read(lines)) for _, lines in groupby(changes, key=lambda one: one.ref)]
    found = [one for ones in own for one in ones]
    around = record.read([*_comings(record.concerned(found)), *_signs(record.signs(found))])
    return list(record.records(found, around))


def _changes(refs: Sequence[Ref]) -> list[Change]:
    """Return the newest changes of bindings, each object's in order."""
    if not refs:
        return []
    kinds, namespaces, names = (texts(column) for column in zip(*refs, strict=True))
    lines = _lines(_OF_BINDINGS, (kinds, namespaces, names, MOST_CHANGES, MOST_CHANGES))
    left: dict[Ref, bytes] = {}
    found = []
    for line in lines:
        began = left.get(line.ref, line.old_document)
        found.append(line if began is line.old_document else replace(line, old_document=began))
        left[line.ref] = line.document
    return found


def _comings(refs: Collection[Ref]) -> list[Change]:
    """Return when Works came and went, without what they held: of their reports there may be thousands."""
    works = [ref for ref in refs if ref.kind == WORK]
    if not works:
        return []
    spaces, names = texts(ref.namespace for ref in works), texts(ref.name for ref in works)
    return _lines(_COMINGS, (spaces, names, WORK, MOST_CHANGES, MOST_CHANGES))


def _signs(asked: Collection[tuple[Ref, int]]) -> list[Change]:
    """Return the changes that clusters speak of as they were at some version: a cluster reports its resources every
    few seconds, so those changes are looked up by their time and not among all of them."""
    if not asked:
        return []
    names, versions = texts(ref.name for ref, _ in asked), bigints(version for _, version in asked)
    told: dict[tuple[str, datetime], int] = {}
    with binary_cursor() as cursor:
        rows = cursor.run(_AS_IT_WAS, (names, versions, CLUSTER)).fetchall()
    for name, document, before in rows:
        for moment in record.told_at(document):
            told[name, moment] = max(before, told.get((name, moment), 0))
    clusters, times = texts(name for name, _ in told), moments(moment for _, moment in told)
    return _lines(_AROUND, (clusters, times, bigints(told.values()), CLUSTER, MOST_CHANGES, WRITTEN_WITHIN))


def _lines(query: str, params: Iterable[Any]) -> list[Change]:
    """Return lines of the log; bindings, Works and clusters are kept as they are served."""
    with binary_cursor() as cursor:
        rows = cursor.run(query, tuple(params)).fetchall()
    return [
        Change(version, type_, Ref(kind, namespace, name), document, old, actor, reason, cause, at)
        for version, type_, kind, namespace, name, document, old, actor, reason, cause, at in rows
    ]
