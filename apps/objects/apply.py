"""apply: the only writer of objects. The API, the admin, commands and controllers all write through it.

A transaction takes its resourceVersions first. The row of that counter is the global write lock, so the order of
versions is the order of commits. Then the transaction checks the lease, finds out which objects have changed since they
were read, and writes objects, change log, projections, row-native values and due rows. At last it notifies listeners.
The number of statements depends on the number of tables, not on the number of objects.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain, islice
from time import perf_counter
from typing import Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS, OperationalError, connection, connections, transaction
from msgspec.structs import replace
from psycopg import Error, Pipeline
from psycopg.errors import (
    CheckViolation,
    IdleInTransactionSessionTimeout,
    PipelineAborted,
    ReadOnlySqlTransaction,
    UniqueViolation,
)

from apps.objects import change_log, creation, due
from apps.objects.arrays import BinaryCursor, register_arrays
from apps.objects.batch import Batch, Settled, Texts, batches, items_of, unknown
from apps.objects.lookup import (
    Stored,
    generation_queries,
    generations_from,
    load,
    moved_from,
    moved_queries,
    quota_query,
    reserved_query,
    used_from,
)
from apps.objects.refusal import cause
from apps.objects.statements import Prepared, prepare
from controlplane.apimachinery.meta import Object, Ref
from controlplane.engine.capacity_conflicts import NewReservation, NewReservations
from controlplane.engine.decision import Decision
from controlplane.engine.routing import Router
from controlplane.engine.state import Actor, Claim, HeldLease, LeaseLost, Outcome
from controlplane.kinds.rows import Eviction

logger = logging.getLogger(__name__)

TRANSACTION_BYTES = 4 << 20  # more than the statements of one transaction take
CHANGES_CHANNEL = "lifeboat"  # payload: the newest version
LOGGED_ROWS = (Eviction,)  # a trigger gives their changes versions (migration 0019 of failover)

_LOCK = """
    INSERT INTO objects_counter (id, version) VALUES (1, %s)
    ON CONFLICT (id) DO UPDATE SET version = objects_counter.version + excluded.version
    RETURNING version, clock_timestamp()"""
# Takes the write lock without a version. The row stays as it is, so `origin.seen` tells that no object was written. It
# is created if it is missing. The time is read after the wait for the lock.
_LOCK_ONLY = """
    WITH locked AS MATERIALIZED (SELECT version FROM objects_counter WHERE id = 1 FOR UPDATE),
    created AS (
        INSERT INTO objects_counter (id, version) SELECT 1, 0 WHERE NOT EXISTS (SELECT 1 FROM locked)
        ON CONFLICT (id) DO UPDATE SET version = objects_counter.version
        RETURNING version
    )
    SELECT version, clock_timestamp() FROM (SELECT * FROM locked UNION ALL SELECT * FROM created) AS one"""
_SET_VERSION = "UPDATE objects_counter SET version = %s WHERE id = 1"
_HELD_LEASE = """
    SELECT 1 FROM objects_lease WHERE name = %s AND shard = %s AND epoch = %s AND until > clock_timestamp() FOR SHARE"""
_NOTIFY = "SELECT pg_notify(%s, %s), CASE WHEN %s <> '' THEN pg_notify(%s, %s) END"

_BEFORE = datetime.min.replace(tzinfo=UTC)  # stands for a time that the database has not been asked for yet


class Timing(NamedTuple):
    """The cost of one transaction: lines written, and seconds for which the write lock was held."""

    lines: int
    locked_seconds: float


@contextmanager
def binary_cursor() -> Iterator[BinaryCursor]:
    """Yield a cursor of Django's connection that takes packed arrays and prepares its statements.

    Raises the errors of Django's own cursors: OperationalError if the database cannot be reached or ended the session.
    """
    own = connections[DEFAULT_DB_ALIAS]  # looked up once: `connection` looks it up for each of its attributes
    with _errors_of_django(own), BinaryCursor(_raw(own)) as cursor:
        yield cursor


@contextmanager
def _errors_of_django(own: Any = connection) -> Iterator[None]:
    with own.wrap_database_errors:
        try:
            yield
        except (IdleInTransactionSessionTimeout, ReadOnlySqlTransaction) as error:  # to psycopg an InternalError
            raise OperationalError(str(error)) from error


def _raw(own: Any = connection) -> Any:
    if own.connection is None:
        own.ensure_connection()
    raw = own.connection
    if raw.prepare_threshold is None:
        raw.prepare_threshold = 5  # Django's default is never; these statements are few and are repeated often
        register_arrays(raw)
        _enlarge_send_buffer(raw)
    return raw


def _enlarge_send_buffer(raw: Any) -> None:
    """Make the send buffer of a unix socket large enough for a whole transaction.

    With a smaller buffer the sender waits until the server has processed most of the transaction. The kernel may give
    less than asked for (net.core.wmem_max).
    """
    with socket.socket(fileno=os.dup(raw.fileno())) as own:
        if own.family == socket.AF_UNIX:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, TRANSACTION_BYTES)


def apply(
    decisions: Sequence[tuple[Claim | None, Decision]],
    *,
    router: Router,
    by: Actor,
    lease: HeldLease | None = None,
    dry_run: bool,
    observe: Callable[[Timing], None] | None = None,
    written: list[Outcome] | None = None,
) -> list[Outcome]:
    """Write decisions, each whole or not at all; return their outcomes. See `controlplane.engine.state.Store.apply`.

    `written`: a list to which the outcomes of stored decisions are added, even if a later decision raises an error.
    """
    items = items_of(decisions, by=by)
    texts = None if dry_run else Texts()
    # A batch is checked and encoded when it is asked for: while the database writes the one before it.
    parts = (Batch(part, router=router, by=by, texts=texts) for part in batches(items, texts=texts))
    known, now = dict[Ref, Object | None](), _BEFORE
    refs = unknown(items)
    if refs or dry_run:
        with binary_cursor() as cursor:
            if refs:
                known, now = load(cursor, refs), _clock(cursor)
            if dry_run:
                return [outcome for batch in parts for outcome in _dry_run(cursor, batch, known)]
    return _Writer(known, now, lease=lease, observe=observe).write(parts, [] if written is None else written)


def _dry_run(cursor: BinaryCursor, batch: Batch, known: Stored) -> list[Outcome]:
    """Return the outcomes that a batch would have. Nothing is written and no lock is taken."""
    stored = _assumed(batch, known)
    stored |= moved_from([cursor.run(*query).fetchall() for query in moved_queries(stored)])
    guards = batch.guards()
    generations = generations_from(guards, [cursor.run(*query).fetchall() for query in generation_queries(guards)])
    return outcomes_of(batch.settle(stored, generations, now=_clock(cursor)), versions=None)


def _assumed(batch: Batch, known: Stored) -> dict[Ref, Object | None]:
    """Return the objects that a batch assumes to be stored: those its decisions expect, and those in `known`."""
    return {**batch.expected(), **{ref: known[ref] for ref in unknown(batch.items)}}


class _Writer:
    """Writes batches one after the other, each in a transaction of its own.

    While the database writes one batch, the next is packed: statements are sent in a pipeline.
    """

    def __init__(
        self, known: Stored, now: datetime, *, lease: HeldLease | None, observe: Callable[[Timing], None] | None
    ) -> None:
        self.known = known
        self.now = now
        self.lease = lease
        self.observe = observe
        self.raw = _raw()
        self.open = ExitStack()
        self.read_created = False  # an object that is to be created may exist

    def write(self, parts: Iterator[Batch], outcomes: list[Outcome]) -> list[Outcome]:
        """Write batches in order, add their outcomes to `outcomes` and return it.

        Raises LeaseLost. Batches that were committed before the error stay written; their outcomes are in `outcomes`.
        """
        if connection.in_atomic_block:
            raise RuntimeError("apply is a transaction of its own and cannot be a part of another")
        before: _Transaction | None = None
        first = list(islice(parts, 2 if self.lease is None else 0))
        with _errors_of_django():
            if len(first) == 1 and creation.creates_only(first[0].items):
                before = self._create(first[0])
        if before is not None:
            outcomes += before.outcomes()
        else:
            before = self._write_each(chain(first, parts), outcomes)
        if before is not None and not change_log.has_room(before.newest):
            extend_log(before.newest)
        return outcomes

    def _write_each(self, parts: Iterator[Batch], outcomes: list[Outcome]) -> _Transaction | None:
        """Write batches in a pipeline; return the last transaction. Outcomes are made while the database writes."""
        before: _Transaction | None = None
        with _errors_of_django():
            self._begin()
            try:
                while (current := self._after(before, parts, outcomes)) is not None:
                    before = current
                self.open.close()
            except BaseException:
                self._abandon()
                raise
        return before

    def _after(
        self, before: _Transaction | None, parts: Iterator[Batch], outcomes: list[Outcome]
    ) -> _Transaction | None:
        """Pack the next batch, end the transaction before it, and send it; None: there is no other batch.

        The outcomes of the transaction before are added when the next is sent, or failed.
        """
        ended: _Transaction | None = None
        try:
            try:
                batch = next(parts, None)
                current = None if batch is None else _Transaction(self.raw, batch, self.known, now=self.now)
            finally:
                if before is not None:
                    self._end(before)
                    ended = before
            if current is not None:
                self._send(current)
            return current
        finally:
            if ended is not None:
                outcomes += ended.outcomes()

    def _create(self, batch: Batch) -> _Transaction | None:
        """Write a batch that only creates objects by one statement; None: nothing is written, it needs several."""
        current = _Transaction(self.raw, batch, self.known, now=self.now)
        if not creation.is_whole(current.prepared):
            return None
        try:
            current.create()
        except (UniqueViolation, CheckViolation):  # an object exists, or the log has no partition
            self.read_created = True
            return None
        if self.observe is not None:
            self.observe(current.timing())
        return current

    def _begin(self) -> None:
        """Start a pipeline: from here on statements are sent without waiting for answers."""
        self.pipeline: Pipeline = self.open.enter_context(self.raw.pipeline())

    def _make_room(self, version: int) -> None:
        """Make sure that the change log has partitions up to this version.

        The pipeline is closed meanwhile: after an ALTER TABLE every statement has to be prepared again.
        """
        if not change_log.reaches(version):
            self.open.close()
            with BinaryCursor(self.raw) as cursor:
                change_log.make_room(cursor, version)
            self._begin()

    def _send(self, current: _Transaction) -> None:
        try:
            known, timed = self.read_created, self.observe is not None
            current.send(self.pipeline, self.lease, self._make_room, read_created=known, timed=timed)
        except UniqueViolation:
            self._send_again(current)

    def _end(self, current: _Transaction) -> None:
        try:
            current.end(self.pipeline)
        except UniqueViolation:
            self._send_again(current)
            current.end(self.pipeline)
        if self.observe is not None:
            self.observe(current.timing())

    def _send_again(self, current: _Transaction) -> None:
        """Repeat a transaction that failed because an object it creates already existed; read those objects first."""
        self._abandon()
        self._begin()
        current.send(self.pipeline, self.lease, self._make_room, read_created=True, timed=self.observe is not None)

    def _abandon(self) -> None:
        """Roll back the transaction. If even that fails, close the connection, which ends the transaction as well."""
        change_log.forget()
        try:
            with suppress(PipelineAborted):  # raised for every statement behind the failed one
                self.open.close()
            self.raw.rollback()
        except Error:
            connection.close()


def extend_log(version: int) -> None:
    """Create partitions of the change log ahead of a version, while the write lock is free.

    If that fails, the next write tries again.
    """
    try:
        with transaction.atomic(durable=True), binary_cursor() as cursor:
            change_log.extend(cursor, version)
    except OperationalError as error:
        logger.warning(
            "no partition of the change log could be created in advance, the next write tries again: %s", cause(error)
        )


class _Transaction:
    """The transaction that writes one batch."""

    def __init__(self, raw: Any, batch: Batch, known: Stored, *, now: datetime) -> None:
        self.raw = raw
        self.batch = batch
        self.stored = _assumed(batch, known)
        self.base = 0  # the newest version before this batch
        self.at = _BEFORE
        self.prepared = prepare(batch, batch.settle(self.stored, {}, now=now))
        self.committed: Any = None
        self.locked_seconds = 0.0

    def create(self) -> None:
        """Write the batch, which only creates objects, and commit it. Raises UniqueViolation and CheckViolation."""
        began = perf_counter()
        made = creation.create(self.raw, self.batch, self.prepared, channel=CHANGES_CHANNEL)
        self.base, self.at = made.base, made.at
        self.locked_seconds = max(0.0, perf_counter() - began - made.waited.total_seconds())

    def send(
        self,
        pipeline: Pipeline,
        lease: HeldLease | None,
        make_room: Callable[[int], None],
        *,
        read_created: bool,
        timed: bool,
    ) -> None:
        """Take the write lock, find out which objects have changed meanwhile, and send everything up to the commit.

        `read_created`: look for the objects that the batch creates as well. Usually they do not exist. If one does, the
        database reports UniqueViolation. `timed`: ask for the time of the commit.

        Raises LeaseLost and UniqueViolation. `end` may raise UniqueViolation as well.
        """
        batch, stored = self.batch, self.stored
        created = set() if read_created else batch.created()
        compared = {ref: obj for ref, obj in stored.items() if obj is not None or ref not in created}
        guards, count = batch.guards(), len(self.prepared.settled.lines)
        self.raw.execute("BEGIN")
        locked = self._run(_LOCK, (count,)) if count else self._run(_LOCK_ONLY)
        held = self._run(_HELD_LEASE, (lease.name, lease.shard, lease.epoch)) if lease is not None else None
        moved_answers = [self._run(*query) for query in moved_queries(compared)]
        generation_answers = [self._run(*query) for query in generation_queries(guards)]
        capacity_guards = batch.capacity_guards()
        reserving = self._run(*reserved_query(capacity_guards, by=batch.by.name)) if capacity_guards else None
        namespaces = {guard.namespace for guard in batch.quota_guards()}
        using = self._run(*quota_query(namespaces)) if namespaces else None
        # After the sync all statements are answered and the session counts as idle in a transaction. If this process is
        # paused before it sends the rest, PostgreSQL ends the transaction (idle_in_transaction_session_timeout).
        pipeline.sync()
        version, self.at = locked.fetchone()  # type: ignore[misc]  # one row always
        self.base = version - count
        if lease is not None and held is not None and held.fetchone() is None:
            raise LeaseLost(f"lease {lease.name}/{lease.shard} epoch {lease.epoch} has passed")
        make_room(version)
        moved = moved_from(answer.fetchall() for answer in moved_answers)
        generations = generations_from(guards, (answer.fetchall() for answer in generation_answers))
        reserved = NewReservations(() if reserving is None else (NewReservation(*row) for row in reserving.fetchall()))
        used = {} if using is None else used_from(using.fetchall())
        if moved or not batch.holds(generations, reserved, used):
            self.prepared = prepare(batch, batch.settle({**stored, **moved}, generations, reserved, used, now=self.at))
            self._run(_SET_VERSION, (self.newest,))
        self._write(self.prepared, leased=lease is None)
        self.raw.execute("COMMIT")
        self.committed = self.raw.execute("SELECT clock_timestamp()") if timed else None

    def end(self, pipeline: Pipeline) -> None:
        """Wait until the transaction is committed."""
        pipeline.sync()

    def timing(self) -> Timing:
        """Return the cost of the transaction, by the database's clock.

        The time of a creation is that until its answer, without the wait for the lock. The lock was held no longer.
        """
        if self.locked_seconds:
            return Timing(len(self.prepared.settled.lines), self.locked_seconds)
        row = self.committed.fetchone() if self.committed is not None else None
        assert row is not None, "the transaction was not timed"
        return Timing(len(self.prepared.settled.lines), (row[0] - self.at).total_seconds())

    @property
    def newest(self) -> int:
        """Return the newest version that the transaction writes."""
        return self.base + len(self.prepared.settled.lines)

    def outcomes(self) -> list[Outcome]:
        """Return the outcome of each decision of the batch."""
        return outcomes_of(self.prepared.settled, versions=range(self.base + 1, self.newest + 1))

    def _run(self, query: str, params: Sequence[Any] = ()) -> BinaryCursor:
        return BinaryCursor(self.raw).run(query, params)

    def _write(self, prepared: Prepared, *, leased: bool) -> None:
        for group in prepared.groups:
            statement = getattr(group.table, group.operation)
            self._run(statement, (self.base, self.base, *group.columns, group.actor, self.at, group.lines))
        for other in prepared.other_rows:
            self._run(other.query, other.columns)
        for query, params in (
            *due.marking(prepared.marks, at=self.at),
            *due.finishing(prepared.ends, at=self.at, leased=leased),
        ):
            self._run(query, params)
        settled = prepared.settled
        names = ",".join(sorted({mark.controller for mark in settled.marks}))
        if settled.lines or any(isinstance(change.row, LOGGED_ROWS) for change in settled.row_changes):
            self._run(_NOTIFY, (CHANGES_CHANNEL, str(self.newest), names, due.CHANNEL, names))
        elif names:
            self._run(due.NOTIFY, (due.CHANNEL, names))


def _clock(cursor: BinaryCursor) -> datetime:
    row = cursor.run("SELECT clock_timestamp()").fetchone()
    assert row is not None
    moment: datetime = row[0]
    return moment


def outcomes_of(settled: Settled, *, versions: range | None) -> list[Outcome]:
    """Return the outcome of each decision. `versions`: those of the lines; None: it was a dry run."""
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
