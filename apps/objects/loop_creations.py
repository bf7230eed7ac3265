"""Objects that are created on the event loop: one statement for all decisions that wait, over a session of its own.

The rows are those that `apply` writes, because both pack them with the same functions and run the same statement.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from struct import Struct
from time import perf_counter
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import pq
from psycopg.errors import CheckViolation, DataCorrupted, UniqueViolation, error_from_result

from apps.objects import creation, instruments
from apps.objects.arrays import Array, shown
from apps.objects.batch import Batch, Item, Settled, Texts, refs_of
from apps.objects.decision_log import log_outcomes
from apps.objects.loop_session import LoopSession, PreparedStatement
from apps.objects.statements import prepare
from apps.objects.transaction import CHANGES_CHANNEL, Timing, outcomes_of
from controlplane.engine.decision import Decision
from controlplane.engine.routing import Router
from controlplane.engine.state import Actor, Outcome

log: Final = logging.getLogger(__name__)

SESSION: Final = "lifeboat creates objects"
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_eight: Final = Struct("!q")
_interval: Final = Struct("!qii")
# Nothing was written, and writing in another way gives the right answer: an object exists already, the log has no
# partition, or a namespace has changed.
_OTHER_WAY: Final = (UniqueViolation, CheckViolation, DataCorrupted)


class CreatedObjects(NamedTuple):
    """The outcomes of all decisions, the database's time when it had the write lock, and the newest version."""

    outcomes: Sequence[Outcome]
    at: datetime
    newest: int


Done = Callable[[CreatedObjects | Exception | None], None]
"""Takes what was created. None: nothing, and another way has to be taken. An error: that of the database."""


def is_creation(decision: Decision) -> bool:
    """Test whether a decision may be written here: it creates objects and does nothing else."""
    return not decision.events and creation.creates_only([Item(None, decision, [], [])])


class LoopCreations(LoopSession):
    """The session that creates. `seconds`: a statement that is not answered in this time ends the session."""

    def __init__(self, router: Router, *, seconds: float) -> None:
        super().__init__(SESSION)
        self._router = router
        self._seconds = seconds

    def start(
        self, decisions: Sequence[Decision], *, by: Actor, now: datetime, namespaces: Mapping[str, int], done: Done
    ) -> None:
        """Write decisions for which `is_creation` holds, all or none of them. No two of them create the same object.

        `now`: the database's time. `namespaces`: the versions in which their namespaces were seen.
        """
        began = perf_counter()
        items = [Item(None, decision, refs_of(decision), []) for decision in decisions]
        batch = Batch(items, router=self._router, by=by, texts=Texts())
        prepared = prepare(batch, batch.settle(batch.expected(), {}, now=now))
        if not creation.is_whole(prepared):
            done(None)
            return
        query, params = creation.statement(batch, prepared, channel=CHANGES_CHANNEL, namespaces=namespaces)
        statement = _statement(query, tuple(map(_type_of, params)))
        sent = perf_counter()

        def answered(result: pq.abc.PGresult | None) -> None:
            found = _created(result, prepared.settled, sent)
            if isinstance(found, CreatedObjects):
                pairs = [(None, decision) for decision in decisions]
                log_outcomes(pairs, found.outcomes, by=by, seconds=perf_counter() - began)
            done(found)

        self.run(statement, list(map(_packed, params)), answered, within=self._seconds)


def _created(result: pq.abc.PGresult | None, settled: Settled, sent: float) -> CreatedObjects | Exception | None:
    """Return what a statement did. `sent`: when it was sent, by this process's clock."""
    if result is None:
        return psycopg.OperationalError("the session ended before the database answered")
    if result.status != pq.ExecStatus.TUPLES_OK:
        return _failed(error_from_result(result))
    (base,) = _eight.unpack(result.get_value(0, 0) or b"")
    at = _EPOCH + timedelta(microseconds=_eight.unpack(result.get_value(0, 1) or b"")[0])
    waited = _interval.unpack(result.get_value(0, 2) or b"")[0] / 1e6  # for the lock; less than a day
    newest = base + len(settled.lines)
    instruments.transaction(Timing(len(settled.lines), max(0.0, perf_counter() - sent - waited)))
    return CreatedObjects(outcomes_of(settled, versions=range(base + 1, newest + 1)), at, newest)


def _failed(error: psycopg.Error) -> psycopg.Error | None:
    """Return the error of a statement that wrote nothing if it concerns all creations: the database is away or busy."""
    if isinstance(error, psycopg.OperationalError):
        return error
    if not isinstance(error, _OTHER_WAY):
        log.warning("creations are written one by one, because PostgreSQL answered with SQLSTATE %s", error.sqlstate)
    return None


def _packed(value: Any) -> bytes:
    if isinstance(value, Array):
        return value.packed
    return _eight.pack(value) if isinstance(value, int) else shown(value).encode()


def _type_of(value: Any) -> int:
    """Return the type of a parameter as PostgreSQL numbers types."""
    if isinstance(value, Array):
        return value.oid
    return 20 if isinstance(value, int) else 25  # bigint, text


@lru_cache(maxsize=creation.MOST_KEPT)
def _statement(query: str, types: tuple[int, ...]) -> PreparedStatement:
    """Return a statement of `creation`, with the numbers of its parameters in it."""
    parts = query.split("%s")
    assert len(parts) == len(types) + 1, "each parameter has a place"
    text = parts[0] + "".join(f"${number}{part}" for number, part in enumerate(parts[1:], start=1))
    return PreparedStatement(f"create {hash((query, types)):x}".encode(), text.replace("%%", "%").encode(), types)
