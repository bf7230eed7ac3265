"""Presence of a members process: releases the claims of an earlier process that was killed.

Claims of due rows do not name the process that made them, and expire after half a minute. Each running process holds
a presence lease. A process that starts and finds no other presence lease knows that all older claims belong to
processes that no longer run.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime, timedelta

from django.conf import settings
from django.db import OperationalError, close_old_connections
from django.db.models.functions import Now

from apps.objects.models import Lease
from apps.objects.store import DjangoStore
from apps.worker.presence import take_presence_lease
from apps.worker.turn import holder
from controlplane.engine.run import CLAIM_SECONDS
from controlplane.engine.state import HeldLease

log = logging.getLogger(__name__)

NAME = "members"
LONGEST_SECONDS = 5.0


class Presence:
    """The presence of one process. All methods use the database, so call them in a thread."""

    def __init__(self, store: DjangoStore, controllers: Collection[str]) -> None:
        self.store = store
        self.controllers = dict.fromkeys(controllers, 1)
        self.holder = holder()
        self.seconds = min(LONGEST_SECONDS, float(settings.LEASE_SECONDS))
        self.lease: HeldLease | None = None
        self._began: datetime | None = None  # None: older claims have been released, or have expired

    def begin(self) -> None:
        """Take a lease, and release older claims if no other process runs. Call this before the first claim."""
        self._began = self.store.now()
        self.renew()

    def renew(self) -> bool:
        """Renew the lease of this process. Return whether it released the claims of earlier processes just now.

        It releases them once, as soon as no other process holds a lease. Until they expire it checks that each time.
        """
        try:
            self._take_lease()
            return self._began is not None and self._release_older_claims(self._began)
        finally:
            close_old_connections()

    def leave(self) -> None:
        """Return the lease, so that the next process finds at once that it runs alone."""
        try:
            if self.lease is not None:
                self.store.drop_lease(self.lease, holder=self.holder)
        except OperationalError:
            pass  # the lease expires
        finally:
            close_old_connections()

    def _take_lease(self) -> None:
        self.lease = take_presence_lease(self.store, NAME, self.lease, holder=self.holder, seconds=self.seconds)

    def _release_older_claims(self, began: datetime) -> bool:
        expire_at = began + timedelta(seconds=CLAIM_SECONDS)
        others = Lease.objects.filter(name=NAME, until__gt=Now()).exclude(holder=self.holder)
        if self.lease is not None and not others.exists():
            self.store.take_over(self.controllers, shard=0, until=expire_at)
            self._began = None
            log.info("members: no other members process runs; the claims of earlier ones are due again")
            return True
        if self.store.now() >= expire_at:
            self._began = None
        return False
