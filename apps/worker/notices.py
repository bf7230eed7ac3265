"""Sends the notices of the outbox. Controllers never wait for it.

A row is marked after its message was accepted. So each notice is sent at least once: a process that ends in between
sends the message again after its restart.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import QuerySet
from django.db.models.functions import Now
from msgspec.structs import fields, replace

from apps.failover import models
from apps.objects.instruments import NOTICES
from apps.objects.outbox import MAIL, WEBHOOK, channels
from apps.objects.store import DjangoStore
from apps.worker.channels import NotSent, mail, post
from apps.worker.clock import monotonic_seconds
from apps.worker.leased_thread import LOOK_SECONDS, LeasedThread
from controlplane.engine.decision import Decision, Drop, Save
from controlplane.engine.state import Actor
from controlplane.kinds.rows import Notice

log = logging.getLogger(__name__)

BATCH: Final = 200  # notices in one message
QUIET_SECONDS: Final = 60.0  # between two messages of a channel that succeeded
FIRST_RETRY_SECONDS: Final = 5.0
LONGEST_RETRY_SECONDS: Final = 900.0
KEEP: Final = timedelta(days=30)  # how long a notice that was sent, or whose channel is not set, stays in the table
NOT_SET: Final = "this channel is not set any more"  # notices wait for it that were stored before
SENDERS: Final[Mapping[str, Callable[[Sequence[Notice]], None]]] = {WEBHOOK: post, MAIL: mail}
BY: Final = Actor("notices")
_NAMES: Final = [field.name for field in fields(Notice)]


class Sender(LeasedThread):
    """Sends what is due."""

    name = "notices"
    subject = "notices"

    def __init__(self, store: DjangoStore, stopping: threading.Event) -> None:
        super().__init__(store, stopping)
        self._sent_at: dict[str, float] = {}  # when this process last sent a message, by channel

    def work(self) -> float:
        """Send one message for each channel that has due notices, mark them, and remove old ones.

        A channel that sent within QUIET_SECONDS is left for the next call. Notices for a channel that is not set any
        more wait until it is set again.
        """
        now, are_set = self.store.now(), channels()
        for channel, send in SENDERS.items():
            if channel not in are_set:
                self._postpone(_due(channel), now=now)
                continue
            last = self._sent_at.get(channel)
            if last is not None and monotonic_seconds() - last < QUIET_SECONDS:
                continue
            if due := _due(channel):
                self._send(channel, send, due, now=now)
        if old := [*_read(_sent_before(now - KEEP)), *_read(_useless_before(now - KEEP, are_set))]:
            self.store.apply([(None, Decision(changes=tuple(map(Drop, old))))], by=BY)
        return LOOK_SECONDS

    def _postpone(self, due: Sequence[Notice], *, now: datetime) -> None:
        if due:
            later = [replace(one, error=NOT_SET, due_at=now + timedelta(seconds=LONGEST_RETRY_SECONDS)) for one in due]
            self.store.apply([(None, Decision(changes=tuple(map(Save, later))))], by=BY)

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
        self.store.apply([(None, Decision(changes=tuple(map(Save, after))))], by=BY)


def back_off(attempts: int) -> timedelta:
    """Return how long to wait after so many attempts: 5 s, 10 s, 20 s, … up to 15 minutes."""
    return timedelta(seconds=min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(attempts - 1, 20)))


def _due(channel: str) -> list[Notice]:
    """Return the due notices of a channel, the oldest first."""
    waiting = models.Notice.objects.filter(channel=channel, sent_at=None, due_at__lte=Now())
    return _read(waiting.order_by("due_at", "key")[:BATCH])


def _sent_before(moment: datetime) -> QuerySet[Any]:
    return models.Notice.objects.filter(sent_at__lt=moment)[:BATCH]


def _useless_before(moment: datetime, are_set: Sequence[str]) -> QuerySet[Any]:
    """Return notices that were never sent, for channels that are not set."""
    waiting = models.Notice.objects.filter(sent_at=None, channel__in=sorted(SENDERS.keys() - set(are_set)))
    return waiting.filter(at__lt=moment)[:BATCH]


def _read(query: QuerySet[Any]) -> list[Notice]:
    return [Notice(**values) for values in query.values(*_NAMES)]
