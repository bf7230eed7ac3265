"""Compares derived values with the documents that they are derived from, and writes them again where they differ.

The document of an object is the truth. Columns, index keys, labels and child rows repeat parts of it, the use of quotas
is a sum over bindings, tallies are numbers of rows, and a due row has a number that its reference gives. All of them
are written in one transaction with the document. So a difference comes from a defect, from processes of two versions
that ran beside each other, or from a write to the database by hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from django.db import connection, transaction

from apps.objects import due, tally_checks
from apps.objects.apply import binary_cursor
from apps.objects.arrays import BinaryCursor, shown, texts
from apps.objects.definitions import definitions
from apps.objects.encryption import decrypted
from apps.objects.statements import index_keys, joined, label_keys
from apps.objects.store import DjangoStore
from apps.objects.tables import SEPARATOR, ChildTable, ObjectTable, object_table, object_tables, read
from controlplane.apimachinery.meta import Object, Ref
from controlplane.engine.state import Actor, Mark, Unreadable
from controlplane.estimate.quota import use_of
from controlplane.kind import KINDS
from controlplane.kinds import RESOURCE_BINDING

BATCH: Final = 500  # objects that one query reads, and that one transaction repairs
BY: Final = Actor("verify")
DOCUMENT: Final = "doc"
_COMMON: Final = ("uid", "resource_version", "generation", "keys", "labels", "deletion_timestamp", "created_at")

Use = dict[tuple[str, str], int]  # (namespace, resource) → amount


class Difference(NamedTuple):
    """A derived value that is not what its document gives. `of`: the object, the namespace, the controller, or what a
    tally counts."""

    table: str
    of: str
    column: str
    stored: Any
    derived: Any

    def __str__(self) -> str:
        return f"{self.table}: {self.of}: {self.column} is {self.stored!r}, and its document gives {self.derived!r}"


class Found(NamedTuple):
    """Differences, and what is needed to repair them."""

    differences: list[Difference]
    objects: dict[str, list[int]]  # by table, the rows of objects to derive again
    orphans: dict[str, list[str]]  # by child table, owners that do not exist
    namespaces: list[str]  # whose use of quotas is to be counted again
    hashes: dict[int, int]  # by due row, the number of its reference
    tallies: set[str]  # names of what is to be counted again
    uncounted: set[str]  # namespaces whose use is unknown, because a binding there cannot be read


def verify(store: DjangoStore, *, repair: bool = False) -> list[Difference]:
    """Return all differences. `repair`: write the derived values again; what cannot be repaired is not changed.

    Everything is compared in one state of the database, which other processes go on to change. Repaired objects are
    due for every controller that watches them.
    """
    definitions().refresh(at_once=True)
    with transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        found = _compared(store)
    if repair:
        for table in object_tables():
            rows = found.objects.get(table.name, [])
            for start in range(0, len(rows), BATCH):
                _repair_objects(store, table, rows[start : start + BATCH])
        _repair_rest(store, found)
    return found.differences


def _compared(store: DjangoStore) -> Found:
    found = Found([], {}, {}, [], {}, set(), set())
    used: Use = Counter()
    for table in object_tables():
        owners: dict[str, set[str]] = {child.name: set() for child in table.children}
        for batch in _batches(table):
            _compare_batch(table, batch, owners, used, found)
        for child in table.children:
            known = owners[child.name]
            gone = [
                owner for (owner,) in _rows(f"SELECT DISTINCT {child.column} FROM {child.name}") if owner not in known
            ]
            found.differences.extend(Difference(child.name, owner, "rows", "some", "none") for owner in gone)
            if gone:
                found.orphans[child.name] = gone
    _compare_use(used, found)
    _compare_due(store, found)
    for wrong in tally_checks.miscounts():
        of = ", ".join((wrong.counted, *filter(None, wrong.place)))
        found.differences.append(Difference(tally_checks.TABLE, of, "number", wrong.stored, wrong.real))
        found.tallies.add(wrong.counted)
    return found


class _Row(NamedTuple):
    """A stored object as its table has it. `obj` None: its document cannot be read, because of `problem`."""

    id: int
    ref: Ref
    columns: Mapping[str, Any]
    obj: Object | None
    problem: str = ""


def _batches(table: ObjectTable, ids: Collection[int] | None = None) -> Iterator[list[_Row]]:
    """Yield the objects of a table in batches. `ids`: only these, in one batch."""
    names = (*_COMMON, *table.projections)
    select = f"SELECT id, kind, namespace, name, doc, {', '.join(names)} FROM {table.name}"
    if ids is not None:
        yield [_row(record, names) for record in _rows(f"{select} WHERE id = ANY(%s) ORDER BY id", [list(ids)])]
        return
    after = 0
    while records := _rows(f"{select} WHERE id > %s ORDER BY id LIMIT %s", [after, BATCH]):
        yield [_row(record, names) for record in records]
        after = records[-1][0]


def _row(record: Sequence[Any], names: Sequence[str]) -> _Row:
    number, kind, namespace, name, doc, *values = record
    ref, columns = Ref(kind, namespace, name), dict(zip(names, values, strict=True))
    try:
        decrypted(kind, doc)  # so that a Work whose values cannot be read is reported
        obj: Object = read(kind, doc)
    except (Unreadable, ValueError, TypeError, KeyError) as error:
        return _Row(number, ref, columns, None, f"{type(error).__name__}: {error}")
    return _Row(number, ref, columns, obj)


def _derived(table: ObjectTable, obj: Object) -> dict[str, Any]:
    """Return the columns that a document gives."""
    meta = obj.metadata
    found: dict[str, Any] = {
        "uid": meta.uid,
        "resource_version": int(meta.resource_version or 0),
        "generation": meta.generation,
        "keys": _listed(index_keys(KINDS.get(obj.ref.kind), obj)),
        "labels": _listed(label_keys(meta.labels)),
        "deletion_timestamp": meta.deletion_timestamp,
        "created_at": meta.creation_timestamp,
    }
    found |= {name: project(obj) for name, project in table.projections.items()}
    return {name: shown(value) if isinstance(value, str) else value for name, value in found.items()}


def _listed(keys: Sequence[str]) -> list[str]:
    text = joined(keys)
    return text.split(SEPARATOR) if text else []


def _is_equal(column: str, stored: Any, derived: Any) -> bool:
    return sorted(stored) == sorted(derived) if column in ("keys", "labels") else bool(stored == derived)


def _compare_batch(
    table: ObjectTable, batch: Sequence[_Row], owners: Mapping[str, set[str]], used: Use, found: Found
) -> None:
    wrong: list[int] = []
    children = {child.name: _child_rows(child, [child.owner(row.ref) for row in batch]) for child in table.children}
    for row in batch:
        before = len(found.differences)
        if row.obj is None or row.obj.ref != row.ref:
            why = row.problem or f"it is the document of {row.obj and row.obj.ref}"
            found.differences.append(Difference(table.name, str(row.ref), DOCUMENT, "unusable", why))
            if row.ref.kind == RESOURCE_BINDING:
                found.uncounted.add(row.ref.namespace)
            for child in table.children:
                owners[child.name].add(child.owner(row.ref))
            continue
        for column, derived in _derived(table, row.obj).items():
            if not _is_equal(column, row.columns[column], derived):
                found.differences.append(Difference(table.name, str(row.ref), column, row.columns[column], derived))
        for child in table.children:
            owner = child.owner(row.ref)
            owners[child.name].add(owner)
            stored, wanted = children[child.name].get(owner, Counter()), _wanted(child, row.obj)
            if stored != wanted:
                found.differences.append(Difference(child.name, owner, "rows", sorted(stored, key=repr), list(wanted)))
        if row.ref.kind == RESOURCE_BINDING:
            for resource, amount in use_of(row.obj).items():  # type: ignore[arg-type]  # the kind was tested
                used[row.ref.namespace, resource] = used.get((row.ref.namespace, resource), 0) + amount
        if len(found.differences) > before:
            wrong.append(row.id)
    if wrong:
        found.objects.setdefault(table.name, []).extend(wrong)


def _wanted(child: ChildTable, obj: Object) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(shown(value) if isinstance(value, str) else value for value in row) for row in child.rows(obj))


def _child_rows(child: ChildTable, owners: Sequence[str]) -> dict[str, Counter[tuple[Any, ...]]]:
    query = f"SELECT {', '.join((child.column, *child.columns))} FROM {child.name} WHERE {child.column} = ANY(%s)"
    found: dict[str, Counter[tuple[Any, ...]]] = {}
    for owner, *values in _rows(query, [list(owners)]):
        found.setdefault(owner, Counter())[tuple(values)] += 1
    return found


def _compare_use(used: Use, found: Found) -> None:
    stored = {(namespace, resource): int(amount) for namespace, resource, amount in _rows(_USE) if amount}
    wanted = {key: amount for key, amount in used.items() if amount}
    for key in sorted(stored.keys() | wanted.keys()):
        namespace, resource = key
        if stored.get(key, 0) != wanted.get(key, 0) and namespace not in found.uncounted:
            one = Difference("objects_quotause", namespace, resource, stored.get(key, 0), wanted.get(key, 0))
            found.differences.append(one)
            if namespace not in found.namespaces:
                found.namespaces.append(namespace)


def _compare_due(store: DjangoStore, found: Found) -> None:
    known = store.router.controllers
    for controller, count in _rows("SELECT controller, count(*) FROM objects_due GROUP BY controller ORDER BY 1"):
        if controller not in known:
            found.differences.append(Difference("objects_due", controller, "rows", count, "no such controller"))
    after = 0
    select = "SELECT id, controller, kind, namespace, name, hash FROM objects_due WHERE id > %s ORDER BY id LIMIT %s"
    while records := _rows(select, [after, BATCH]):
        for number, controller, *place, stored in records:
            derived = due.shard_hash(Ref(*place))
            if stored != derived:
                found.hashes[number] = derived
                found.differences.append(
                    Difference("objects_due", f"{controller} {Ref(*place)}", "hash", stored, derived)
                )
        after = records[-1][0]


_USE: Final = "SELECT namespace, resource, amount FROM objects_quotause"


def _rows(query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return cursor.fetchall()


def _repair_objects(store: DjangoStore, table: ObjectTable, ids: Sequence[int]) -> None:
    with transaction.atomic(durable=True), binary_cursor() as cursor:
        cursor.run(due.WRITE_LOCK)
        derive_again(store, cursor, table, ids)


def derive_again(store: DjangoStore, cursor: BinaryCursor, table: ObjectTable, ids: Sequence[int]) -> None:
    """Derive the columns and child rows of objects again, from their documents as they are now. The caller holds the
    write lock."""
    (batch,) = _batches(table, ids)
    marks: list[Mark] = []
    for row in batch:
        if row.obj is None or row.obj.ref != row.ref:
            continue
        columns = _derived(table, row.obj)
        assigned = ", ".join(f"{name} = %s" for name in columns)
        with connection.cursor() as plain:
            plain.execute(f"UPDATE {table.name} SET {assigned} WHERE id = %s", [*columns.values(), row.id])
        for child in table.children:
            cursor.run(child.delete, [texts([child.owner(row.ref)])])
            if inserted := [(child.owner(row.ref), *values) for values in child.rows(row.obj)]:
                cursor.run(child.insert, child.pack(inserted))
        marks += store.router.marks(None, row.obj, by=BY)
    for query, parameters in due.marking(due.pack_marks(marks), at=None):
        cursor.run(query, parameters)
    if marks:
        due.notify(cursor, {mark.controller for mark in marks})


def _repair_rest(store: DjangoStore, found: Found) -> None:
    """Remove child rows without an owner and due rows without a controller; count the use of quotas and tallies
    again."""
    with transaction.atomic(durable=True), binary_cursor() as cursor, connection.cursor() as plain:
        cursor.run(due.WRITE_LOCK)
        for table in object_tables():
            for child in table.children:
                if owners := found.orphans.get(child.name):
                    _remove_orphans(table, child, owners)
        if found.namespaces:
            _count_again(found.namespaces)
        tally_checks.count_again(found.tallies)
        plain.execute("DELETE FROM objects_due WHERE controller <> ALL(%s)", [sorted(store.router.controllers)])
        for number, derived in found.hashes.items():
            plain.execute("UPDATE objects_due SET hash = %s WHERE id = %s", [derived, number])


def _remove_orphans(table: ObjectTable, child: ChildTable, owners: Sequence[str]) -> None:
    """Remove the child rows of owners that still do not exist."""
    names = [owner if child.by_name else Ref.parse(owner).name for owner in owners]
    query = f"SELECT kind, namespace, name FROM {table.name} WHERE name = ANY(%s)"
    existing = {child.owner(Ref(*place)) for place in _rows(query, [names])}
    with connection.cursor() as cursor:
        gone = [owner for owner in owners if owner not in existing]
        cursor.execute(f"DELETE FROM {child.name} WHERE {child.column} = ANY(%s)", [gone])


def _count_again(namespaces: Sequence[str]) -> None:
    """Count what the bindings of namespaces use of quotas. The caller holds the write lock."""
    bindings = object_table(RESOURCE_BINDING)
    used: Use = Counter()
    query = f"SELECT namespace, doc FROM {bindings.name} WHERE kind = %s AND namespace = ANY(%s)"
    for namespace, doc in _rows(query, [RESOURCE_BINDING, list(namespaces)]):
        for resource, amount in use_of(read(RESOURCE_BINDING, doc)).items():
            used[namespace, resource] = used.get((namespace, resource), 0) + amount
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM objects_quotause WHERE namespace = ANY(%s)", [list(namespaces)])
        for (namespace, resource), amount in used.items():
            cursor.execute(
                "INSERT INTO objects_quotause (namespace, resource, amount) VALUES (%s, %s, %s)",
                [namespace, resource, amount],
            )
