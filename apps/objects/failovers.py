"""The records of failovers (FailoverRecord), computed from the change log by `controlplane.insight.record`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from msgspec.structs import replace

from apps.objects.apply import binary_cursor
from apps.objects.arrays import bigints, moments, texts
from apps.objects.models import BEGINS_FAILOVER
from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import Change
from controlplane.insight import record
from controlplane.kind import KINDS, decode
from controlplane.kinds import BINDINGS, CLUSTER, WORK
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.failover_record import FailoverRecord

MOST_CHANGES = 20_000  # changes that are read for one binding, and for a page of several bindings together
MOST_BINDINGS = 500  # bindings of one page; a list without pages covers those that failed over last
LAST = 2**63 - 1  # higher than every version

_HOME = f"CASE namespace WHEN '' THEN '{record.EVENTS_NAMESPACE}' ELSE namespace END"
_REASONS = ", ".join(f"'{reason}'" for reason in BEGINS_FAILOVER)
_KINDS = ", ".join(f"'{kind}'" for kind in BINDINGS)
# The bindings that failed over, how often, and when last. The query repeats the condition of the index
# changelog_failovers and is answered from it. `lines`: the number of changes of each binding, at most MOST_CHANGES.
_FAILED_OVER = f"""
    SELECT kind, namespace, name, home, times, lines.number, in_all FROM (
        SELECT kind, namespace, name, home, times, latest, count(*) OVER () AS in_all FROM (
            SELECT kind, namespace, name, {_HOME} AS home, count(*) AS times, max(version) AS latest
            FROM objects_changelog
            WHERE type = 'MODIFIED' AND reason IN ({_REASONS}) AND kind IN ({_KINDS})
            GROUP BY kind, namespace, name) moved
        WHERE (%s = '' OR home = %s) AND (home, name) >= (%s, %s)
        ORDER BY {{order}} LIMIT %s) found
    CROSS JOIN LATERAL (SELECT count(*) AS number FROM (
        SELECT 1 FROM objects_changelog line
        WHERE line.kind = found.kind AND line.namespace = found.namespace AND line.name = found.name
        LIMIT %s) most) lines
    ORDER BY {{order}}"""
_ALL = _FAILED_OVER.format(order="latest DESC")
_IN_ORDER = _FAILED_OVER.format(order="home, name, kind")
# The old document is read only for the first change of a binding: that of a later change is the document before it.
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
            ORDER BY line.version DESC LIMIT %s) one) found
    ORDER BY version"""
_COMINGS = """
    SELECT one.version, one.type, one.kind, one.namespace, one.name, ''::bytea, NULL, one.actor, one.reason, one.cause,
        one.at
    FROM unnest(%s::text[], %s::text[]) AS asked (namespace, name) CROSS JOIN LATERAL (
        SELECT * FROM objects_changelog line
        WHERE line.kind = %s AND line.namespace = asked.namespace AND line.name = asked.name
            AND line.type IN ('ADDED', 'DELETED')
        ORDER BY line.version DESC LIMIT %s) one"""
_AS_IT_WAS = """
    SELECT line.version, line.type, line.kind, line.namespace, line.name, textsend(line.doc), textsend(line.old_doc),
        line.actor, line.reason, line.cause, line.at FROM (
        SELECT DISTINCT one.version
        FROM unnest(%s::text[], %s::bigint[]) AS asked (name, version) CROSS JOIN LATERAL (
            SELECT version FROM objects_changelog line
            WHERE line.kind = %s AND line.namespace = '' AND line.name = asked.name AND line.version < asked.version
            ORDER BY line.version DESC LIMIT 1) one) was
    JOIN objects_changelog line ON line.version = was.version"""
_AROUND = """
    SELECT DISTINCT ON (version) line.version, type, kind, namespace, line.name, textsend(doc), textsend(old_doc),
        actor, reason, cause, line.at
    FROM unnest(%s::text[], %s::timestamptz[]) AS asked (name, at)
    JOIN objects_changelog line ON line.kind = %s AND line.namespace = '' AND line.name = asked.name
        AND line.at >= asked.at AND line.at < asked.at + %s
    ORDER BY version"""


class Place(NamedTuple):
    """The position of a record in lists: namespace, binding, and the version with which the failover began."""

    namespace: str = ""
    binding: str = ""
    version: int = 0


class RecordPage(NamedTuple):
    """Records in the order of their positions.

    `after`: the position behind which the next page starts; None: this is the last page. `omissions`: sentences for the
    user about records that the page does not contain.
    """

    records: Sequence[FailoverRecord]
    after: Place | None = None
    omissions: tuple[str, ...] = ()


class _FailedOver(NamedTuple):
    """A binding that failed over.

    `home`: the namespace of its records. `times`: about how many records there are. `lines`: the number of its changes,
    at most MOST_CHANGES. `in_all`: the number of bindings in the whole list.
    """

    ref: Ref
    home: str
    times: int
    lines: int
    in_all: int

    @property
    def place(self) -> tuple[str, str]:
        """Return the namespace and the binding of its records."""
        return self.home, self.ref.name


def before(binding: Ref) -> Binding | None:
    """Return a binding as it was before its latest failover; None: the change log has no failover of it."""
    return record.binding_before_failover(_changes([binding]))


def of_binding(binding: Ref) -> Sequence[FailoverRecord]:
    """Return the failovers of a binding, oldest first. Four queries: see `_signs`."""
    return _records([binding])


def of_bindings(bindings: Sequence[Ref], *, most_changes: int) -> Sequence[FailoverRecord]:
    """Return the failovers of bindings, each from at most `most_changes` of its newest changes. Four queries."""
    return _records(bindings, most_changes=most_changes)


def of_fleet(*, namespace: str = "") -> RecordPage:
    """Return the failovers of the bindings that failed over last, as one page. Five queries.

    `namespace` "": all namespaces. Records of cluster-scoped bindings are in `record.EVENTS_NAMESPACE`. The page covers
    at most MOST_BINDINGS bindings, and fewer if they have more than MOST_CHANGES changes together. `omissions` then
    returns a text about what is left out.
    """
    found = _failed_over(_ALL, namespace, Place(), limit=MOST_BINDINGS)
    chosen = _readable(found)
    omissions = _shortened(chosen)
    if found and len(chosen) < found[0].in_all:
        omissions = (
            f"this list covers the {len(chosen)} bindings that failed over last, of {found[0].in_all} on record: "
            "list with limit=500 and follow continue to get all of them",
            *omissions,
        )
    return RecordPage(sorted(_records([item.ref for item in chosen]), key=place_of), omissions=omissions)


def page(*, namespace: str = "", after: Place | None = None, limit: int) -> RecordPage:
    """Return at most `limit` of all failovers in the change log, those behind a position. Five queries.

    As with every list, a page may have fewer records than `limit` although more follow.
    """
    start = Place() if after is None else after
    most = min(limit, MOST_BINDINGS)
    found = _failed_over(
        _IN_ORDER, namespace, start, limit=most + 4
    )  # the first and the last position may each stand for two kinds of binding
    if start.version == LAST:
        found = [item for item in found if item.place != start[:2]]
    chosen = _readable(found, limit=limit, start=start)
    records = sorted(
        (entry for entry in _records([entry.ref for entry in chosen]) if place_of(entry) > start), key=place_of
    )
    if len(records) > limit:
        return RecordPage(records[:limit], place_of(records[limit - 1]), _shortened(chosen))
    more = len(chosen) < len(found)
    return RecordPage(records, Place(*chosen[-1].place, LAST) if more else None, _shortened(chosen))


def _readable(found: Sequence[_FailedOver], *, limit: int = LAST, start: Place | None = None) -> list[_FailedOver]:
    """Return the first bindings: as many as `limit` records need, with at most MOST_CHANGES changes together.

    The first binding is always taken. So are both kinds of binding with the same position, because a position does not
    name the kind. The binding at `start` counts for no record, because earlier pages have shown some of its records.
    """
    chosen, lines, times = list[_FailedOver](), 0, 0
    for item in found:
        lines += item.lines
        enough = lines > MOST_CHANGES or times >= limit or len(chosen) > MOST_BINDINGS
        if chosen and enough and item.place != chosen[-1].place:
            break
        chosen.append(item)
        times += 0 if start is not None and item.place == start[:2] else item.times
    return chosen


def _shortened(chosen: Iterable[_FailedOver]) -> tuple[str, ...]:
    """Return a sentence for each binding of which only the newest changes are read."""
    return tuple(
        f"{item.ref} has {MOST_CHANGES} changes or more on record: its failovers before the newest {MOST_CHANGES} "
        "changes are not listed"
        for item in chosen
        if item.lines >= MOST_CHANGES
    )


def place_of(stored: FailoverRecord) -> Place:
    """Return the position of a record in lists."""
    binding, _, version = stored.metadata.name.rpartition(".")
    return Place(stored.metadata.namespace, binding, int(version))


def _failed_over(query: str, namespace: str, after: Place, *, limit: int) -> list[_FailedOver]:
    with binary_cursor() as cursor:
        params = (namespace, namespace, after.namespace, after.binding, limit, MOST_CHANGES)
        rows = cursor.run(query, params).fetchall()
    return [_FailedOver(Ref(kind, space, name), *rest) for kind, space, name, *rest in rows]


def _records(bindings: Sequence[Ref], *, most_changes: int | None = None) -> list[FailoverRecord]:
    """Return the failovers of bindings. Four queries, whatever their number."""
    changes = sorted(_changes(bindings, most=most_changes), key=lambda one: (one.ref, one.version))
    own = [record.failovers(record.decode_changes(lines)) for _, lines in groupby(changes, key=lambda one: one.ref)]
    found = [item for ones in own for item in ones]
    around = record.decode_changes([*_comings(record.related_refs(found)), *_signs(record.clusters_read_before(found))])
    return list(record.records(found, around))


def _changes(refs: Sequence[Ref], *, most: int | None = None) -> list[Change]:
    """Return the newest changes of bindings, each object's in order. `most`: of each; None: MOST_CHANGES."""
    if not refs:
        return []
    kinds, namespaces, names = (texts(column) for column in zip(*refs, strict=True))
    lines = _lines(_OF_BINDINGS, (kinds, namespaces, names, MOST_CHANGES if most is None else most))
    left: dict[Ref, bytes] = {}
    found = []
    for line in lines:
        began = left.get(line.ref, line.old_document)
        found.append(line if began is line.old_document else replace(line, old_document=began))
        left[line.ref] = line.document
    return found


def _comings(refs: Collection[Ref]) -> list[Change]:
    """Return the creations and deletions of Works, without documents. Other changes of Works may be thousands."""
    works = [ref for ref in refs if ref.kind == WORK]
    if not works:
        return []
    spaces, names = texts(ref.namespace for ref in works), texts(ref.name for ref in works)
    return _lines(_COMINGS, (spaces, names, WORK, MOST_CHANGES))


def _signs(asked: Collection[tuple[Ref, int]]) -> list[Change]:
    """Return the changes of clusters that explain why they were evicted from.

    `asked`: clusters, each with the version before which its changes are wanted. A cluster reports its resources every
    few seconds. So its changes are looked up by the times in its conditions and taints at that version, instead of
    reading all of them. Two queries, and one more for each change between False and Unknown before the cluster was
    Ready.
    """
    if not asked:
        return []
    names, versions = texts(ref.name for ref, _ in asked), bigints(version for _, version in asked)
    found = {line.version: line for line in _lines(_AS_IT_WAS, (names, versions, CLUSTER))}
    known = {
        (line.ref.name, moment) for line in found.values() for moment in record.change_times(_cluster(line.document))
    }
    wanted = known
    for _ in range(record.MAX_READY_CHANGES):
        if not wanted:
            break
        clusters, times = texts(name for name, _ in wanted), moments(moment for _, moment in wanted)
        lines = _lines(_AROUND, (clusters, times, CLUSTER, record.WRITTEN_WITHIN))
        found |= {line.version: line for line in lines}
        earlier = {
            (line.ref.name, since)
            for line in lines
            if line.old_document is not None and (since := record.not_ready_since(_cluster(line.old_document)))
        }
        wanted = earlier - known
        known |= wanted
    return list(found.values())


def _cluster(document: bytes) -> Cluster:
    cluster: Cluster = decode(KINDS[CLUSTER], document)
    return cluster


def _lines(query: str, params: Iterable[Any]) -> list[Change]:
    """Return the changes that a query finds. Documents of bindings and clusters are stored as they are served."""
    with binary_cursor() as cursor:
        rows = cursor.run(query, tuple(params)).fetchall()
    return [
        Change(version, type_, Ref(kind, namespace, name), document, old, actor, reason, cause, at)
        for version, type_, kind, namespace, name, document, old, actor, reason, cause, at in rows
    ]
