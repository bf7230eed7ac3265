"""The transaction that writes one batch: takes the write lock, checks what the batch rests on, writes, and notifies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, NamedTuple

from django.conf import settings
from msgspec.structs import replace
from psycopg import Pipeline

from apps.objects import creation, due, write_lock
from apps.objects.arrays import BinaryCursor
from apps.objects.batch import Batch, Line, Settled, unknown
from apps.objects.lookup import (
    Stored,
    assumption_queries,
    generation_queries,
    generations_from,
    moved_from,
    moved_queries,
    nothing_reserved_query,
    quota_query,
    reserved_query,
    used_from,
)
from apps.objects.statements import Prepared, prepare
from controlplane.apimachinery.meta import Object, Ref
from controlplane.engine.capacity_conflicts import NewReservation, NewReservations
from controlplane.engine.state import HeldLease, LeaseLost, Outcome
from controlplane.kinds.rows import Eviction

CHANGES_CHANNEL = "lifeboat"  # payload: the newest version
LOGGED_ROWS = (Eviction,)  # a trigger gives their changes versions (migration 0019 of failover)

_LEASE_HELD = f"SELECT objects_assumed('the lease', 1 - (SELECT count(*) FROM ({write_lock.HELD_LEASE}) AS held))"
_NOTIFY = f"""
    SELECT pg_notify(%s, ({write_lock.BASE} + %s::bigint)::text), CASE WHEN %s <> '' THEN pg_notify(%s, %s) END"""

NO_TIME = datetime.min.replace(tzinfo=UTC)  # stands for a time that the database has not been asked for yet


class Timing(NamedTuple):
    """The cost of one transaction: lines written, and seconds for which the write lock was held."""

    lines: int
    locked_seconds: float


class Transaction:
    """The transaction that writes one batch."""

    def __init__(self, raw: Any, batch: Batch, known: Stored, *, now: datetime) -> None:
        self.raw = raw
        self.batch = batch
        self.stored = assumed(batch, known)
        self.base = 0  # the newest version before this batch
        self.at = NO_TIME
        self.prepared = prepare(batch, batch.settle(self.stored, {}, now=now))
        self.locked: BinaryCursor | None = None  # has the answer to the lock of a transaction that is sent as a whole
        self.committed: Any = None
        self.locked_seconds = 0.0

    def create(self) -> None:
        """Write the batch, which only creates objects, and commit it. Raises UniqueViolation and CheckViolation."""
        began = perf_counter()
        made = creation.create(self.raw, self.batch, self.prepared, channel=CHANGES_CHANNEL)
        self.base, self.at = made.base, made.at
        self.locked_seconds = max(0.0, perf_counter() - began - made.waited.total_seconds())

    def can_assume(self) -> bool:
        """Test whether the database can check under the lock all that the batch rests on, and limit the transaction.

        It cannot check quotas: each decision of the batch uses some of what is left.
        """
        is_limited = self.raw.info.server_version >= write_lock.LIMITED_SINCE
        return is_limited and not self.batch.quota_guards()

    def send_whole(self, lease: HeldLease | None, *, timed: bool) -> None:
        """Send everything up to the commit without waiting for an answer. `timed`: ask for the time of the commit.

        If something is not as the batch assumes, this or `end` raises SerializationFailure, UniqueViolation or
        CheckViolation. Then nothing is written.
        """
        compared = self._compared(read_created=False)
        self.raw.execute("BEGIN")
        self.locked = self._lock()
        if lease is not None:
            self._run(_LEASE_HELD, (lease.name, lease.shard, lease.epoch))
        for query in assumption_queries(compared, self.batch.guards()):
            self._run(*query)
        if guards := self.batch.capacity_guards():
            self._run(*nothing_reserved_query(guards, by=self.batch.by.name))
        self._write_and_commit(leased=lease is None, timed=timed)

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
        compared = self._compared(read_created=read_created)
        guarded = {guard.ref for guard in batch.guards()}
        self.raw.execute("BEGIN")
        locked = self._lock()
        held = self._run(write_lock.HELD_LEASE, (lease.name, lease.shard, lease.epoch)) if lease is not None else None
        moved_answers = [self._run(*query) for query in moved_queries(compared)]
        generation_answers = [self._run(*query) for query in generation_queries(guarded)]
        capacity_guards = batch.capacity_guards()
        reserving = self._run(*reserved_query(capacity_guards, by=batch.by.name)) if capacity_guards else None
        namespaces = {guard.namespace for guard in batch.quota_guards()}
        using = self._run(*quota_query(namespaces)) if namespaces else None
        # After the sync all statements are answered and the session counts as idle in a transaction. If this process is
        # paused before it sends the rest, PostgreSQL ends the transaction (idle_in_transaction_session_timeout).
        pipeline.sync()
        self._read_lock(locked)
        if lease is not None and held is not None and held.fetchone() is None:
            raise LeaseLost(f"lease {lease.name}/{lease.shard} epoch {lease.epoch} has passed")
        make_room(self.newest)
        moved = moved_from(answer.fetchall() for answer in moved_answers)
        generations = generations_from(guarded, (answer.fetchall() for answer in generation_answers))
        reserved = NewReservations(() if reserving is None else (NewReservation(*row) for row in reserving.fetchall()))
        used = {} if using is None else used_from(using.fetchall())
        if moved or not batch.holds(generations, reserved, used):
            self.prepared = prepare(batch, batch.settle({**stored, **moved}, generations, reserved, used, now=self.at))
            self._run(write_lock.SET_VERSION, (self.newest,))
        self._write_and_commit(leased=lease is None, timed=timed)

    def end(self, pipeline: Pipeline) -> None:
        """Wait until the transaction is committed."""
        pipeline.sync()
        if self.locked is not None:
            self._read_lock(self.locked)

    def _compared(self, *, read_created: bool) -> dict[Ref, Object | None]:
        """Return the objects to compare with what is stored: all, or all but those that are created."""
        created = set() if read_created else self.batch.created()
        return {ref: obj for ref, obj in self.stored.items() if obj is not None or ref not in created}

    def _lock(self) -> BinaryCursor:
        self.locked = None
        count = len(self.prepared.settled.lines)
        limit = f"{int(1000 * settings.LEASE_SECONDS)}ms"  # a process that is paused for longer has lost its lease
        if count:
            return self._run(write_lock.TAKE, (count, count, limit))
        return self._run(write_lock.TAKE_ONLY, (limit,))

    def _read_lock(self, locked: BinaryCursor) -> None:
        """Read what the statement that takes the lock has returned."""
        row = locked.fetchone()
        assert row is not None, "the statement returns a row"
        self.base, self.at = row[:2]

    def _write_and_commit(self, *, leased: bool, timed: bool) -> None:
        self._write(self.prepared, leased=leased)
        self.raw.execute("COMMIT")
        self.committed = self.raw.execute("SELECT clock_timestamp()") if timed else None

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
        versions = range(self.base + 1, self.newest + 1)
        return outcomes_of(self.prepared.settled, versions=versions, objects=not self.batch.by.controller)

    def _run(self, query: str, params: Sequence[Any] = ()) -> BinaryCursor:
        return BinaryCursor(self.raw).run(query, params)

    def _write(self, prepared: Prepared, *, leased: bool) -> None:
        for group in prepared.groups:
            statement = getattr(group.table, group.operation)
            self._run(statement, (*group.columns, group.actor, group.lines))
        for other in prepared.other_rows:
            self._run(other.query, other.columns)
        for query, params in (
            *due.marking_written(prepared.marks),
            *due.finishing(prepared.ends, leased=leased),
        ):
            self._run(query, params)
        settled = prepared.settled
        names = due.announced(settled.marks)
        if settled.lines or any(isinstance(change.row, LOGGED_ROWS) for change in settled.row_changes):
            self._run(_NOTIFY, (CHANGES_CHANNEL, len(settled.lines), names, due.CHANNEL, names))
        elif names:
            self._run(due.NOTIFY, (due.CHANNEL, names))


def assumed(batch: Batch, known: Stored) -> dict[Ref, Object | None]:
    """Return the objects that a batch assumes to be stored: those its decisions expect, and those in `known`.

    An Event, or the object of a Delete, that is not in `known` is assumed not to be stored.
    """
    return {**batch.expected(), **{ref: known.get(ref) for ref in unknown(batch.items)}}


def outcomes_of(settled: Settled, *, versions: range | None, objects: bool = True) -> list[Outcome]:
    """Return the outcome of each decision. `versions`: those of the lines; None: it was a dry run. `objects`: with the
    objects as they are stored."""
    outcomes: list[Outcome] = []
    for verdict in settled.verdicts:
        if verdict.lost:
            outcomes.append(Outcome(lost=verdict.lost))
            continue
        numbers = [versions[result] if versions and isinstance(result, int) else 0 for result in verdict.results]
        stored = (
            _stored(settled.lines[result], number) if isinstance(result, int) else result
            for result, number in zip(verdict.results, numbers, strict=True)
        )
        outcomes.append(Outcome("", tuple(numbers), tuple(stored) if objects else ()))
    return outcomes


def _stored(line: Line, version: int) -> Object | None:
    """Return the object of a line as it is stored; None: it was removed. `version` 0: it was a dry run."""
    obj = line.new
    if line.removed or not version:
        return None if line.removed else obj
    return replace(obj, metadata=replace(obj.metadata, resource_version=str(version)))
