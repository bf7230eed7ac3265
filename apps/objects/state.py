"""DjangoState: the queries for stored objects and rows. Each method needs a constant number of queries, and each query
uses an index.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from apps.objects import change_log, decoded_clusters, encryption, leases
from apps.objects.apply import binary_cursor
from apps.objects.arrays import texts
from apps.objects.index_pages import index_page
from apps.objects.lookup import known, load, quota_query, used_from
from apps.objects.selecting import (
    LABELS_OF_OLD,
    START,
    any_labels,
    field_conditions,
    label_conditions,
    place_conditions,
)
from apps.objects.tables import object_table, row_table
from controlplane.apimachinery.errors import Expired
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import DELETION_PROTECTED, DELETION_PROTECTED_LABEL
from controlplane.apimachinery.selectors import EVERYTHING, FieldSelectorTerm, LabelSelector
from controlplane.engine.deletion_protection import BLOCKING, DELETED, KEPT, OPEN, PROTECTED, by_deletion_turn
from controlplane.engine.state import NONE_KEEPS, Change, ReservedCapacity, Selection
from controlplane.kind import KINDS
from controlplane.kinds import CLUSTER, OWNER, WORK
from controlplane.kinds.rows import HELD, QUEUED, CapacityReservation, Eviction, QueuePosition, Row

# An expression, so that no query plan walks through all objects of a kind instead of looking up keys. PostgreSQL would
# keep such a plan if it was made while the table was small.
_OF_KIND = "(kind || '') = %s"


class Document(NamedTuple):
    """An object as it is served. `text` is its JSON."""

    namespace: str
    name: str
    text: str


class DjangoState:
    """The State protocol on PostgreSQL, and the further queries of the API."""

    def _read(self, kind: str, namespace: str, name: str, doc: str, *, unopened: bool = False) -> Any:
        return known(kind, namespace, name, doc, unopened=unopened)

    def get(self, refs: Collection[Ref], *, unopened: bool = False) -> dict[Ref, Any]:
        """`unopened`: values whose key is lost are `Unopened` values, for those who need none of them."""
        with binary_cursor() as cursor:
            found = load(cursor, refs, unopened=unopened, reading=self._read)
        return {ref: obj for ref, obj in found.items() if obj is not None}

    def lease_held_until(self, name: str) -> datetime | None:
        with binary_cursor() as cursor:
            return leases.held_until(cursor, name)

    def list(
        self, kind: str, *, namespace: str = "", after: tuple[str, str] = START, limit: int = 0, unopened: bool = False
    ) -> Sequence[Any]:
        found = self._stored(kind, namespace=namespace, after=after, limit=limit)
        if kind == CLUSTER and not limit and after == START:
            return decoded_clusters.listed((item.name, item.text) for item in found)
        return [self._read(kind, item.namespace, item.name, item.text, unopened=unopened) for item in found]

    def refs(
        self,
        kind: str,
        *,
        namespace: str = "",
        name: str = "",
        any_of: Sequence[LabelSelector] = (),
        undeleted: bool = False,
        after: tuple[str, str] = START,
        limit: int,
    ) -> Sequence[Ref]:
        conditions, params = place_conditions(kind, namespace, after)
        if name:
            conditions.append("name = %s")
            params.append(name)
        if undeleted:
            conditions.append("deletion_timestamp IS NULL")
        if any_of:
            condition, values = any_labels(any_of)
            conditions.append(condition)
            params += values
        query = f"""
            SELECT namespace, name FROM {object_table(kind).name}
            WHERE {" AND ".join(conditions)} ORDER BY namespace, name LIMIT %s"""
        with binary_cursor() as cursor:
            return [Ref(kind, *place) for place in cursor.run(query, (*params, limit))]

    def by_index(self, kind: str, index: str, values: Collection[str], *, limit: int = 0) -> dict[str, Sequence[Any]]:
        _declared(kind, index)
        first = " ORDER BY namespace, name LIMIT %s" if limit else ""
        query = f"""
            SELECT w.value, o.namespace, o.name, o.doc FROM unnest(%s) AS w(value)
            CROSS JOIN LATERAL (
                SELECT namespace, name, doc FROM {object_table(kind).name}
                WHERE {_OF_KIND} AND keys @> ARRAY['{index}=' || w.value]{first}
            ) o ORDER BY o.namespace, o.name"""
        seen: dict[tuple[str, str], Any] = {}
        found: dict[str, Any] = {}
        with binary_cursor() as cursor:
            params = (texts(set(values)), kind, limit) if limit else (texts(set(values)), kind)
            for value, namespace, name, doc in cursor.run(query, params):
                place = (namespace, name)
                if place not in seen and kind == CLUSTER:
                    seen[place] = decoded_clusters.as_far_as_readable(name, doc)
                elif place not in seen:
                    seen[place] = self._read(kind, *place, doc)
                found.setdefault(value, []).append(seen[place])
        return found

    def refs_by_index(
        self, kind: str, index: str, value: str | Collection[str], *, after: tuple[str, str] = START, limit: int = 1000
    ) -> Sequence[Ref]:
        _declared(kind, index)
        values = (value,) if isinstance(value, str) else value
        wanted, last, table = texts([f"{index}={item}" for item in values]), Ref(kind, *after), object_table(kind).name
        far = f"""
            SELECT kind, namespace, name FROM {table}
            WHERE {_OF_KIND} AND keys && %s AND (namespace, name) > (%s, %s) {{rarely}}
            ORDER BY namespace, name LIMIT %s"""
        with binary_cursor() as cursor:
            return [
                Ref(*row) for row in index_page(cursor, table, "", far, (kind, wanted, *after), last, wanted, limit)
            ]

    def page_by_index(
        self, kinds: Sequence[str], index: str, values: Collection[str], *, after: Ref | None = None, limit: int = 1000
    ) -> Sequence[Any]:
        (table,) = {object_table(kind).name for kind in kinds}
        for kind in kinds:
            _declared(kind, index)
        far = f"""
            SELECT o.kind, o.namespace, o.name, o.doc FROM (
                SELECT id, (kind || '') AS of, namespace, name FROM {table}
                WHERE (kind || '') = ANY(%s) AND keys && %s AND ((kind || ''), namespace, name) > (%s, %s, %s)
                {{rarely}} ORDER BY (kind || ''), namespace, name LIMIT %s
            ) AS page JOIN {table} o ON o.id = page.id"""  # without documents, so that what is sorted fits in memory
        wanted, last = texts([f"{index}={value}" for value in values]), after or Ref("", *START)
        with binary_cursor() as cursor:
            rows = index_page(cursor, table, ", doc", far, (texts(kinds), wanted, *last), last, wanted, limit)
            return [self._read(*row, unopened=True) for row in rows]

    def count_by_index(self, kind: str, index: str, value: str, *, after: tuple[str, str] = START) -> int:
        _declared(kind, index)
        query = f"""
            SELECT count(*) FROM {object_table(kind).name}
            WHERE {_OF_KIND} AND keys @> %s AND (namespace, name) > (%s, %s)"""
        with binary_cursor() as cursor:
            return int(_scalar(cursor.run(query, (kind, texts([f"{index}={value}"]), *after)).fetchone()))

    def selected(self, selections: Collection[Selection]) -> dict[Selection, Sequence[Any]]:
        asked = list(dict.fromkeys(selections))
        parts: list[str] = []
        params: list[Any] = []
        for number, selection in enumerate(asked):
            conditions, values = ["kind = %s", "namespace = %s"], [selection.kind, selection.namespace]
            for condition, value in label_conditions(selection.labels):
                conditions.append(condition)
                values.append(value)
            table = object_table(selection.kind).name
            parts.append(f"SELECT {number}, kind, namespace, name, doc FROM {table} WHERE {' AND '.join(conditions)}")
            params += values
        found: dict[Selection, list[Any]] = {}
        if parts:
            with binary_cursor() as cursor:
                query = f"{' UNION ALL '.join(parts)} ORDER BY 1, namespace, name"
                for number, kind, namespace, name, doc in cursor.run(query, params):
                    found.setdefault(asked[number], []).append(self._read(kind, namespace, name, doc))
        return dict(found)

    def owned(
        self, owners: Collection[str], *, keeping: Mapping[str, str] = NONE_KEEPS, limit: int
    ) -> dict[str, Sequence[Any]]:
        tables = sorted(
            {object_table(kind.key).name for kind in KINDS if any(index.name == OWNER for index in kind.indexes)}
        )
        found: dict[str, list[Any]] = {}
        asked = sorted(set(owners))
        turn = f"""CASE WHEN deletion_timestamp IS NOT NULL
                OR '{DELETION_PROTECTED_LABEL}={DELETION_PROTECTED}' = ANY(labels)
            THEN CASE WHEN position('"blockOwnerDeletion":true' IN doc) > 0 THEN {BLOCKING}
                WHEN deletion_timestamp IS NOT NULL THEN {DELETED} ELSE {PROTECTED} END
            WHEN w.uid <> '' AND position('"uid":"' || w.uid || '"' IN doc) > 0 THEN {KEPT} ELSE {OPEN} END"""
        for table in tables:
            query = f"""
                SELECT w.value, o.kind, o.namespace, o.name, o.doc FROM unnest(%s, %s) AS w(value, uid)
                CROSS JOIN LATERAL (
                    SELECT kind, namespace, name, doc FROM {table}
                    WHERE keys @> ARRAY['{OWNER}=' || w.value]
                    ORDER BY {turn}, (kind || ''), namespace, name LIMIT %s
                ) o"""
            with binary_cursor() as cursor:
                params = (texts(asked), texts([keeping.get(owner, "") for owner in asked]), limit)
                for value, kind, namespace, name, doc in cursor.run(query, params):
                    owned = self._read(kind, namespace, name, doc, unopened=True)
                    found.setdefault(value, []).append(owned)  # they are only deleted
        return {owner: by_deletion_turn(ones, kept_by=keeping.get(owner, ""))[:limit] for owner, ones in found.items()}

    def rows(
        self, type_: type[Row], index: str, values: Collection[str], *, known: Collection[Any] = ()
    ) -> dict[str, Sequence[Any]]:
        table, found = row_table(type_), dict[str, Any]()
        params = (texts(values), texts([row.key for row in known])) if known else (texts(values),)
        with binary_cursor() as cursor:
            others = [table.read(record) for record in cursor.run(table.select(index, others=bool(known)), params)]
        by_key = {row.key: row for row in (*known, *others)}
        for key in sorted(by_key) if known else by_key:
            found.setdefault(getattr(by_key[key], index), []).append(by_key[key])
        return found

    def values(self, type_: type[Row], index: str) -> Collection[str]:
        name, column = row_table(type_).name, row_table(type_).indexed(index)
        # Goes from each value to the next by the index: many rows have few distinct values.
        query = f"""
            WITH RECURSIVE found AS (
                (SELECT {column} AS value FROM {name} ORDER BY {column} LIMIT 1)
                UNION ALL
                SELECT o.value FROM found f CROSS JOIN LATERAL (
                    SELECT {column} AS value FROM {name} WHERE {column} > f.value ORDER BY {column} LIMIT 1
                ) o
            )
            SELECT value FROM found"""
        with binary_cursor() as cursor:
            return {value for (value,) in cursor.run(query)}

    def queue_heads(self, *, limit: int, per_cluster: bool = False) -> Sequence[Any]:
        table = row_table(Eviction)
        queues, among = (_queues(table.name), "cluster = t.cluster AND") if per_cluster else (_tiers(table.name), "")
        share = "(SELECT greatest(1, %s / greatest(1, count(DISTINCT cluster))) FROM tiers)" if per_cluster else "%s"
        query = f"""
            {queues}
            SELECT e.* FROM tiers t CROSS JOIN LATERAL (
                SELECT {table.columns} FROM {table.name}
                WHERE state = '{QUEUED}' AND due_at IS NOT NULL AND {among} priority = t.priority
                ORDER BY due_at, key LIMIT {share}
            ) e ORDER BY e.priority DESC, e.due_at, e.key"""
        with binary_cursor() as cursor:
            return [table.read(record) for record in cursor.run(query, (limit,))]

    def held_evictions(self, *, after: QueuePosition | None, limit: int) -> Sequence[Any]:
        table = row_table(Eviction)
        beyond = "" if after is None else "AND (-priority, due_at, key) > (-%s::bigint, %s, %s)"
        query = f"""
            SELECT {table.columns} FROM {table.name} WHERE state = '{HELD}' AND due_at IS NOT NULL {beyond}
            ORDER BY priority DESC, due_at, key LIMIT %s"""
        with binary_cursor() as cursor:
            return [table.read(record) for record in cursor.run(query, (*(after or ()), limit))]

    def queued_between(self, begin: datetime, end: datetime, *, after: str, limit: int) -> Sequence[Any]:
        table = row_table(Eviction)
        query = f"""
            SELECT {table.columns} FROM {table.name}
            WHERE state = '{QUEUED}' AND due_at IS NOT NULL AND queued_at >= %s AND queued_at < %s AND key > %s
            ORDER BY key LIMIT %s"""
        with binary_cursor() as cursor:
            return [table.read(record) for record in cursor.run(query, (begin, end, after, limit))]

    def next_eviction(self) -> datetime | None:
        name = row_table(Eviction).name
        query = f"""
            {_tiers(name)}
            SELECT min(e.due_at) FROM tiers t CROSS JOIN LATERAL (
                SELECT due_at FROM {name} WHERE state = '{QUEUED}' AND due_at IS NOT NULL AND priority = t.priority
                ORDER BY due_at LIMIT 1
            ) e"""
        with binary_cursor() as cursor:
            return _scalar(cursor.run(query).fetchone())

    def evictions_by_cluster(self) -> dict[str, int]:
        name = row_table(Eviction).name
        query = f"SELECT cluster, count(*) FROM {name} WHERE due_at IS NOT NULL GROUP BY cluster ORDER BY cluster"
        with binary_cursor() as cursor:
            return dict(cursor.run(query).fetchall())

    def quota_use(self, namespaces: Collection[str]) -> dict[str, dict[str, int]]:
        with binary_cursor() as cursor:
            return used_from(cursor.run(*quota_query(namespaces)))

    def reserved_capacity(
        self, *, within: timedelta, bindings: Collection[str] = (), totals: bool = True
    ) -> ReservedCapacity:
        table = row_table(CapacityReservation)
        # One statement reads one state of the database: the totals contain the reservations that are returned for the
        # bindings, and all reservations up to the newest number.
        at = f"statement_timestamp(), (SELECT coalesce(max(number), 0) FROM {table.name})"
        sums = f"""
            SELECT NULL, NULL, cluster, sum(replicas)::bigint, request, NULL, NULL, NULL, NULL, {at}
            FROM {table.name} WHERE made_at > statement_timestamp() - %s GROUP BY cluster, request
            UNION ALL"""
        query = f"""
            SELECT {table.columns}, {at} FROM {table.name} WHERE binding = ANY(%s)
            UNION ALL{sums if totals else ""}
            SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, {at}
            ORDER BY key, cluster, request"""
        summed: list[tuple[str, str, int]] = []
        own: dict[str, list[CapacityReservation]] = {}
        with binary_cursor() as cursor:
            records = cursor.run(query, (texts(bindings), *([within] if totals else []))).fetchall()
        for *record, _, _ in records:
            key, binding, cluster, replicas, request, *_ = record
            if cluster is None:
                continue
            if key is None:
                summed.append((cluster, request, replicas))
            else:
                own.setdefault(binding, []).append(table.read(record))
        *_, at_, seen = records[0]
        return ReservedCapacity(summed, own, at_, seen)

    def kinds_on_members(self) -> Collection[tuple[str, str, str]]:
        name = object_table(WORK).name
        columns = "cluster, manifest_api_version, manifest_kind"
        # Goes from each distinct value to the next by the index: there are few kinds and many Works.
        query = f"""
            WITH RECURSIVE found AS (
                (SELECT {columns} FROM {name} ORDER BY {columns} LIMIT 1)
                UNION ALL
                SELECT o.* FROM found f CROSS JOIN LATERAL (
                    SELECT {columns} FROM {name}
                    WHERE ({columns}) > (f.cluster, f.manifest_api_version, f.manifest_kind)
                    ORDER BY {columns} LIMIT 1
                ) o
            )
            SELECT {columns} FROM found WHERE cluster <> ''"""
        with binary_cursor() as cursor:
            return {(cluster, version, kind) for cluster, version, kind in cursor.run(query)}

    def works_of(self, key: tuple[str, str, str]) -> Sequence[Ref]:
        query = f"""
            SELECT namespace, name FROM {object_table(WORK).name}
            WHERE cluster = %s AND manifest_api_version = %s AND manifest_kind = %s ORDER BY namespace, name"""
        with binary_cursor() as cursor:
            return [Ref(WORK, namespace, name) for namespace, name in cursor.run(query, key)]

    # Queries of the API

    def documents(
        self,
        kind: str,
        *,
        namespace: str = "",
        after: tuple[str, str] = START,
        limit: int = 0,
        labels: LabelSelector = EVERYTHING,
        fields: Sequence[FieldSelectorTerm] = (),
    ) -> Sequence[Document]:
        """Return documents as they are served, ordered by (namespace, name), from behind `after`. `limit` 0: all.

        `fields`: only the terms of metadata.name and metadata.namespace count. The caller checks the other terms.
        """
        found = self._stored(kind, namespace=namespace, after=after, limit=limit, labels=labels, fields=fields)
        return _opened(kind, found)

    def _stored(
        self,
        kind: str,
        *,
        namespace: str = "",
        after: tuple[str, str] = START,
        limit: int = 0,
        labels: LabelSelector = EVERYTHING,
        fields: Sequence[FieldSelectorTerm] = (),
    ) -> Sequence[Document]:
        """Return documents as they are stored, with the values of Secrets encrypted."""
        conditions, params = place_conditions(kind, namespace, after)
        for condition, value in (*label_conditions(labels), *field_conditions(fields)):
            conditions.append(condition)
            params.append(value)
        query = f"""
            SELECT namespace, name, doc FROM {object_table(kind).name}
            WHERE {" AND ".join(conditions)} ORDER BY namespace, name{" LIMIT %s" if limit else ""}"""
        with binary_cursor() as cursor:
            return [Document(*row) for row in cursor.run(query, (*params, limit) if limit else params)]

    def list_at(
        self,
        kind: str,
        *,
        version: int,
        namespace: str = "",
        after: tuple[str, str] = START,
        limit: int = 0,
        labels: LabelSelector = EVERYTHING,
        fields: Sequence[FieldSelectorTerm] = (),
        opening: encryption.Opening = encryption.opened,
    ) -> Sequence[Document]:
        """Return documents as they were served at a version, so that all pages of a list show the state of the first.

        `labels` and `fields` are those of `documents`: the labels that the objects had then. `opening`: how Secrets are
        decrypted. Raises Expired if the change log no longer contains all changes since that version.
        """
        conditions, params = place_conditions(kind, namespace, after)
        for condition, value in field_conditions(fields):
            conditions.append(condition)
            params.append(value)
        where, of_labels = " AND ".join(conditions), label_conditions(labels)
        chosen = "".join(f" AND {condition}" for condition, _ in of_labels)
        values = [value for _, value in of_labels]
        then = LABELS_OF_OLD if chosen else ""
        ending = " LIMIT %s" if limit else ""
        query = f"""
            SELECT namespace, name, doc FROM (
                (SELECT namespace, name, doc FROM {object_table(kind).name}
                 WHERE {where} AND resource_version <= %s{chosen} ORDER BY namespace, name{ending})
                UNION ALL
                (SELECT namespace, name, old_doc AS doc FROM (
                    SELECT DISTINCT ON (namespace, name) namespace, name, old_doc FROM {change_log.TABLE}
                    WHERE {where} AND version > %s ORDER BY namespace, name, version
                 ) undone{then} WHERE old_doc IS NOT NULL{chosen})
            ) found ORDER BY namespace, name{ending}"""
        each = (*params, version, *values, *([limit] if limit else []))  # of both parts of the UNION
        with binary_cursor() as cursor:
            documents = [Document(*row) for row in cursor.run(query, (*each, *each))]
            if version < change_log.oldest(cursor):
                raise Expired(
                    f"the list was started at resourceVersion {version}, and changes before "
                    f"{change_log.oldest(cursor)} are no longer kept; list again without continue"
                )
        return _opened(kind, documents, opening=opening)

    def changes(self, since: int, *, limit: int = 1000) -> Sequence[Change]:
        """Return the changes after a version, in order."""
        with binary_cursor() as cursor:
            return change_log.changes(cursor, since, limit=limit)

    def oldest_version(self) -> int:
        """Return the oldest version from which a watch may start."""
        with binary_cursor() as cursor:
            return change_log.oldest(cursor)

    def current_version(self) -> int:
        """Return the newest version; 0: nothing has been written yet."""
        with binary_cursor() as cursor:
            return _scalar(cursor.run("SELECT version FROM objects_counter WHERE id = 1").fetchone()) or 0


def _opened(
    kind: str, documents: Sequence[Document], *, opening: encryption.Opening = encryption.opened
) -> Sequence[Document]:
    if kind not in encryption.KINDS:
        return documents
    texts = encryption.all_opened(kind, (document.text for document in documents), opening=opening)
    return [document._replace(text=text) for document, text in zip(documents, texts, strict=True)]


def _scalar(row: Sequence[Any] | None) -> Any:
    return None if row is None else row[0]


def _tiers(table: str) -> str:
    """Return the start of a query: the distinct priorities of queued evictions, each found by the index."""
    return f"""
            WITH RECURSIVE tiers AS (
                (SELECT priority FROM {table} WHERE state = '{QUEUED}' AND due_at IS NOT NULL
                 ORDER BY priority LIMIT 1)
                UNION ALL
                SELECT o.priority FROM tiers t CROSS JOIN LATERAL (
                    SELECT priority FROM {table}
                    WHERE state = '{QUEUED}' AND due_at IS NOT NULL AND priority > t.priority
                    ORDER BY priority LIMIT 1
                ) o
            )"""


def _queues(table: str) -> str:
    """Return the start of a query: the distinct clusters and priorities of queued evictions, found by the index."""
    return f"""
            WITH RECURSIVE tiers AS (
                (SELECT cluster, priority FROM {table} WHERE state = '{QUEUED}' AND due_at IS NOT NULL
                 ORDER BY cluster, priority LIMIT 1)
                UNION ALL
                SELECT o.* FROM tiers t CROSS JOIN LATERAL (
                    SELECT cluster, priority FROM {table}
                    WHERE state = '{QUEUED}' AND due_at IS NOT NULL AND (cluster, priority) > (t.cluster, t.priority)
                    ORDER BY cluster, priority LIMIT 1
                ) o
            )"""


def _declared(kind: str, index: str) -> None:
    known = KINDS[kind]
    assert any(item.name == index for item in known.indexes), f"{kind} declares no index {index}"
