"""Statements of a settled batch, with their parameters packed before the write lock is taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from apps.objects import due
from apps.objects.arrays import Array, bigints, moments, texts
from apps.objects.batch import Batch, Line, Settled
from apps.objects.tables import SEPARATOR, ObjectTable, RowTable, object_table, row_table
from controlplane.admission.storage_limits import fits
from controlplane.apimachinery.meta import Object
from controlplane.engine.decision import Drop, Save
from controlplane.estimate import quota
from controlplane.kind import KINDS, Kind
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.rows import Row


class PackedStatement(NamedTuple):
    """An SQL statement and its packed columns.

    `locked`: the same as a part of a statement that takes the write lock (`creation.py`). "": it cannot be a part.
    """

    query: str
    columns: list[Array]
    locked: str = ""


class LineGroup(NamedTuple):
    """Lines of one table, operation and writer, packed for one statement."""

    table: ObjectTable
    operation: str  # insert, update, delete
    lines: int
    columns: list[Array]
    actor: str  # who is logged as the writer


class Prepared(NamedTuple):
    """A settled batch, packed as far as possible before its versions are known."""

    settled: Settled
    groups: list[LineGroup]
    other_rows: list[PackedStatement]  # child rows and row-native values
    marks: due.Marks
    ends: due.Ends


def prepare(batch: Batch, settled: Settled) -> Prepared:
    """Return a settled batch packed for writing."""
    ends = [
        due.Finish(item.claim, item.decision.wake_at, bool(verdict.lost))
        for item, verdict in zip(batch.items, settled.verdicts, strict=True)
        if item.claim is not None
    ]
    other_rows = [
        *_child_statements(settled.lines),
        *_quota_statements(settled.lines),
        *_row_statements(settled.row_changes),
    ]
    return Prepared(
        settled, _line_groups(batch, settled), other_rows, due.pack_marks(settled.marks), due.pack_ends(ends)
    )


def _line_groups(batch: Batch, settled: Settled) -> list[LineGroup]:
    groups: dict[tuple[ObjectTable, str, str], list[tuple[int, Line]]] = {}
    for number, line in enumerate(settled.lines, start=1):
        operation = "delete" if line.removed else "insert" if line.old is None else "update"
        key = (object_table(line.ref.kind), operation, line.actor or batch.by.name)
        groups.setdefault(key, []).append((number, line))
    return [
        LineGroup(table, operation, len(numbered), _columns(table, numbered, batch), actor)
        for (table, operation, actor), numbered in groups.items()
    ]


def _columns(table: ObjectTable, numbered: Sequence[tuple[int, Line]], batch: Batch) -> list[Array]:
    """Return the lines of one statement column by column, in the order of `ObjectTable` sources.

    A line's number is its place in the batch, from 1: the line gets the version that is so much above the newest one.
    """
    lines = [line for _, line in numbered]
    objects = [line.new for line in lines]
    metas = [obj.metadata for obj in objects]
    texts_of_objects = [batch.texts.of(obj) for obj in objects]
    return [
        bigints([number for number, _ in numbered]),
        texts([line.ref.kind for line in lines]),
        texts([line.ref.namespace for line in lines]),
        texts([line.ref.name for line in lines]),
        texts([line.reason for line in lines]),
        bigints([line.cause for line in lines]),
        texts([text.head for text in texts_of_objects]),
        texts([text.tail for text in texts_of_objects]),
        texts([meta.uid for meta in metas]),
        bigints([meta.generation for meta in metas]),
        texts([joined(index_keys(KINDS.get(line.ref.kind), line.new)) for line in lines]),
        texts([joined(label_keys(meta.labels)) for meta in metas]),
        moments([meta.deletion_timestamp for meta in metas]),
        moments([meta.creation_timestamp for meta in metas]),
        *table.project(objects),
    ]


def joined(keys: Sequence[str]) -> str:
    """Return index keys as one text, as they travel to the database.

    A key is left out if it contains the separator or a NUL, which PostgreSQL refuses, or is too long for an index.
    Users can write such values into annotations. No query looks for them.
    """
    if not keys:
        return ""
    text = SEPARATOR.join(keys)
    if "\0" in text or text.count(SEPARATOR) != len(keys) - 1 or not fits(text):
        return SEPARATOR.join(key for key in keys if "\0" not in key and SEPARATOR not in key and fits(key))
    return text


def index_keys(kind: Kind | None, obj: Object) -> list[str]:
    """Return the keys of an object: "index=value" for each value of each index that its kind declares."""
    if kind is None:
        return []
    return [f"{index.name}={value}" for index in kind.indexes for value in index.keys(obj)]


def label_keys(labels: Mapping[str, str]) -> list[str]:
    """Return the texts that a label selector looks for: "key=value" and "key" of every label."""
    return [text for key, value in labels.items() for text in (f"{key}={value}", key)]


def _child_statements(lines: Sequence[Line]) -> list[PackedStatement]:
    """Return the statements that replace the child rows of each object whose child rows change."""
    statements: list[PackedStatement] = []
    for table, lines_of_table in _by_table(lines):
        for child in table.children:
            emptied: list[str] = []
            inserted: list[tuple[Any, ...]] = []
            for line in lines_of_table:
                before = [] if line.old is None else child.rows(line.old)
                after = [] if line.removed else child.rows(line.new)
                if before == after:
                    continue
                owner = child.owner(line.ref)
                if before:
                    emptied.append(owner)
                inserted.extend((owner, *row) for row in after)
            if emptied:
                statements.append(PackedStatement(child.delete, [texts(emptied)]))
            if inserted:
                statements.append(PackedStatement(child.insert, child.pack(inserted)))
    return statements


_ADD_USE = """
    INSERT INTO objects_quotause AS t (namespace, resource, amount)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[]::numeric[])
    ON CONFLICT (namespace, resource) DO UPDATE SET amount = t.amount + excluded.amount"""


def _quota_statements(lines: Sequence[Line]) -> list[PackedStatement]:
    """Return the statement that adds to what namespaces use of quotas, if the lines change it [federated-quotas]."""
    sums: Counter[tuple[str, str]] = Counter()
    for line in lines:
        if line.ref.kind == RESOURCE_BINDING:
            before: Any = line.old
            after: Any = None if line.removed else line.new
            for resource, change in quota.changes(before, after).items():
                sums[line.ref.namespace, resource] += change
    rows = [(*key, str(change)) for key, change in sorted(sums.items()) if change]
    return [PackedStatement(_ADD_USE, [texts(column) for column in zip(*rows, strict=True)])] if rows else []


def _by_table(lines: Sequence[Line]) -> Iterable[tuple[ObjectTable, list[Line]]]:
    groups: dict[ObjectTable, list[Line]] = {}
    for line in lines:
        groups.setdefault(object_table(line.ref.kind), []).append(line)
    return groups.items()


def _row_statements(row_changes: Sequence[Save | Drop]) -> list[PackedStatement]:
    """Return the statements that save and drop row-native values, with the result of the changes in their order.

    Values are saved before others are dropped. So a Drop that comes before a Save of the same key is left out.
    """
    tables: dict[RowTable, tuple[dict[str, Row], dict[str, dict[Any, Row]]]] = {}
    for change in row_changes:
        row: Row = change.row
        saved, dropped = tables.setdefault(row_table(type(row)), ({}, {}))
        if isinstance(change, Save):
            saved[row.key] = row
            dropped.pop(row.key, None)
        else:
            dropped.setdefault(row.key, {})[row.made] = row
            if not row.MADE:
                saved.pop(row.key, None)
    statements: list[PackedStatement] = []
    for table, (saved, dropped) in tables.items():
        if saved:
            statements.append(PackedStatement(table.save, table.pack(list(saved.values())), table.save_locked))
        if dropped:
            rows = [row for of_key in dropped.values() for row in of_key.values()]
            statements.append(PackedStatement(table.drop, table.pack(rows, fields=table.named)))
    return statements
