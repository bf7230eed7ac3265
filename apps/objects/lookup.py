"""What is stored under references, and which of them moved: queries, and what their answers say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from apps.objects.arrays import Array, BinaryCursor, bigints, texts
from apps.objects.tables import ObjectTable, object_table, read, row_table
from controlplane.apimachinery.meta import Object, Ref
from controlplane.engine.decision import EVERY, CapacityGuard
from controlplane.kinds.rows import CapacityReservation

Stored = Mapping[Ref, Object | None]
Query = tuple[str, Sequence[Any]]


def moved_queries(expected: Stored) -> list[Query]:
    """Return the queries for what is not at the version expected (None: expected absent)."""
    found: list[Query] = []
    for table, refs in by_table(expected):
        versions = [None if (one := expected[ref]) is None else int(one.metadata.resource_version or 0) for ref in refs]
        found.append((table.moved, (*pack_refs(refs), bigints(versions))))
    return found


def moved_from(answers: Iterable[Iterable[Any]]) -> dict[Ref, Object | None]:
    """Return what is stored under the references that moved."""
    return {
        Ref(kind, namespace, name): None if doc is None else read(kind, doc)
        for rows in answers
        for kind, namespace, name, doc in rows
    }


def generation_queries(refs: Iterable[Ref]) -> list[Query]:
    """Return the queries for generations; for EVERY object of a kind the newest version among them stands for one."""
    refs = list(refs)
    found: list[Query] = [
        (table.generations, pack_refs(some)) for table, some in by_table(ref for ref in refs if ref.name != EVERY)
    ]
    if whole := [ref for ref in refs if ref.name == EVERY]:
        named = "SELECT %s::text, %s::text, %s::text, max(resource_version)"
        newest = [f"{named} FROM {object_table(ref.kind).name} WHERE kind = %s HAVING count(*) > 0" for ref in whole]
        found.append((" UNION ALL ".join(newest), [text for ref in whole for text in (*ref, ref.kind)]))
    return found


def generations_from(refs: Iterable[Ref], answers: Iterable[Iterable[Any]]) -> dict[Ref, int | None]:
    """Return the generation of each reference, None where nothing is stored."""
    found: dict[Ref, int | None] = dict.fromkeys(refs)
    found |= {Ref(kind, ns, name): generation for rows in answers for kind, ns, name, generation in rows}
    return found


def promised_query(rooms: Sequence[CapacityGuard], *, by: str) -> Query:
    """Return the query for what others than one controller have promised since a ledger was read, on the clusters that
    decisions made from it have taken room on."""
    query = f"""
        SELECT cluster, number, replicas, request FROM {row_table(CapacityReservation).name}
        WHERE number > %s AND writer <> %s AND cluster = ANY(%s)"""
    return query, (min(room.seen for room in rooms), by, texts({room.cluster for room in rooms}))


def load(cursor: BinaryCursor, refs: Iterable[Ref]) -> dict[Ref, Object | None]:
    """Return what is stored under references, None where nothing is. One query per table."""
    found: dict[Ref, Object | None] = dict.fromkeys(refs)
    for table, some in by_table(list(found)):
        for kind, namespace, name, doc in cursor.run(table.fetch, pack_refs(some)):
            found[Ref(kind, namespace, name)] = read(kind, doc)
    return found


def by_table(refs: Iterable[Ref]) -> list[tuple[ObjectTable, list[Ref]]]:
    """Return references grouped by the table that keeps them."""
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
