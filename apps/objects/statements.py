"""A settled batch as statements: everything packed that can be before the write lock is taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from apps.objects import due
from apps.objects.arrays import Array, bigints, moments, texts
from apps.objects.batch import Batch, Line, Settled
from apps.objects.tables import SEPARATOR, ObjectTable, RowTable, object_table, row_table
from controlplane.admission.storage_limits import fits
from controlplane.apimachinery.meta import Object
from controlplane.engine.decision import Drop, Save
from controlplane.kind import KINDS, Kind


class Statement(NamedTuple):
    """A statement and its packed columns."""

    query: str
    columns: list[Array]


class Shapes(NamedTuple):
    """A group of lines of one table and one operation, packed for its statement."""

    table: ObjectTable
    operation: str  # insert, update, delete
    lines: int
    columns: list[Array]


class Prepared(NamedTuple):
    """A settled batch with everything packed that can be before the versions are known."""

    settled: Settled
    shapes: list[Shapes]
    beside: list[Statement]  # child rows and row-native values
    marks: due.Marks
    ends: due.Ends


def prepare(batch: Batch, settled: Settled) -> Prepared:
    """Pack what a settled batch writes."""
    ends = [
        due.Finish(item.claim, item.decision.wake_at, bool(verdict.lost))
        for item, verdict in zip(batch.items, settled.verdicts, strict=True)
        if item.claim is not None
    ]
    beside = [*_child_statements(settled.lines), *_row_statements(settled.kept)]
    return Prepared(settled, _shapes(batch, settled), beside, due.pack_marks(settled.marks), due.pack_ends(ends))


def _shapes(batch: Batch, settled: Settled) -> list[Shapes]:
    groups: dict[tuple[ObjectTable, str], list[tuple[int, Line]]] = {}
    for number, line in enumerate(settled.lines, start=1):
        operation = "delete" if line.removed else "insert" if line.old is None else "update"
        groups.setdefault((object_table(line.ref.kind), operation), []).append((number, line))
    return [
        Shapes(table, operation, len(found), _columns(table, found, batch))
        for (table, operation), found in groups.items()
    ]


def _columns(table: ObjectTable, found: Sequence[tuple[int, Line]], batch: Batch) -> list[Array]:
    """Return the lines of one statement column by column, in the order of `ObjectTable` sources."""
    lines = [line for _, line in found]
    objects = [line.new for line in lines]
    metas = [obj.metadata for obj in objects]
    encoded = [batch.encoded(obj) for obj in objects]
    return [
        bigints([number for number, _ in found]),
        texts([line.ref.kind for line in lines]),
        texts([line.ref.namespace for line in lines]),
        texts([line.ref.name for line in lines]),
        texts([line.reason for line in lines]),
        bigints([line.cause for line in lines]),
        texts([one.head for one in encoded]),
        texts([one.tail for one in encoded]),
        texts([meta.uid for meta in metas]),
        bigints([meta.generation for meta in metas]),
        texts([joined(index_keys(KINDS.get(line.ref.kind), line.new)) for line in lines]),
        texts([joined(label_keys(meta.labels)) for meta in metas]),
        moments([meta.deletion_timestamp for meta in metas]),
        moments([meta.creation_timestamp for meta in metas]),
        *table.project(objects),
    ]


def joined(keys: Sequence[str]) -> str:
    """Return keys as one text. What users write into annotations may hold the separator, or a NUL that PostgreSQL
    refuses, or be longer than an index takes: a key that is such is left out, for nothing is ever looked up by it."""
    text = SEPARATOR.join(keys)
    if "\0" in text or text.count(SEPARATOR) != max(len(keys) - 1, 0) or not fits(text):
        return SEPARATOR.join(key for key in keys if "\0" not in key and SEPARATOR not in key and fits(key))
    return text


def index_keys(kind: Kind | None, obj: Object) -> list[str]:
    """Return an object's "index=value" of the declared indexes."""
    if kind is None:
        return []
    return [f"{index.name}={value}" for index in kind.indexes for value in index.keys(obj)]


def label_keys(labels: Mapping[str, str]) -> list[str]:
    """Return what a label selector asks for: "key=value" and "key" of every label."""
    return [text for key, value in labels.items() for text in (f"{key}={value}", key)]


def _child_statements(lines: Sequence[Line]) -> list[Statement]:
    """Return what rewrites the child rows of objects whose child rows changed."""
    statements: list[Statement] = []
    for table, some in _by_table(lines):
        for child in table.children:
            gone: list[str] = []
            made: list[tuple[Any, ...]] = []
            for line in some:
                before = [] if line.old is None else child.rows(line.old)
                after = [] if line.removed else child.rows(line.new)
                if before == after:
                    continue
                owner = child.owner(line.ref)
                if before:
                    gone.append(owner)
                made.extend((owner, *row) for row in after)
            if gone:
                statements.append(Statement(child.delete, [texts(gone)]))
            if made:
                statements.append(Statement(child.insert, child.pack(made)))
    return statements


def _by_table(lines: Sequence[Line]) -> Iterable[tuple[ObjectTable, list[Line]]]:
    groups: dict[ObjectTable, list[Line]] = {}
    for line in lines:
        groups.setdefault(object_table(line.ref.kind), []).append(line)
    return groups.items()


def _row_statements(kept: Sequence[Save | Drop]) -> list[Statement]:
    """Return what keeps and forgets row-native values; of several about one key the last counts."""
    tables: dict[RowTable, dict[str, Save | Drop]] = {}
    for change in kept:
        type_: Any = type(change.row)
        tables.setdefault(row_table(type_), {})[change.row.key] = change
    statements: list[Statement] = []
    for table, changes in tables.items():
        saved = [change.row for change in changes.values() if isinstance(change, Save)]
        dropped = [change.row for change in changes.values() if not isinstance(change, Save)]
        if saved:
            statements.append(Statement(table.save, table.pack(saved)))
        if dropped:
            statements.append(Statement(table.drop, table.pack(dropped, fields=table.named)))
    return statements
