"""Queries for stored objects by reference, and for the changes since they were read; and how their answers are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from apps.objects import decoded_clusters
from apps.objects.arrays import Array, BinaryCursor, bigints, texts
from apps.objects.tables import ObjectTable, object_table, read, row_table
from controlplane.apimachinery.meta import Object, Ref
from controlplane.engine.decision import EVERY, CapacityGuard, Guard
from controlplane.kinds import CLUSTER
from controlplane.kinds.rows import CapacityReservation

Stored = Mapping[Ref, Object | None]
Query = tuple[str, Sequence[Any]]


def moved_queries(expected: Stored) -> list[Query]:
    """Return the queries for objects that are not stored at the expected version. None: no object is expected."""
    queries: list[Query] = []
    for table, refs in by_table(expected):
        queries.append((table.moved, (*pack_refs(refs), bigints(map(_version, map(expected.get, refs))))))
    return queries


def moved_from(answers: Iterable[Iterable[Any]]) -> dict[Ref, Object | None]:
    """Return the objects that `moved_queries` found, as they are now; None: the object does not exist."""
    return {
        Ref(kind, namespace, name): None if doc is None else read(kind, doc, unopened=True)
        for rows in answers
        for kind, namespace, name, doc in rows
    }


def generation_queries(refs: Iterable[Ref]) -> list[Query]:
    """Return the queries for the generations of objects.

    A reference with the name EVERY stands for all objects of its kind. Its generation is the newest version among them.
    """
    refs = list(refs)
    queries: list[Query] = [
        (table.generations, pack_refs(some)) for table, some in by_table(ref for ref in refs if ref.name != EVERY)
    ]
    if whole_kinds := [ref for ref in refs if ref.name == EVERY]:
        select = "SELECT %s::text, %s::text, %s::text, max(resource_version)"
        newest = [
            f"{select} FROM {object_table(ref.kind).name} WHERE kind = %s HAVING count(*) > 0" for ref in whole_kinds
        ]
        queries.append((" UNION ALL ".join(newest), [text for ref in whole_kinds for text in (*ref, ref.kind)]))
    return queries


def assumption_queries(expected: Stored, guards: Iterable[Guard]) -> list[Query]:
    """Return the statements that fail if an object is not at its expected version, or a guard is not met."""
    queries: list[Query] = []
    for table, refs in by_table(expected):
        queries.append((table.unmoved, (*pack_refs(refs), bigints(map(_version, map(expected.get, refs))))))
    on_one: dict[ObjectTable, list[Guard]] = {}
    on_all: list[Guard] = []
    for guard in guards:
        if guard.ref.name == EVERY:
            on_all.append(guard)
        else:
            on_one.setdefault(object_table(guard.ref.kind), []).append(guard)
    for table, some in on_one.items():
        generations = bigints([guard.generation for guard in some])
        queries.append((table.same_generations, (*pack_refs([guard.ref for guard in some]), generations)))
    if on_all:
        on_all.sort(key=lambda guard: guard.ref)  # the same kinds make the same statement
        changed = " + ".join(object_table(guard.ref.kind).newest_changed for guard in on_all)
        params = [value for guard in on_all for value in (guard.ref.kind, guard.generation)]
        queries.append((f"SELECT objects_assumed('whole kinds', {changed})", params))
    return queries


def _version(obj: Object | None) -> int | None:
    return None if obj is None else int(obj.metadata.resource_version or 0)


def generations_from(refs: Iterable[Ref], answers: Iterable[Iterable[Any]]) -> dict[Ref, int | None]:
    """Return the generation of each reference; None: no object is stored under it."""
    generations: dict[Ref, int | None] = dict.fromkeys(refs)
    generations |= {Ref(kind, ns, name): generation for rows in answers for kind, ns, name, generation in rows}
    return generations


def reserved_query(guards: Sequence[CapacityGuard], *, by: str) -> Query:
    """Return the query for capacity that other controllers than `by` have reserved since `by` read the ledger.

    Only the clusters of the guards are looked at: the decisions of `by` rely on their capacity.
    """
    query = f"""
        SELECT cluster, number, replicas, request FROM {row_table(CapacityReservation).name}
        WHERE number > %s AND writer <> %s AND cluster = ANY(%s)"""
    return query, (min(guard.seen for guard in guards), by, texts({guard.cluster for guard in guards}))


def nothing_reserved_query(guards: Sequence[CapacityGuard], *, by: str) -> Query:
    """Return the statement that fails if `reserved_query` finds something."""
    query, params = reserved_query(guards, by=by)
    return f"SELECT objects_assumed('reservations', (SELECT count(*) FROM ({query}) more))", params


def quota_query(namespaces: Iterable[str]) -> Query:
    """Return the query for what namespaces use of quotas."""
    query = """
        SELECT namespace, resource, amount::text FROM objects_quotause
        WHERE namespace = ANY(%s) AND amount <> 0 ORDER BY namespace, resource"""
    return query, (texts(set(namespaces)),)


def used_from(rows: Iterable[Sequence[Any]]) -> dict[str, dict[str, int]]:
    """Return by namespace what is used, from the rows of `quota_query`."""
    found: dict[str, dict[str, int]] = {}
    for namespace, resource, amount in rows:
        found.setdefault(namespace, {})[resource] = int(amount)
    return found


def known(kind: str, namespace: str, name: str, doc: str, *, unopened: bool = False) -> Any:
    """Return the object of a stored document as `tables.read` does. A Cluster need not be decoded again."""
    return decoded_clusters.single(name, doc) if kind == CLUSTER else read(kind, doc, unopened=unopened)


def load(
    cursor: BinaryCursor, refs: Iterable[Ref], *, unopened: bool, reading: Callable[..., Any] = known
) -> dict[Ref, Object | None]:
    """Return the objects of references; None: no object is stored. One query for each table.

    `unopened`: see `tables.read`. `reading`: what makes an object of a document, as `known` does.
    """
    objects: dict[Ref, Object | None] = dict.fromkeys(refs)
    for table, some in by_table(list(objects)):
        for kind, namespace, name, doc in cursor.run(table.fetch, pack_refs(some)):
            objects[Ref(kind, namespace, name)] = reading(kind, namespace, name, doc, unopened=unopened)
    return objects


def look(cursor: BinaryCursor, ref: Ref) -> tuple[Any, datetime]:
    """Return an object (None: it is not stored) and the database's time. One query. A value whose key is lost is an
    `Unopened` value in it."""
    row = cursor.run(object_table(ref.kind).look, ref).fetchone()
    assert row is not None
    return None if row[1] is None else read(ref.kind, row[1], unopened=True), row[0]


def by_table(refs: Iterable[Ref]) -> list[tuple[ObjectTable, list[Ref]]]:
    """Return references in groups, each with the table of their objects."""
    groups: dict[ObjectTable, list[Ref]] = {}
    for ref in refs:
        groups.setdefault(object_table(ref.kind), []).append(ref)
    return list(groups.items())


def pack_refs(refs: Sequence[Ref]) -> list[Array]:
    """Return references as three packed columns."""
    return [
        texts([ref.kind for ref in refs]),
        texts([ref.namespace for ref in refs]),
        texts([ref.name for ref in refs]),
    ]
