"""Sends the notices of the outbox, in a thread of each process of the pool. Controllers never wait for it.

A lease makes sure that one thread sends at a time. A row is marked after its message was accepted. So each notice is
sent at least once: a process that ends in between sends the message again after its restart.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import OperationalError, close_old_connections
from django.db.models import QuerySet
from django.db.models.functions import Now
from msgspec.structs import fields, replace

from apps.failover import models
from apps.objects.instruments import NOTICES
from apps.objects.outbox import MAIL, WEBHOOK
from apps.objects.refusal import cause
from apps.objects.store import DjangoStore
from apps.worker.channels import NotSent, mail, post
from apps.worker.clock import monotonic_seconds
from apps.worker.turn import holder
from controlplane.engine.decision import Decision, Drop, Save
from controlplane.engine.state import Actor, HeldLease
from controlplane.kinds.rows import Notice

log = logging.getLogger(__name__)

LEASE: Final = "notices"
LOOK_SECONDS: Final = 2.0
LEASE_SECONDS: Final = 60.0  # longer than both channels take with all their limits
BATCH: Final = 200  # notices in one message
QUIET_SECONDS: Final = 60.0  # between two messages of a channel that succeeded
FIRST_RETRY_SECONDS: Final = 5.0
LONGEST_RETRY_SECONDS: Final = 900.0
KEEP: Final = timedelta(days=30)  # how long a notice that was sent stays in the table
SENDERS: Final[Mapping[str, Callable[[Sequence[Notice]], None]]] = {WEBHOOK: post, MAIL: mail}
BY: Final = Actor("notices")
_NAMES: Final = [field.name for field in fields(Notice)]


class Sender:
    """Sends what is due. One object for each process."""

    def __init__(self, store: DjangoStore, stopping: threading.Event) -> None:
        self._store = store
        self._stopping = stopping
        self._holder = holder()
        self._sent_at: dict[str, float] = {}  # when this process last sent a message, by channel
        self._thread = threading.Thread(target=self._run, name="notices", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended. `stopping` must be set before."""
        self._thread.join(seconds)

    def _run(self) -> None:
        lease: HeldLease | None = None
        while not self._stopping.wait(LOOK_SECONDS):
            try:
                lease = self._store.take_lease(LEASE, 0, holder=self._holder, seconds=LEASE_SECONDS)
                if lease is not None:
                    self.send_due()
            except OperationalError as error:
                log.warning("notices wait: %s", cause(error))
            except Exception:
                log.exception("notices could not be sent; they are tried again")
            finally:
                close_old_connections()
        self._leave(lease)

    def _leave(self, lease: HeldLease | None) -> None:
        try:
            if lease is not None:
                self._store.drop_lease(lease, holder=self._holder)
        except OperationalError:
            pass  # the lease expires
        finally:
            close_old_connections()

    def send_due(self) -> None:
        """Send one message for each channel that has due notices, mark them, and remove old ones.

        A channel that sent within QUIET_SECONDS is left for the next call.
        """
        now = self._store.now()
        for channel, send in SENDERS.items():
            last = self._sent_at.get(channel)
            if last is not None and monotonic_seconds() - last < QUIET_SECONDS:
                continue
            if due := _due(channel):
                self._send(channel, send, due, now=now)
        if old := _read(models.Notice.objects.filter(sent_at__lt=now - KEEP)[:BATCH]):
            self._store.apply([(None, Decision(changes=tuple(map(Drop, old))))], by=BY)

    def _send(
        self, channel: str, send: Callable[[Sequence[Notice]], None], due: Sequence[Notice], *, now: datetime
    ) -> None:
        try:
            send(due)
        except NotSent as error:
            NOTICES.labels(channel, "failed").inc()
            after = [replace(one, attempts=one.attempts + 1, error=str(error)) for one in due]
            after = [replace(one, due_at=now + back_off(one.attempts)) for one in after]
            log.warning("%d notices were not sent by %s, they are tried again: %s", len(due), channel, error)
        else:
            NOTICES.labels(channel, "sent").inc()
            self._sent_at[channel] = monotonic_seconds()
            after = [replace(one, attempts=one.attempts + 1, error="", sent_at=now) for one in due]
            log.info("%d notices were sent by %s", len(due), channel)
        self._store.apply([(None, Decision(changes=tuple(map(Save, after))))], by=BY)


def back_off(attempts: int) -> timedelta:
    """Return how long to wait after so many attempts: 5 s, 10 s, 20 s, … up to 15 minutes."""
    return timedelta(seconds=min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(attempts - 1, 20)))


def _due(channel: str) -> list[Notice]:
    """Return the due notices of a channel, the oldest first."""
    waiting = models.Notice.objects.filter(channel=channel, sent_at=None, due_at__lte=Now())
    return _read(waiting.order_by("due_at", "key")[:BATCH])


def _read(query: QuerySet[Any]) -> list[Notice]:
    return [Notice(**values) for values in query.values(*_NAMES)]
