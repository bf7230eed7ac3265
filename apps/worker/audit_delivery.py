"""Sends audit events to the webhook, and removes old ones.

An event is marked after the webhook has accepted it. So each is sent at least once, and a copy has the same auditID.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Final

import orjson
from django.conf import settings
from django.db.models import QuerySet
from msgspec.structs import fields, replace

from apps.objects.models import AuditEvent as Stored
from apps.worker.channels import NotSent, post_json
from apps.worker.clock import monotonic_seconds
from apps.worker.leased_thread import LEASE_SECONDS, LOOK_SECONDS, SELDOM_SECONDS, LeasedThread
from controlplane.authorization.audit_event import event_list
from controlplane.engine.decision import Decision, Drop, Save
from controlplane.engine.state import Actor
from controlplane.kinds.rows import AuditEvent

log = logging.getLogger(__name__)

BATCH: Final = 400  # events in one request
REMOVED: Final = 1000  # events that are removed at once
MORE_SECONDS: Final = 0.5  # until the next are removed: other writers wait for each removal
SENDING_SECONDS: Final = LEASE_SECONDS / 2  # for so long requests are sent under one lease
FIRST_RETRY_SECONDS: Final = 2.0
LONGEST_RETRY_SECONDS: Final = 300.0
BY: Final = Actor("audit")
_NAMES: Final = [field.name for field in fields(AuditEvent)]


class AuditDelivery(LeasedThread):
    """Sends and removes audit events."""

    name = "audit"
    subject = "audit events"
    _failures = 0  # in a row
    _send_at = 0.0  # when to send again, on the monotonic clock

    def work(self) -> float:
        """Remove events that are too old, and send the events that wait.

        Returns after how many seconds to work again. 0: more wait, and the lease has to be renewed first. Otherwise
        another process would send the same events.
        """
        is_all_removed = self._remove()
        if (wait := self._send_at - monotonic_seconds()) <= 0:
            wait = self._send()
            self._send_at = monotonic_seconds() + wait
        return wait if is_all_removed else min(wait, MORE_SECONDS)

    def _remove(self) -> bool:
        """Remove events that are too old. Return whether none are left."""
        too_old = self.store.now() - timedelta(days=settings.AUDIT_DAYS)
        if old := _read(Stored.objects.filter(at__lt=too_old)[:REMOVED]):
            self.store.apply([(None, Decision(changes=tuple(map(Drop, old))))], by=BY)
        return len(old) < REMOVED

    def _send(self) -> float:
        """Send the events that wait, a batch at a time. Return after how many seconds to send again.

        With each failure in a row this becomes longer.
        """
        ends = monotonic_seconds() + SENDING_SECONDS
        waiting = Stored.objects.filter(unsent=True).order_by("at")
        while settings.AUDIT_WEBHOOK and not self.stopping.is_set() and (due := _read(waiting[:BATCH])):
            try:
                events = [orjson.loads(row.document) for row in due]
                post_json(settings.AUDIT_WEBHOOK, settings.AUDIT_WEBHOOK_TOKEN, event_list(events))
            except NotSent as error:
                self._failures += 1
                log.warning("%d audit events were not sent, they are tried again: %s", len(due), error)
                return min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(self._failures, 20))
            self._failures = 0
            sent = tuple(Save(replace(row, unsent=False)) for row in due)
            self.store.apply([(None, Decision(changes=sent))], by=BY)
            if monotonic_seconds() >= ends:
                return 0.0
        return LOOK_SECONDS if settings.AUDIT_WEBHOOK else SELDOM_SECONDS


def _read(query: QuerySet[Stored]) -> list[AuditEvent]:
    return [AuditEvent(**values) for values in query.values(*_NAMES)]
