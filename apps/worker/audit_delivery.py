"""Sends audit events to the webhook, and removes old ones, in a thread of each process of the pool.

A lease makes sure that one thread works at a time. An event is marked after the webhook has accepted it. So each is
sent at least once; receivers tell copies by auditID.
"""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from typing import Final

import orjson
from django.conf import settings
from django.db import OperationalError, close_old_connections
from django.db.models import QuerySet
from msgspec.structs import fields, replace

from apps.objects.models import AuditEvent as Stored
from apps.objects.refusal import cause
from apps.objects.store import DjangoStore
from apps.worker.channels import NotSent, post_json
from apps.worker.turn import holder
from controlplane.authorization.audit_event import event_list
from controlplane.engine.decision import Decision, Drop, Save
from controlplane.engine.state import Actor, HeldLease
from controlplane.kinds.rows import AuditEvent

log = logging.getLogger(__name__)

LEASE: Final = "audit"
LOOK_SECONDS: Final = 2.0
LEASE_SECONDS: Final = 60.0  # longer than a delivery with all its limits
BATCH: Final = 400  # events in one request
REMOVED: Final = 1000  # events that are removed at once
FIRST_RETRY_SECONDS: Final = 2.0
LONGEST_RETRY_SECONDS: Final = 300.0
BY: Final = Actor("audit")
_NAMES: Final = [field.name for field in fields(AuditEvent)]


class AuditDelivery:
    """Sends and removes audit events. One object for each process."""

    def __init__(self, store: DjangoStore, stopping: threading.Event) -> None:
        self._store = store
        self._stopping = stopping
        self._holder = holder()
        self._wait = LOOK_SECONDS
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended. `stopping` must be set before."""
        self._thread.join(seconds)

    def _run(self) -> None:
        lease: HeldLease | None = None
        while not self._stopping.wait(self._wait):
            self._wait = LOOK_SECONDS
            try:
                lease = self._store.take_lease(LEASE, 0, holder=self._holder, seconds=LEASE_SECONDS)
                if lease is not None:
                    self.work()
            except OperationalError as error:
                log.warning("audit events wait: %s", cause(error))
            except Exception:
                log.exception("audit events could not be sent or removed; this is tried again")
            finally:
                close_old_connections()
        try:
            if lease is not None:
                self._store.drop_lease(lease, holder=self._holder)
        except OperationalError:
            pass  # the lease expires
        finally:
            close_old_connections()

    def work(self) -> None:
        """Send the events that wait, a batch at a time, and remove events that are too old."""
        now = self._store.now()
        if old := _read(Stored.objects.filter(at__lt=now - timedelta(days=settings.AUDIT_DAYS))[:REMOVED]):
            self._store.apply([(None, Decision(changes=tuple(map(Drop, old))))], by=BY)
        waiting = Stored.objects.filter(unsent=True).order_by("at")
        while settings.AUDIT_WEBHOOK and not self._stopping.is_set() and (due := _read(waiting[:BATCH])):
            try:
                events = [orjson.loads(row.document) for row in due]
                post_json(settings.AUDIT_WEBHOOK, settings.AUDIT_WEBHOOK_TOKEN, event_list(events))
            except NotSent as error:
                self._failures += 1
                self._wait = min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(self._failures, 20))
                log.warning("%d audit events were not sent, they are tried again: %s", len(due), error)
                return
            self._failures = 0
            sent = tuple(Save(replace(row, unsent=False)) for row in due)
            self._store.apply([(None, Decision(changes=sent))], by=BY)


def _read(query: QuerySet[Stored]) -> list[AuditEvent]:
    return [AuditEvent(**values) for values in query.values(*_NAMES)]
