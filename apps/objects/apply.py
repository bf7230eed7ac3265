"""apply: the only writer of objects. The API, the admin, commands and controllers all write through it.

A transaction takes its resourceVersions first. The row of that counter is the global write lock, so the order of
versions is the order of commits. Then the transaction checks the lease, finds out which objects have changed since they
were read, and writes objects, change log, projections, row-native values and due rows. At last it notifies listeners.
The number of statements depends on the number of tables, not on the number of objects.

Usually nothing has changed. So a transaction is first sent as a whole, with statements that fail if something has. Then
it is sent again in two steps: what has changed is read under the lock, the decisions are compared with it, and what
still holds is written.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from itertools import chain, islice
from typing import Any

from django.db import DEFAULT_DB_ALIAS, OperationalError, connection, connections, transaction
from psycopg import Error, Pipeline
from psycopg.errors import (
    CheckViolation,
    IdleInTransactionSessionTimeout,
    PipelineAborted,
    ReadOnlySqlTransaction,
    SerializationFailure,
    UniqueViolation,
)

from apps.objects import change_log, creation
from apps.objects.arrays import BinaryCursor, register_arrays
from apps.objects.batch import Batch, Item, Texts, batches, items_of, unknown
from apps.objects.lookup import Stored, generation_queries, generations_from, load, moved_from, moved_queries
from apps.objects.refusal import cause
from apps.objects.transaction import NO_TIME, Timing, Transaction, assumed, outcomes_of
from controlplane.apimachinery.meta import Object, Ref
from controlplane.engine.decision import Decision
from controlplane.engine.routing import Router
from controlplane.engine.state import Actor, Claim, Complete, HeldLease, Outcome

logger = logging.getLogger(__name__)

COMPLETED_AT_ONCE = 64  # decisions; most of them fit a transaction together
TRANSACTION_BYTES = 4 << 20  # more than the statements of one transaction take
# Something is not as a transaction assumed: an object, guard, lease or reservation has changed; an object that it
# creates exists; the change log has no partition for its versions.
_ASSUMED_WRONGLY = (SerializationFailure, UniqueViolation, CheckViolation)


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
    complete: Complete | None = None,
) -> list[Outcome]:
    """Write decisions, each whole or not at all; return their outcomes. See `controlplane.engine.state.Store.apply`.

    `written`: a list to which the outcomes of stored decisions are added, even if a later decision raises an error.
    """
    texts = None if dry_run else Texts()
    known, now = dict[Ref, Object | None](), NO_TIME
    if complete is not None and dry_run:
        made = complete([decision for _, decision in decisions])
        decisions = [(claim, decision) for (claim, _), decision in zip(decisions, made, strict=True)]
    elif complete is not None:
        with binary_cursor() as cursor:
            now = _clock(cursor)
        completed = _completed(decisions, complete, by=by, texts=texts)
        parts = (Batch(part, router=router, by=by, texts=texts) for part in completed)
        return _Writer(known, now, lease=lease, observe=observe).write(parts, [] if written is None else written)
    items = items_of(decisions, by=by)
    # A batch is checked and encoded when it is asked for: while the database writes the one before it.
    parts = (Batch(part, router=router, by=by, texts=texts) for part in batches(items, texts=texts))
    refs = unknown(items)
    if refs or dry_run:
        with binary_cursor() as cursor:
            if refs:
                known, now = load(cursor, refs, unopened=True), _clock(cursor)
            if dry_run:
                return [outcome for batch in parts for outcome in _dry_run(cursor, batch, known)]
    return _Writer(known, now, lease=lease, observe=observe).write(parts, [] if written is None else written)


def _completed(
    decisions: Sequence[tuple[Claim | None, Decision]], complete: Complete, *, by: Actor, texts: Texts | None
) -> Iterator[list[Item]]:
    """Yield decisions in batches. Each part is completed when it is asked for: while the one before it is written."""
    for first in range(0, len(decisions), COMPLETED_AT_ONCE):
        part = decisions[first : first + COMPLETED_AT_ONCE]
        made = complete([decision for _, decision in part])
        yield from batches(
            items_of([(claim, one) for (claim, _), one in zip(part, made, strict=True)], by=by), texts=texts
        )


def _dry_run(cursor: BinaryCursor, batch: Batch, known: Stored) -> list[Outcome]:
    """Return the outcomes that a batch would have. Nothing is written and no lock is taken."""
    stored = assumed(batch, known)
    stored |= moved_from([cursor.run(*query).fetchall() for query in moved_queries(stored)])
    guarded = {guard.ref for guard in batch.guards()}
    generations = generations_from(guarded, [cursor.run(*query).fetchall() for query in generation_queries(guarded)])
    return outcomes_of(batch.settle(stored, generations, now=_clock(cursor)), versions=None)


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
        self.assumes = True  # that nothing has changed since the decisions were made

    def write(self, parts: Iterator[Batch], outcomes: list[Outcome]) -> list[Outcome]:
        """Write batches in order, add their outcomes to `outcomes` and return it.

        Raises LeaseLost. Batches that were committed before the error stay written; their outcomes are in `outcomes`.
        """
        if connection.in_atomic_block:
            raise RuntimeError("apply is a transaction of its own and cannot be a part of another")
        before: Transaction | None = None
        first = list(islice(parts, 2 if self.lease is None else 0))
        with _errors_of_django():
            if len(first) == 1 and creation.creates_only(first[0].items):
                before = self._create(first[0])
                self.assumes = not self.read_created
        if before is not None:
            outcomes += before.outcomes()
        else:
            before = self._write_each(chain(first, parts), outcomes)
        if before is not None and not change_log.has_room(before.newest):
            extend_log(before.newest)
        return outcomes

    def _write_each(self, parts: Iterator[Batch], outcomes: list[Outcome]) -> Transaction | None:
        """Write batches in a pipeline; return the last transaction. Outcomes are made while the database writes."""
        before: Transaction | None = None
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

    def _after(self, before: Transaction | None, parts: Iterator[Batch], outcomes: list[Outcome]) -> Transaction | None:
        """Pack the next batch, end the transaction before it, and send it; None: there is no other batch.

        The outcomes of the transaction before are added when the next is sent, or failed.
        """
        ended: Transaction | None = None
        try:
            try:
                batch = next(parts, None)
                current = None if batch is None else Transaction(self.raw, batch, self.known, now=self.now)
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

    def _create(self, batch: Batch) -> Transaction | None:
        """Write a batch that only creates objects by one statement; None: nothing is written, it needs several."""
        current = Transaction(self.raw, batch, self.known, now=self.now)
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

    def _send(self, current: Transaction) -> None:
        try:
            if self.assumes and current.can_assume():
                current.send_whole(self.lease, timed=self.observe is not None)
            else:
                self._send_compared(current, read_created=self.read_created)
        except _ASSUMED_WRONGLY as error:
            self._send_again(current, error)

    def _end(self, current: Transaction) -> None:
        try:
            current.end(self.pipeline)
        except _ASSUMED_WRONGLY as error:
            self._send_again(current, error)
            current.end(self.pipeline)
        if self.observe is not None:
            self.observe(current.timing())

    def _send_again(self, current: Transaction, error: Error) -> None:
        """Repeat a transaction that assumed wrongly. The objects that it creates are read as well: they may exist.

        What has changed once may change again soon, so the next transactions assume nothing. If an object existed, they
        read what they create, too: an Event that repeats seldom repeats alone.
        """
        self.assumes = False
        self.read_created = self.read_created or isinstance(error, UniqueViolation)
        self._abandon()
        self._begin()
        self._send_compared(current, read_created=True)

    def _send_compared(self, current: Transaction, *, read_created: bool) -> None:
        timed = self.observe is not None
        current.send(self.pipeline, self.lease, self._make_room, read_created=read_created, timed=timed)

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


def _clock(cursor: BinaryCursor) -> datetime:
    row = cursor.run("SELECT clock_timestamp()").fetchone()
    assert row is not None
    moment: datetime = row[0]
    return moment
