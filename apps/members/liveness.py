"""Presence: a members process shows that it lives, and gives back what a dead one before it had claimed.

Claims carry no name and run out by themselves after half a minute. Each living process therefore holds one of a few
leases of its own; whoever has just begun and finds nobody else there knows that all older claims are a dead one's.
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
from controlplane.engine.state import Fence

log = logging.getLogger(__name__)

NAME = "members"
LONGEST_SECONDS = 5.0


class Presence:
    """One process's. All calls ask the database and belong into a thread."""

    def __init__(self, store: DjangoStore, controllers: Collection[str]) -> None:
        self.store = store
        self.controllers = dict.fromkeys(controllers, 1)
        self.holder = holder()
        self.seconds = min(LONGEST_SECONDS, float(settings.LEASE_SECONDS))
        self.fence: Fence | None = None
        self._began: datetime | None = None  # None: older claims have been given back, or have run out

    def begin(self) -> None:
        """Take a place, and give older claims back where nobody else is there. Before anything is claimed."""
        self._began = self.store.now()
        self.renew()

    def renew(self) -> None:
        """Keep the place; while older claims may be a dead process's, look whether anybody else is there."""
        try:
            self._hold()
            if self._began is not None:
                self._inherit(self._began)
        finally:
            close_old_connections()

    def leave(self) -> None:
        """Give the place back: whoever comes next is alone at once."""
        try:
            if self.fence is not None:
                self.store.drop_lease(self.fence, holder=self.holder)
        except OperationalError:
            pass  # it expires
        finally:
            close_old_connections()

    def _hold(self) -> None:
        self.fence = take_presence_lease(self.store, NAME, self.fence, holder=self.holder, seconds=self.seconds)

    def _inherit(self, began: datetime) -> None:
        runs_out = began + timedelta(seconds=CLAIM_SECONDS)
        others = Lease.objects.filter(name=NAME, until__gt=Now()).exclude(holder=self.holder)
        if self.fence is not None and not others.exists():
            self.store.take_over(self.controllers, shard=0, until=runs_out)
            self._began = None
            log.info("members: nobody else is there; what earlier processes had claimed is due again")
        elif self.store.now() >= runs_out:
            self._began = None
