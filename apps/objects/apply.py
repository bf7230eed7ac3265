"""apply: the single writer. Everything that changes an object, from wherever, is written here.

One transaction: take the versions (that row is the global write lock, so version order is commit order), check the
fence, look which of the objects the batch rests on have moved, write objects, log, projections, row-native values and
due rows set by set, tell listeners. The number of statements depends on the tables touched, not on the objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, NamedTuple

from django.db import connection, transaction
from msgspec.structs import replace
from psycopg.errors import UniqueViolation

from apps.objects import due, log
from apps.objects.arrays import Array, BinaryCursor, bigints, moments, texts
from apps.objects.batch import Batch, Line, Settled, batches
from apps.objects.tables import SEPARATOR, ObjectTable, RowTable, object_table, read, row_table
from controlplane.decision import EVERY, Decision, Drop, Save
from controlplane.kind import KINDS, Kind
from controlplane.meta import Object, Ref
from controlplane.routing import Router
from controlplane.state import Actor, Claim, Fence, Fenced, Outcome

CHANGES_CHANNEL = "lifeboat"  # payload: the newest version

_LOCK = """
    INSERT INTO objects_counter (id, version) VALUES (1, %s)
    ON CONFLICT (id) DO UPDATE SET version = objects_counter.version + excluded.version
    RETURNING version, clock_timestamp()"""
_SET_VERSION = "UPDATE objects_counter SET version = %s WHERE id = 1"
_FENCE = """
    SELECT 1 FROM objects_lease WHERE name = %s AND shard = %s AND epoch = %s AND until > clock_timestamp() FOR SHARE"""
_NOTIFY = "SELECT pg_notify(%s, %s), CASE WHEN %s <> '' THEN pg_notify(%s, %s) END"

_BEFORE = datetime.min.replace(tzinfo=UTC)  # the database was not asked yet


class Timing(NamedTuple):
    """What one transaction cost: lines written and seconds the write lock was held."""

    lines: int
    locked_seconds: float


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


Stored = Mapping[Ref, Object | None]


@contextmanager
def binary_cursor() -> Iterator[BinaryCursor]:
    """Give a cursor of Django's connection that takes packed arrays and prepares its statements."""
    connection.ensure_connection()
    raw: Any = connection.connection
    if raw.prepare_threshold is None:
        raw.prepare_threshold = 5  # Django's default is never; our statements are few and come again and again
    with BinaryCursor(raw) as cursor:
        yield cursor


def apply(
    decisions: Sequence[tuple[Claim | None, Decision]],
    *,
    router: Router,
    by: Actor,
    fence: Fence | None = None,
    dry_run: bool = False,
    observe: Callable[[Timing], None] | None = None,
) -> list[Outcome]:
    """Write decisions, each whole or not at all; see `controlplane.state.Store.apply`."""
    outcomes: list[Outcome] = []
    with binary_cursor() as cursor:
        for part in batches(decisions, by=by):
            batch = Batch(part, router=router, by=by)
            if dry_run:
                outcomes += _rehearse(cursor, batch)
            else:
                outcomes += _Transaction(cursor, batch).run(fence=fence, observe=observe)
    return outcomes


def _rehearse(cursor: BinaryCursor, batch: Batch) -> list[Outcome]:
    """Return what would become of the batch; nothing is written and nothing waits."""
    now = _clock(cursor)
    stored = {**batch.expected(), **load(cursor, batch.unknown())}
    stored |= _moved(cursor, stored)
    settled = batch.settle(stored, _generations(cursor, batch.guards()), now=now)
    return _outcomes(settled, versions=None)


class _Transaction:
    """One batch on its way into the database."""

    def __init__(self, cursor: BinaryCursor, batch: Batch) -> None:
        self.cursor = cursor
        self.batch = batch
        self.stored = batch.expected()
        if unknown := batch.unknown():
            self.stored |= load(cursor, unknown)
        self.base = 0  # the newest version before this batch
        self.at = _BEFORE
        self.prepared = self._prepare(batch.settle(self.stored, {}, now=_clock(cursor) if unknown else _BEFORE))

    def run(self, *, fence: Fence | None, observe: Callable[[Timing], None] | None) -> list[Outcome]:
        """Write the batch. Raises Fenced."""
        try:
            timing = self._run(fence, sure=False)
        except UniqueViolation:
            timing = self._run(fence, sure=True)
        if observe is not None:
            observe(timing)
        return _outcomes(self.prepared.settled, versions=range(self.base + 1, self.base + 1 + timing.lines))

    def _run(self, fence: Fence | None, *, sure: bool) -> Timing:
        """Write the batch. What it creates is looked for beforehand only to be `sure`: it is hardly ever there, and the
        database says so where it is."""
        cursor, batch, stored = self.cursor, self.batch, self.stored
        with transaction.atomic(durable=True):
            self._lock(cursor, len(self.prepared.settled.lines), fence)
            locked_at = perf_counter()
            created = set() if sure else batch.created()
            seen = {ref: one for ref, one in stored.items() if one is not None or ref not in created}
            moved, generations = _moved(cursor, seen), _generations(cursor, batch.guards())
            if moved or not batch.holds(generations):
                self.prepared = self._prepare(batch.settle({**stored, **moved}, generations, now=self.at))
                cursor.run(_SET_VERSION, (self.base + len(self.prepared.settled.lines),))
            self._write(cursor, self.prepared)
        return Timing(len(self.prepared.settled.lines), perf_counter() - locked_at)

    def _prepare(self, settled: Settled) -> Prepared:
        ends = [
            due.Finish(item.claim, item.decision.wake_at, bool(verdict.lost))
            for item, verdict in zip(self.batch.items, settled.verdicts, strict=True)
            if item.claim is not None
        ]
        beside = [*_child_statements(settled.lines), *_row_statements(settled.kept)]
        return Prepared(settled, self._shapes(settled), beside, due.pack_marks(settled.marks), due.pack_ends(ends))

    def _lock(self, cursor: BinaryCursor, count: int, fence: Fence | None) -> None:
        """Take the write lock and the versions, and check that the lease is still ours."""
        version, self.at = cursor.run(_LOCK, (count,)).fetchone()  # type: ignore[misc]  # one row always
        self.base = version - count
        if fence is not None:
            held = cursor.run(_FENCE, (fence.name, fence.shard, fence.epoch)).fetchone()
            if held is None:
                raise Fenced(f"lease {fence.name}/{fence.shard} epoch {fence.epoch} has passed")
        log.make_room(cursor, version)

    def _shapes(self, settled: Settled) -> list[Shapes]:
        groups: dict[tuple[ObjectTable, str], list[tuple[int, Line]]] = {}
        for number, line in enumerate(settled.lines, start=1):
            operation = "delete" if line.removed else "insert" if line.old is None else "update"
            groups.setdefault((object_table(line.ref.kind), operation), []).append((number, line))
        return [
            Shapes(table, operation, len(found), _columns(table, found, self.batch))
            for (table, operation), found in groups.items()
        ]

    def _write(self, cursor: BinaryCursor, prepared: Prepared) -> None:
        for shape in prepared.shapes:
            statement = getattr(shape.table, shape.operation)
            scalars = (self.base, self.base, *shape.columns, self.batch.by.name, self.at)
            written = cursor.run(statement, scalars).rowcount
            assert written == shape.lines, f"{shape.operation} of {shape.lines} rows in {shape.table.name}: {written}"
        for one in prepared.beside:
            cursor.run(one.query, one.columns)
        due.write_marks(cursor, prepared.marks, at=self.at)
        due.finish(cursor, prepared.ends, at=self.at)
        settled = prepared.settled
        if settled.lines or settled.marks:
            names = ",".join(sorted({name for name, _ in settled.marks}))
            newest = str(self.base + len(settled.lines))
            cursor.run(_NOTIFY, (CHANGES_CHANNEL, newest, names, due.CHANNEL, names))


def _clock(cursor: BinaryCursor) -> datetime:
    row = cursor.run("SELECT clock_timestamp()").fetchone()
    assert row is not None
    moment: datetime = row[0]
    return moment


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
        texts([SEPARATOR.join(index_keys(KINDS.get(line.ref.kind), line.new)) for line in lines]),
        texts([SEPARATOR.join(label_keys(meta.labels)) for meta in metas]),
        moments([meta.deletion_timestamp for meta in metas]),
        moments([meta.creation_timestamp for meta in metas]),
        *table.project(objects),
    ]


def index_keys(kind: Kind | None, obj: Object) -> list[str]:
    """Return an object's "index=value" of the declared indexes."""
    if kind is None:
        return []
    return [f"{index.name}={value}" for index in kind.indexes for value in index.keys(obj)]


def label_keys(labels: Mapping[str, str]) -> list[str]:
    """Return what a label selector asks for: "key=value" and "key" of every label."""
    return [text for key, value in labels.items() for text in (f"{key}={value}", key)]


def _moved(cursor: BinaryCursor, expected: Stored) -> dict[Ref, Object | None]:
    """Return what is stored under the references that are not at the version expected (None: expected absent)."""
    found: dict[Ref, Object | None] = {}
    for table, refs in by_table(expected):
        versions = [None if (one := expected[ref]) is None else int(one.metadata.resource_version or 0) for ref in refs]
        for kind, namespace, name, doc in cursor.run(table.moved, (*pack_refs(refs), bigints(versions))):
            found[Ref(kind, namespace, name)] = None if doc is None else read(kind, doc)
    return found


def _generations(cursor: BinaryCursor, refs: Iterable[Ref]) -> dict[Ref, int | None]:
    found: dict[Ref, int | None] = dict.fromkeys(refs)
    if whole := {ref.kind: ref for ref in found if ref.name == EVERY}:
        newest = "SELECT kind, max(resource_version) FROM {} WHERE kind = %s GROUP BY kind"
        query = " UNION ALL ".join(newest.format(object_table(kind).name) for kind in whole)
        found.update({whole[kind]: version for kind, version in cursor.run(query, tuple(whole))})
    for table, some in by_table([ref for ref in found if ref.name != EVERY]):
        for kind, namespace, name, generation in cursor.run(table.generations, pack_refs(some)):
            found[Ref(kind, namespace, name)] = generation
    return found


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
        dropped = [key for key, change in changes.items() if not isinstance(change, Save)]
        if saved:
            statements.append(Statement(table.save, table.pack(saved)))
        if dropped:
            statements.append(Statement(table.drop, [texts(dropped)]))
    return statements


def _outcomes(settled: Settled, *, versions: range | None) -> list[Outcome]:
    """Return what to tell the callers; `versions` None: nothing was written."""
    outcomes: list[Outcome] = []
    for verdict in settled.verdicts:
        if verdict.lost:
            outcomes.append(Outcome(lost=verdict.lost))
            continue
        numbers: list[int] = []
        objects: list[Object | None] = []
        for result in verdict.results:
            if not isinstance(result, int):
                numbers.append(0)
                objects.append(result)
                continue
            line = settled.lines[result]
            numbers.append(0 if versions is None else versions[result])
            objects.append(None if line.removed else _stamped(line.new, numbers[-1]))
        outcomes.append(Outcome("", tuple(numbers), tuple(objects)))
    return outcomes


def _stamped(obj: Object, version: int) -> Object:
    if not version:
        return obj
    return replace(obj, metadata=replace(obj.metadata, resource_version=str(version)))
