"""One turn of a group: take its lease, work off what is due, linger on nudges until the interval ends."""

from __future__ import annotations

import logging
import os
import socket
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta

from django.conf import settings as django_settings
from django.db import OperationalError, close_old_connections

from apps.objects.configuration import Configuration
from apps.objects.refusal import cause
from apps.objects.store import DjangoStore
from apps.worker import restored
from apps.worker.clock import ticks
from apps.worker.groups import GROUPS
from apps.worker.nudges import Nudges
from apps.worker.started_groups import Begun
from controlplane.engine.controller import Controller
from controlplane.engine.run import Report, World, mark_due_at_start, run_batch
from controlplane.engine.state import Fence, Fenced
from controlplane.settings import Settings

log = logging.getLogger(__name__)

LONGEST_WAIT = 1.0  # seconds: the lease is renewed and settings are read again at least this often
STAND_BY_SECONDS = 0.2  # between two looks at a lease another process holds
FAN_OUT_SHARE = 6  # fan-outs may take a sixth of the lease before the others of the group have their turn
TIDY_SECONDS = 600.0  # between two looks for what the change log need not keep any longer
TIDIES = "garbage"  # the controller whose group looks


# Shards of groups that one of this worker's processes has had the lease of.
_begun = Begun([f"{group.name}/{shard}" for group in GROUPS.values() for shard in range(group.shards)])
_looked: set[str] = set()  # groups that have looked whether the database was restored since it was away
_tidied: dict[str, float] = {}  # when this process last looked, by group
_limits: dict[str, int] = {}  # objects at once, of controllers whose whole batch takes too long here


def holder() -> str:
    """Return who we are in lease rows: host, process, and a part no restart repeats."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


class Turn:
    """A process's turn with one shard of a group."""

    def __init__(
        self, group: str, shard: int, *, store: DjangoStore, world: World, configuration: Configuration
    ) -> None:
        self.group = GROUPS[group]
        self.shard = shard
        self.store = store
        self.world = world
        self.configuration = configuration
        self.controllers = tuple(self.group.of_shard(shard))
        self.shards = {one.name: one.shards for one in self.controllers}
        self.names = frozenset(self.shards)
        self.holder = holder()
        self.lease_seconds: float = django_settings.LEASE_SECONDS
        self.fence: Fence | None = None
        self._renewed = 0.0
        self._failed: set[str] = set()  # controllers that fail as a whole

    def run(
        self,
        seconds: float,
        *,
        go_on: Callable[[], bool] = lambda: False,
        stopped: Callable[[], bool] = lambda: False,
    ) -> int:
        """Work for `seconds`, longer while `go_on` says so, no longer than until `stopped`; return how many objects
        were looked at.

        While another process holds the lease this one stands by, so that work goes on in the same second when that
        process ends its turn or dies.
        """
        ends = ticks() + seconds
        seen = 0
        try:
            with Nudges() as nudges:
                nudges.listen()
                while not stopped() and (ticks() < ends or go_on()):
                    if not self._renew():
                        nudges.wait(STAND_BY_SECONDS, frozenset())
                    elif worked := self.work():
                        seen += worked
                    else:
                        self._linger(nudges, ends)
        except Fenced as error:
            log.warning("%s/%s: another process goes on here: %s", self.group.name, self.shard, error)
        except OperationalError as error:
            log.warning("%s/%s: this turn ends: %s", self.group.name, self.shard, cause(error))
            _looked.clear()  # another database may come back
        finally:
            self._leave()
        return seen

    def once(self) -> int:
        """Work off what is due now and give the lease back; 0 where nothing is due or another process has the lease."""
        seen = 0
        try:
            while self._renew() and (worked := self.work()):
                seen += worked
        except Fenced as error:
            log.warning("%s/%s: another process goes on here: %s", self.group.name, self.shard, error)
        finally:
            self._leave()
        return seen

    def work(self) -> int:
        """Run one batch of each controller that has work, in order; return how many objects were looked at."""
        settings, seen = self.configuration.settings(), 0
        due = self.store.with_work(self.shards, shard=self.shard)
        for one in self.controllers:
            if one.name in due and settings.runs(one.name) and one.name not in self._failed and self._renew():
                seen += self._batch(one, settings).claimed
        return seen

    def _batch(self, controller: Controller, settings: Settings) -> Report:
        """Run one batch. A controller that cannot even load sits out this turn; the others of the group go on."""
        limit, began = _limits.get(controller.name, controller.batch), ticks()
        try:
            return run_batch(
                controller,
                self.store,
                settings,
                world=self.world,
                shard=self.shard,
                fence=self.fence,
                limit=limit,
                reload_settings=lambda: self.configuration.settings(anew=True),
                has_time=lambda: ticks() - began < self.lease_seconds / FAN_OUT_SHARE,
            )
        except (Fenced, OperationalError):
            raise
        except Exception:
            log.exception("%s fails as a whole; its objects wait until the next turn", controller.name)
            self._failed.add(controller.name)
            return Report(controller.name)
        finally:
            took = ticks() - began
            _limits[controller.name] = next_limit(limit, took, batch=controller.batch, lease=self.lease_seconds)

    def _renew(self) -> bool:
        """Test whether the lease is ours; renewed when a third of it has passed."""
        if self.fence is not None and ticks() - self._renewed < self.lease_seconds / 3:
            return True
        self._look()
        before, asked_at = self.fence, ticks()
        self.fence = self.store.take_lease(self.group.name, self.shard, holder=self.holder, seconds=self.lease_seconds)
        self._renewed = asked_at
        if self.fence is not None and self.fence != before:
            self.store.take_over(self.shards, shard=self.shard)
            self._begin()
        if self.fence is not None:
            self._tidy()
        return self.fence is not None

    def _look(self) -> None:
        """Look whether the database was restored, before anything is decided; then only what observes may run."""
        if self.group.name not in _looked:
            restored.guard().look()
            self.configuration.settings(anew=True)
            _looked.add(self.group.name)

    def _begin(self) -> None:
        """Look once at what concerns everything: this worker may have been started with other settings."""
        if (name := f"{self.group.name}/{self.shard}") not in _begun:
            mark_due_at_start(self.controllers, self.store)
            _begun.add(name)

    def _tidy(self) -> None:
        """Drop what the change log need not keep any longer, where that is due."""
        if TIDIES not in self.names or ticks() - _tidied.get(self.group.name, -TIDY_SECONDS) < TIDY_SECONDS:
            return
        _tidied[self.group.name] = ticks()
        limits = self.configuration.settings().change_log
        dropped = self.store.trim_log(
            self.store.now(),
            keep=timedelta(seconds=limits.keep_seconds),
            keep_versions=limits.keep_versions,
            keep_bytes=limits.keep_bytes,
        )
        if dropped:
            log.info("dropped %d partitions of the change log that are beyond what it has to keep", dropped)

    def _linger(self, nudges: Nudges, ends: float) -> None:
        settings = self.configuration.settings()
        due = self.store.next_due({name for name in self.names if settings.runs(name)})
        wait = LONGEST_WAIT if due is None else min(LONGEST_WAIT, _seconds_until(due, self.store.now()))
        nudges.wait(min(wait, max(ends - ticks(), 0.05)), self.names)

    def _leave(self) -> None:
        try:
            if self.fence is not None:
                self.store.drop_lease(self.fence, holder=self.holder)
        except OperationalError:
            pass  # it expires
        close_old_connections()


def next_limit(limit: int, took: float, *, batch: int, lease: float) -> int:
    """Return how many objects to take on next, after `limit` of them took so many seconds.

    What takes longer than the lease is refused and begun anew, for ever if it stays as large; so a batch that uses up
    a third of the lease is halved, and grows back to `batch` where it uses a tenth.
    """
    if took > lease / 3:
        return max(1, limit // 2)
    return min(batch, limit * 2) if took < lease / 10 else limit


def _seconds_until(moment: datetime, now: datetime) -> float:
    return max((moment - now).total_seconds(), 0.001)
