"""DjangoStore: the Store protocol on PostgreSQL. Tests hold it to the same contract as MemoryStore."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import lru_cache, partial
from struct import error as StructError
from typing import Any

from django.db import DataError, IntegrityError, OperationalError, transaction
from psycopg.errors import ProgramLimitExceeded

from apps.objects import change_log, clock_put_back, due, instruments, leases, tracing
from apps.objects.apply import apply, binary_cursor
from apps.objects.arrays import BinaryCursor
from apps.objects.decision_log import log_outcomes
from apps.objects.grouping import Groups
from apps.objects.legible_state import LegibleDjangoState
from apps.objects.lookup import look
from apps.objects.refusal import LOCKED, sqlstate
from apps.objects.state import DjangoState
from apps.objects.transaction import Timing
from controlplane.apimachinery.meta import Ref
from controlplane.controllers import CONTROLLERS
from controlplane.engine.controller import Controller
from controlplane.engine.decision import Decision
from controlplane.engine.routing import Router
from controlplane.engine.state import Actor, Claim, Claims, Complete, HeldLease, Mark, Outcome, Unstorable

logger = logging.getLogger(__name__)

# Errors of values: from PostgreSQL, and from packing a value that PostgreSQL's types cannot hold.
_UNSTORABLE = (DataError, IntegrityError, StructError, OverflowError, UnicodeError)


class DjangoStore(DjangoState):
    """A Store. A process needs only one. Its connections are Django's, one per thread.

    `observe` is called with the cost of every transaction that writes.
    """

    def __init__(
        self, *, controllers: Iterable[Controller] = (), observe: Callable[[Timing], None] | None = None
    ) -> None:
        self.router = Router(controllers)
        self.observe = observe
        self.groups = Groups(self.apply)

    def now(self) -> datetime:
        with binary_cursor() as cursor:
            row = cursor.run("SELECT clock_timestamp()").fetchone()
        assert row is not None
        moment: datetime = row[0]
        return moment

    def legible(self) -> LegibleDjangoState:
        return LegibleDjangoState()

    def look(self, ref: Ref) -> tuple[Any, datetime]:
        """Return an object (None: it is not stored) and the time of the store's clock, by one statement."""
        with binary_cursor() as cursor:
            return look(cursor, ref)

    def apply(
        self,
        decisions: Sequence[tuple[Claim | None, Decision]],
        *,
        by: Actor,
        lease: HeldLease | None = None,
        dry_run: bool = False,
        written: list[Outcome] | None = None,
        complete: Complete | None = None,
    ) -> list[Outcome]:
        """`written`: a list to which outcomes are added when they are committed, also before an error."""
        written = [] if written is None else written
        made = list[Decision]()  # as they are completed
        began = time.monotonic()
        try:
            return apply(
                decisions,
                router=self.router,
                by=by,
                lease=lease,
                dry_run=dry_run,
                observe=self.observe,
                written=written,
                complete=None if complete is None else partial(_noted, complete, made),
            )
        except _UNSTORABLE as error:
            raise Unstorable(str(error).partition("\n")[0], written) from error
        except OperationalError as error:  # Django's class for every error that is none of the above
            if isinstance(error.__cause__, ProgramLimitExceeded):
                raise Unstorable(str(error).partition("\n")[0], written) from error
            raise
        finally:
            if not dry_run:
                instruments.conflicts(sum(bool(outcome.lost) for outcome in written), by=by)
                pairs = (
                    decisions if complete is None else list(zip((claim for claim, _ in decisions), made, strict=False))
                )
                tracing.mark_written((decision for _, decision in pairs), written)
                log_outcomes(pairs, written, by=by, seconds=time.monotonic() - began)

    def claim(self, controller: str, *, shard: int, shards: int, limit: int, lease_seconds: float) -> Claims:
        with binary_cursor() as cursor:
            return due.claim(cursor, controller, shard=shard, shards=shards, limit=limit, lease_seconds=lease_seconds)

    def release(self, claims: Sequence[Claim], *, due_at: datetime | None = None) -> None:
        if claims:
            with _writing() as cursor:
                due.release(cursor, claims, due_at=due_at)

    def extend(self, claims: Sequence[tuple[Claim, datetime]], *, lease_seconds: float) -> datetime:
        """Extend claims, given with the times at which they end, to `lease_seconds` from now; return now.

        A claim that has ended is not extended.
        """
        with _writing() as cursor:
            return due.extend(cursor, claims, lease_seconds=lease_seconds)

    def mark(self, controller: str, refs: Collection[Ref], *, due_at: datetime | None = None) -> None:
        if refs:
            marks = due.pack_marks(Mark(controller, ref) for ref in refs)
            with _writing() as cursor:
                _run_all(cursor, due.marking(marks, at=due_at))
                due.notify(cursor, [controller])

    def advance(self, claims: Sequence[Claim], refs: Collection[Ref], *, cursor: str | None) -> None:
        marks = due.pack_marks(Mark(claims[0].controller, ref) for ref in refs)
        with _writing() as writer:
            _run_all(writer, due.marking(marks, at=None))
            due.end_chunk(writer, claims, to=cursor)

    def next_due(self, controllers: Collection[str]) -> datetime | None:
        with binary_cursor() as cursor:
            return due.next_due(cursor, controllers)

    def seconds_until_due(self, shards: Mapping[str, int], *, shard: int) -> dict[str, float]:
        """Return the seconds until each controller can claim a row, in one query; see `due.seconds_until_due`."""
        with binary_cursor() as cursor:
            return due.seconds_until_due(cursor, shards, shard=shard)

    def take_lease(self, name: str, shard: int, *, holder: str, seconds: float) -> HeldLease | None:
        with binary_cursor() as cursor:
            lease = leases.take(cursor, name, shard, holder=holder, seconds=seconds)
        if lease is None and clock_put_back.settle(name, shard, seconds=seconds):
            with binary_cursor() as cursor:
                lease = leases.take(cursor, name, shard, holder=holder, seconds=seconds)
        return lease

    def held_lately(self, seconds: float) -> set[tuple[str, int]]:
        """Return the leases (name, shard) that are held, or were held within the last `seconds`."""
        with binary_cursor() as cursor:
            return leases.held_lately(cursor, seconds)

    def take_over(self, shards: Mapping[str, int], *, shard: int, until: datetime | None = None) -> None:
        """Free the rows that earlier holders of a lease still claim. `shards`: the number of shards by controller.

        `until`: free only claims that end by then, so that the present holder's own claims stay. Earlier holders cannot
        write any more, because `apply` checks the lease. So there is no need to wait until their claims end.
        """
        with _writing() as cursor:
            due.free(cursor, shards, shard=shard, until=until)

    def drop_lease(self, lease: HeldLease, *, holder: str) -> None:
        with binary_cursor() as cursor:
            leases.drop(cursor, lease, holder=holder)

    def trim_log(
        self,
        now: datetime,
        *,
        keep: timedelta | None = None,
        keep_versions: int | None = None,
        keep_bytes: int | None = None,
    ) -> int:
        """Drop the partitions of the change log that are beyond one of these limits; return how many were dropped.

        Each is dropped in a transaction of its own, without the write lock. If a partition is being read, it and the
        partitions after it are left for the next call.
        """
        newest = self.current_version()
        with binary_cursor() as cursor:
            names = change_log.droppable(
                cursor, now=now, newest=newest, keep=keep, keep_versions=keep_versions, keep_bytes=keep_bytes
            )
        for dropped, name in enumerate(names):
            try:
                with transaction.atomic(durable=True), binary_cursor() as cursor:
                    change_log.drop(cursor, name)
            except OperationalError as error:
                if sqlstate(error) != LOCKED:
                    raise
                logger.info("partition %s of the change log is in use; the next cleanup drops it", name)
                return dropped
        return len(names)


def _noted(complete: Complete, made: list[Decision], part: Sequence[Decision]) -> Sequence[Decision]:
    """Return decisions as they are completed, and add them to a list."""
    done = complete(part)
    made.extend(done)
    return done


@contextmanager
def _writing() -> Iterator[BinaryCursor]:
    """Yield a cursor in a transaction that holds the write lock, so that writers of due rows cannot deadlock."""
    with transaction.atomic(durable=True), binary_cursor() as cursor:
        cursor.run(due.WRITE_LOCK)
        yield cursor


def _run_all(cursor: BinaryCursor, queries: Iterable[due.Query]) -> None:
    for query, params in queries:
        cursor.run(query, params)


@lru_cache(maxsize=1)
def store() -> DjangoStore:
    """Return this process's store."""
    return DjangoStore(controllers=CONTROLLERS, observe=instruments.transaction)
