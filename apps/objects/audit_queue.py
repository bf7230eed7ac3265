"""Audit events of requests that stored nothing: a thread stores them within a second, many in one transaction.

Refusals cost an attacker nothing. So the queue is bounded, and of each address without a login only so many are kept in
a minute. An event that the database cannot hold keeps no other from being stored. The events that are left out are
counted.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from django.db import Error, close_old_connections
from msgspec.structs import replace

from apps.objects import audit
from apps.objects.instruments import AUDIT_LEFT_OUT
from apps.objects.refusal import cause
from apps.objects.store import store
from controlplane.authorization.audit_event import Answered
from controlplane.engine.decision import Decision, Save
from controlplane.engine.state import Actor, Unstorable
from controlplane.kinds.rows import AuditEvent

logger = logging.getLogger(__name__)

FLUSH_SECONDS: Final = 0.5
LONGEST_QUEUE: Final = 10_000  # events; more are left out and counted
AT_ONCE: Final = 1000  # events in one transaction
ADDRESSES: Final = 4096  # whose events are counted in a minute
PER_MINUTE: Final = 60  # events of an address without a login
MINUTE: Final = 60.0
BY: Final = Actor("audit")

Waiting = tuple[audit.Trail, Answered, dict[str, str]]


class AuditQueue:
    """Stores audit events in a thread. `clock` returns seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: deque[Waiting] = deque()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._stopping = False
        self._minute = 0.0
        self._counts: dict[str, int] = {}

    def put(self, trail: audit.Trail, answered: Answered) -> None:
        """Record a request that stored nothing. Returns at once."""
        with self._lock:
            if len(self._waiting) >= LONGEST_QUEUE:
                AUDIT_LEFT_OUT.labels("queue").inc()
                return
            notes = {}
            if trail.caller is None and (left_out := self._over_limit(trail.source)) is not None:
                if left_out == 0:
                    return
                notes = {audit.LEFT_OUT: str(left_out)}
            self._waiting.append((trail, answered, notes))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
                self._thread.start()

    def _over_limit(self, source: str) -> int | None:
        """Return None while an address is within its limit, and 0 beyond it.

        The first event of a later minute gets the number of events that were left out before it.
        """
        now = self._clock()
        before = 0
        if now - self._minute >= MINUTE or len(self._counts) > ADDRESSES:
            before = self._counts.get(source, 0) - PER_MINUTE
            self._minute, self._counts = now, {}
        self._counts[source] = self._counts.get(source, 0) + 1
        if self._counts[source] > PER_MINUTE:
            AUDIT_LEFT_OUT.labels("address").inc()
            return 0
        return before if before > 0 else None

    def stop(self) -> None:
        """Store what waits, and end the thread."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(5.0)
            self._thread = None
        self._stopping = False
        self._wake.clear()

    def _run(self) -> None:
        while True:
            self._wake.wait(FLUSH_SECONDS)
            stopping = self._stopping
            try:
                self._flush()
            except Error as error:
                logger.warning("audit events wait: %s", cause(error))
            except Exception:
                logger.exception("audit events could not be stored; they are tried again")
            finally:
                close_old_connections()
            if stopping:
                return

    def _flush(self) -> None:
        while self._waiting:
            part = [self._waiting[place] for place in range(min(AT_ONCE, len(self._waiting)))]
            now = store().now()
            self._store([trail.finished(answered, now=now, annotations=notes) for trail, answered, notes in part])

    def _store(self, rows: Sequence[AuditEvent]) -> None:
        """Store the events that have waited longest, and forget them. One that the database cannot hold is left out."""
        try:
            store().apply([(None, Decision(changes=tuple(Save(_storable(row)) for row in rows)))], by=BY)
        except Unstorable as error:
            if len(rows) > 1:
                middle = len(rows) // 2
                self._store(rows[:middle])
                self._store(rows[middle:])
                return
            AUDIT_LEFT_OUT.labels("database").inc()
            logger.warning("an audit event is left out, the database cannot hold it: %s", cause(error))
        for row in rows:
            audit.emit(row)
            self._waiting.popleft()


def _storable(row: AuditEvent) -> AuditEvent:
    """Return the row without NUL characters, which PostgreSQL refuses. A request may contain them."""
    texts = {
        name: value.replace("\0", "") for name in row.__struct_fields__ if "\0" in str(value := getattr(row, name))
    }
    return replace(row, **texts) if texts else row


QUEUE: Final = AuditQueue()
