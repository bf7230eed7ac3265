"""apply: the single writer. Everything that changes an object, from wherever, is written here.

One transaction: take the versions (that row is the global write lock, so version order is commit order), check the
fence, look which of the objects the batch rests on have moved, write objects, log, projections, row-native values and
due rows set by set, tell listeners. The number of statements depends on the tables touched, not on the objects.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db import OperationalError, connection, transaction
from msgspec.structs import replace
from psycopg import Error, Pipeline
from psycopg.errors import IdleInTransactionSessionTimeout, PipelineAborted, ReadOnlySqlTransaction, UniqueViolation

from apps.objects import change_log, due
from apps.objects.arrays import BinaryCursor, teach
from apps.objects.batch import Batch, Settled, batches
from apps.objects.lookup import (
    Stored,
    generation_queries,
    generations_from,
    load,
    moved_from,
    moved_queries,
    promised_query,
)
from apps.objects.refusal import cause
from apps.objects.statements import Prepared, prepare
from controlplane.apimachinery.meta import Object, Ref
from controlplane.engine.capacity_conflicts import NewReservation
from controlplane.engine.decision import Decision
from controlplane.engine.routing import Router
from controlplane.engine.state import Actor, Claim, Fence, Fenced, Outcome

logger = logging.getLogger(__name__)

TRANSACTION_BYTES = 4 << 20  # what one sends, with room to spare
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


@contextmanager
def binary_cursor() -> Iterator[BinaryCursor]:
    """Give a cursor of Django's connection that takes packed arrays and prepares its statements.

    Raises what Django's own cursors raise: OperationalError where the database is away or has ended the session.
    """
    with _errors_of_django(), BinaryCursor(_raw()) as cursor:
        yield cursor


@contextmanager
def _errors_of_django() -> Iterator[None]:
    with connection.wrap_database_errors:
        try:
            yield
        except (IdleInTransactionSessionTimeout, ReadOnlySqlTransaction) as error:  # psycopg's class: InternalError
            raise OperationalError(str(error)) from error


def _raw() -> Any:
    connection.ensure_connection()
    raw: Any = connection.connection
    if raw.prepare_threshold is None:
        raw.prepare_threshold = 5  # Django's default is never; our statements are few and come again and again
        teach(raw)
        _widen(raw)
    return raw


def _widen(raw: Any) -> None:
    """Let a whole transaction fit into the socket, where it is one of this host: as long as it does not, its sender
    waits until the server has worked off all but the rest. The kernel gives what it may (net.core.wmem_max)."""
    with socket.socket(fileno=os.dup(raw.fileno())) as own:
        if own.family == socket.AF_UNIX:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, TRANSACTION_BYTES)


def apply(
    decisions: Sequence[tuple[Claim | None, Decision]],
    *,
    router: Router,
    by: Actor,
    fence: Fence | None = None,
    dry_run: bool = False,
    observe: Callable[[Timing], None] | None = None,
    written: list[Outcome] | None = None,
) -> list[Outcome]:
    """Write decisions, each whole or not at all; see `controlplane.engine.state.Store.apply`.

    `written` gets the outcomes of what is stored, also where the rest raises.
    """
    found = [Batch(part, router=router, by=by) for part in batches(decisions, by=by)]
    with binary_cursor() as cursor:
        unknown = set[Ref]().union(*(batch.unknown() for batch in found))
        known, now = (load(cursor, unknown), _clock(cursor)) if unknown else ({}, _BEFORE)
        if dry_run:
            return [outcome for batch in found for outcome in _rehearse(cursor, batch, known)]
    return _Writer(known, now, fence=fence, observe=observe).write(found, [] if written is None else written)


def _rehearse(cursor: BinaryCursor, batch: Batch, known: Stored) -> list[Outcome]:
    """Return what would become of the batch; nothing is written and nothing waits."""
    stored = _stored(batch, known)
    stored |= moved_from([cursor.run(*one).fetchall() for one in moved_queries(stored)])
    guards = batch.guards()
    generations = generations_from(guards, [cursor.run(*one).fetchall() for one in generation_queries(guards)])
    return _outcomes(batch.settle(stored, generations, now=_clock(cursor)), versions=None)


def _stored(batch: Batch, known: Stored) -> dict[Ref, Object | None]:
    """Return what a batch takes to be stored: what its decisions were made from, and what was read for it."""
    return {**batch.expected(), **{ref: known[ref] for ref in batch.unknown()}}


class _Writer:
    """Writes batches one after the other, each in a transaction of its own.

    Nothing waits for an answer it does not need: while the database writes one batch, the next is packed.
    """

    def __init__(
        self, known: Stored, now: datetime, *, fence: Fence | None, observe: Callable[[Timing], None] | None
    ) -> None:
        self.known = known
        self.now = now
        self.fence = fence
        self.observe = observe
        self.raw = _raw()
        self.open = ExitStack()

    def write(self, found: Sequence[Batch], outcomes: list[Outcome]) -> list[Outcome]:
        """Write batches in order. Raises Fenced; what was written before stays written, and is in `outcomes`."""
        if connection.in_atomic_block:
            raise RuntimeError("apply is a transaction of its own and cannot be a part of another")
        before: _Transaction | None = None
        with _errors_of_django():
            self._begin()
            try:
                for batch in found:
                    try:
                        one = _Transaction(self.raw, batch, self.known, now=self.now)
                    finally:
                        if before is not None:
                            outcomes += self._end(before)
                    self._send(one)
                    before = one
                if before is not None:
                    outcomes += self._end(before)
                self.open.close()
            except BaseException:
                self._abandon()
                raise
        if before is not None and not change_log.has_room(before.newest):
            _extend_log(before.newest)
        return outcomes

    def _begin(self) -> None:
        """From here on statements are sent without waiting."""
        self.pipeline: Pipeline = self.open.enter_context(self.raw.pipeline())

    def _make_room(self, version: int) -> None:
        """Make sure the log takes versions up to this one. Partitions are looked for while nothing is on its way: after
        an ALTER every statement has to be prepared anew."""
        if not change_log.reaches(version):
            self.open.close()
            with BinaryCursor(self.raw) as cursor:
                change_log.make_room(cursor, version)
            self._begin()

    def _send(self, one: _Transaction) -> None:
        try:
            one.send(self.pipeline, self.fence, self._make_room, sure=False, timed=self.observe is not None)
        except UniqueViolation:
            self._again(one)

    def _end(self, one: _Transaction) -> list[Outcome]:
        try:
            one.end(self.pipeline)
        except UniqueViolation:
            self._again(one)
            one.end(self.pipeline)
        if self.observe is not None:
            self.observe(one.timing())
        return one.outcomes()

    def _again(self, one: _Transaction) -> None:
        """Begin anew where something was there that was taken to be new."""
        self._abandon()
        self._begin()
        one.send(self.pipeline, self.fence, self._make_room, sure=True, timed=self.observe is not None)

    def _abandon(self) -> None:
        """Take back what was begun. Where even that fails, the connection is gone, and the transaction with it."""
        change_log.forget()
        try:
            with suppress(PipelineAborted):  # so says everything that was sent behind what failed
                self.open.close()
            self.raw.rollback()
        except Error:
            connection.close()


def _extend_log(version: int) -> None:
    """Make partitions ahead of a version, now that the write lock is free; what cannot be made is tried again with the
    next write."""
    try:
        with transaction.atomic(durable=True), binary_cursor() as cursor:
            change_log.extend(cursor, version)
    except OperationalError as error:
        logger.warning("no partition of the change log was made ahead: %s", cause(error))


class _Transaction:
    """One batch on its way into the database."""

    def __init__(self, raw: Any, batch: Batch, known: Stored, *, now: datetime) -> None:
        self.raw = raw
        self.batch = batch
        self.stored = _stored(batch, known)
        self.base = 0  # the newest version before this batch
        self.at = _BEFORE
        self.prepared = prepare(batch, batch.settle(self.stored, {}, now=now))
        self.committed: Any = None

    def send(
        self,
        pipeline: Pipeline,
        fence: Fence | None,
        make_room: Callable[[int], None],
        *,
        sure: bool,
        timed: bool,
    ) -> None:
        """Take the write lock, look what has moved, and send everything up to the commit. What the batch creates is
        looked for beforehand only to be `sure`: it is hardly ever there, and the database says so where it is.

        Raises Fenced and UniqueViolation; the latter may come with `end` as well.
        """
        batch, stored = self.batch, self.stored
        created = set() if sure else batch.created()
        seen = {ref: one for ref, one in stored.items() if one is not None or ref not in created}
        guards, count = batch.guards(), len(self.prepared.settled.lines)
        self.raw.execute("BEGIN")
        locked = self._run(_LOCK, (count,))
        held = self._run(_FENCE, (fence.name, fence.shard, fence.epoch)) if fence is not None else None
        moves = [self._run(*one) for one in moved_queries(seen)]
        generated = [self._run(*one) for one in generation_queries(guards)]
        rooms = batch.rooms()
        taken = self._run(*promised_query(rooms, by=batch.by.name)) if rooms else None
        # All that was sent is answered, and known to be: to PostgreSQL we are idle now, not busy, so that it ends the
        # transaction should we be paused before the rest is sent (idle_in_transaction_session_timeout).
        pipeline.sync()
        version, self.at = locked.fetchone()  # type: ignore[misc]  # one row always
        self.base = version - count
        if fence is not None and held is not None and held.fetchone() is None:
            raise Fenced(f"lease {fence.name}/{fence.shard} epoch {fence.epoch} has passed")
        make_room(version)
        moved = moved_from(one.fetchall() for one in moves)
        generations = generations_from(guards, (one.fetchall() for one in generated))
        promised = [] if taken is None else [NewReservation(*one) for one in taken.fetchall()]
        if moved or not batch.holds(generations, promised):
            self.prepared = prepare(batch, batch.settle({**stored, **moved}, generations, promised, now=self.at))
            self._run(_SET_VERSION, (self.newest,))
        self._write(self.prepared, leased=fence is None)
        self.raw.execute("COMMIT")
        self.committed = self.raw.execute("SELECT clock_timestamp()") if timed else None

    def end(self, pipeline: Pipeline) -> None:
        """Wait until everything is committed."""
        pipeline.sync()

    def timing(self) -> Timing:
        """Return what it cost, by the database's clock."""
        row = self.committed.fetchone() if self.committed is not None else None
        assert row is not None, "the transaction was not timed"
        return Timing(len(self.prepared.settled.lines), (row[0] - self.at).total_seconds())

    @property
    def newest(self) -> int:
        """Return the newest version it writes."""
        return self.base + len(self.prepared.settled.lines)

    def outcomes(self) -> list[Outcome]:
        """Return what to tell the callers."""
        return _outcomes(self.prepared.settled, versions=range(self.base + 1, self.newest + 1))

    def _run(self, query: str, params: Sequence[Any] = ()) -> BinaryCursor:
        return BinaryCursor(self.raw).run(query, params)

    def _write(self, prepared: Prepared, *, leased: bool) -> None:
        for shape in prepared.shapes:
            statement = getattr(shape.table, shape.operation)
            self._run(statement, (self.base, self.base, *shape.columns, self.batch.by.name, self.at, shape.lines))
        for one in prepared.beside:
            self._run(one.query, one.columns)
        for query, params in (
            *due.marking(prepared.marks, at=self.at),
            *due.finishing(prepared.ends, at=self.at, leased=leased),
        ):
            self._run(query, params)
        settled = prepared.settled
        if settled.lines or settled.marks:
            names = ",".join(sorted({mark.controller for mark in settled.marks}))
            self._run(_NOTIFY, (CHANGES_CHANNEL, str(self.newest), names, due.CHANNEL, names))


def _clock(cursor: BinaryCursor) -> datetime:
    row = cursor.run("SELECT clock_timestamp()").fetchone()
    assert row is not None
    moment: datetime = row[0]
    return moment


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
