"""One turn of a process with one shard of a group: take the lease, process due rows, wait for more until the end."""

from __future__ import annotations

import logging
import os
import socket
import uuid
from collections.abc import Callable
from datetime import timedelta

from django.conf import settings as django_settings
from django.db import OperationalError, close_old_connections

from apps.objects.configuration import Configuration
from apps.objects.due import LATER
from apps.objects.instruments import ERRORS, RECONCILED, expect
from apps.objects.refusal import cause
from apps.objects.store import DjangoStore
from apps.worker import restored
from apps.worker.clock import monotonic_seconds
from apps.worker.groups import GROUPS, INTERVAL_SECONDS
from apps.worker.nudges import KeptNudges, Nudges
from apps.worker.started_groups import StartedGroups
from controlplane.controllers import CONTROLLERS
from controlplane.engine.cascade import followers
from controlplane.engine.controller import Controller
from controlplane.engine.run import Report, World, mark_due_at_start, run_batch
from controlplane.engine.state import HeldLease, LeaseLost
from controlplane.settings import Settings

log = logging.getLogger(__name__)

LONGEST_WAIT = 2.5  # seconds until a look for due rows without a notification, in case one was lost
STAND_BY_SECONDS = 0.2  # between two tries to take a lease that another process holds, if it does not return it
FAN_OUT_SHARE = 6  # a fan-out runs for at most this part of the lease, then the other controllers run
# A batch of so many objects that is not full belongs to a stream of changes. The controller then collects what follows
# for some time, because many small batches cost more CPU than few large ones. Single changes are processed at once.
COLLECT_FROM = 40
COLLECT_SECONDS = 0.25  # from the beginning of a batch until the next one, if the stream does not end before
QUIET_SECONDS = 0.06  # without a notification: the stream has ended, or pauses
TRIM_SECONDS = 600.0  # between two removals of old partitions of the change log
TRIMMING_CONTROLLER = "garbage"  # the group of this controller removes them


# "group/shard" whose lease a process of this worker has held.
_started = StartedGroups([f"{group.name}/{shard}" for group in GROUPS.values() for shard in range(group.shards)])
_checked: set[str] = set()  # groups that have checked for a restore since the database was last away
_trimmed_at: dict[str, float] = {}  # when this process last trimmed the change log, by group
_limits: dict[str, int] = {}  # objects in one batch, of controllers for which a whole batch takes too long


def holder() -> str:
    """Return the name of this process in lease rows: host, process id, and a part that each restart changes."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


class Turn:
    """A turn of a process with one shard of a group."""

    def __init__(
        self,
        group: str,
        shard: int,
        *,
        store: DjangoStore,
        world: World,
        configuration: Configuration,
        stored: Callable[[str, int], None] = lambda controller, decisions: None,
    ) -> None:
        """`stored`: called after each batch with its controller and the number of its decisions that were stored."""
        self.group = GROUPS[group]
        self.shard = shard
        self.store = store
        self.world = world
        self.configuration = configuration
        self.stored = stored
        self.controllers = tuple(self.group.of_shard(shard))
        self.shards = {controller.name: controller.shards for controller in self.controllers}
        self.names = frozenset(self.shards)
        self.returned = frozenset({f"{group}/{shard}"})  # what is notified when the lease is returned
        self.holder = holder()
        expect(self.names)
        self.lease_seconds: float = django_settings.LEASE_SECONDS
        self.lease: HeldLease | None = None
        self._renewed = 0.0
        self._left_out_until: dict[str, float] = {}  # by controller that has failed, on the monotonic clock
        self._until_due: float | None = None  # seconds from the last look until a batch can begin; None: no row
        self._collects_until: dict[str, float] = {}  # by controller, on the monotonic clock

    def run(
        self,
        seconds: float,
        *,
        go_on: Callable[[], bool] = lambda: False,
        stopped: Callable[[], bool] = lambda: False,
        kept: KeptNudges | None = None,
    ) -> int:
        """Process due objects for `seconds`, and longer while `go_on()` is true. End early if `stopped()` is true.

        Returns how many objects were processed. While another process holds the lease, this one waits for it. So the
        work continues within a second when that process ends its turn or dies. `kept`: the connection on which this
        process waits; None: the turn opens one and closes it.
        """
        ends = monotonic_seconds() + seconds
        seen = 0
        try:
            with Nudges() if kept is None else kept.taken() as nudges:
                nudges.listen()
                while not stopped() and (monotonic_seconds() < ends or go_on()):
                    if not self._renew():
                        nudges.wait(STAND_BY_SECONDS, self.returned)
                    elif worked := self.work(collect=True):
                        seen += worked
                    else:
                        self._wait_for_work(nudges, ends)
        except LeaseLost as error:
            log.warning("%s/%s: another process has taken the lease: %s", self.group.name, self.shard, error)
        except OperationalError as error:
            log.warning("%s/%s: this turn ends: %s", self.group.name, self.shard, cause(error))
            _checked.clear()  # the database that comes back may be another one
        finally:
            self._release()
        return seen

    def once(self) -> int:
        """Process what is due now and return the lease. Returns the number of objects.

        0: nothing is due, or another process has the lease.
        """
        seen = 0
        try:
            while self._renew() and (worked := self.work()):
                seen += worked
        except LeaseLost as error:
            log.warning("%s/%s: another process has taken the lease: %s", self.group.name, self.shard, error)
        finally:
            self._release()
        return seen

    def work(self, *, collect: bool = False) -> int:
        """Run one batch of each controller that has due rows, in order. Return the number of objects that were claimed.

        Left out are controllers that are disabled or have just failed, and all once the lease is lost.
        `collect`: also those that collect changes (COLLECT_FROM).
        """
        settings, seen, now = self.configuration.settings(), 0, monotonic_seconds()
        due = {
            name: max(seconds, self._collects_until.get(name, now) - now) if collect else seconds
            for name, seconds in self.store.seconds_until_due(self.shards, shard=self.shard).items()
            if settings.runs(name) and self._left_out_until.get(name, now) <= now
        }
        self._until_due = min(due.values(), default=None)
        for controller in self.controllers:
            if due.get(controller.name, 1.0) <= 0 and self._renew():
                report = self._batch(controller, settings)
                RECONCILED.labels(controller.name).inc(report.claimed)
                self.stored(controller.name, report.stored)
                seen += report.claimed
        return seen

    def _batch(self, controller: Controller, settings: Settings) -> Report:
        """Run one batch. A controller that cannot run its batch is left out for INTERVAL_SECONDS."""
        limit, began = _limits.get(controller.name, controller.batch), monotonic_seconds()
        try:
            report = run_batch(
                controller,
                self.store,
                settings,
                world=self.world,
                shard=self.shard,
                lease=self.lease,
                limit=limit,
                reload_settings=lambda: self.configuration.settings(reread=True),
                has_time=lambda: monotonic_seconds() - began < self.lease_seconds / FAN_OUT_SHARE,
                following=followers(controller, CONTROLLERS, settings),
            )
            if COLLECT_FROM <= report.claimed < limit and not report.more:
                self._collects_until[controller.name] = began + COLLECT_SECONDS
            return report
        except (LeaseLost, OperationalError):
            raise
        except Exception:
            log.exception("controller %s could not run a batch; its objects wait for some seconds", controller.name)
            self._left_out_until[controller.name] = monotonic_seconds() + INTERVAL_SECONDS
            ERRORS.labels(controller.name).inc()
            return Report(controller.name)
        finally:
            took = monotonic_seconds() - began
            _limits[controller.name] = next_limit(limit, took, batch=controller.batch, lease=self.lease_seconds)

    def _renew(self) -> bool:
        """Test whether this process holds the lease. The lease is renewed after a third of its duration."""
        if self.lease is not None and monotonic_seconds() - self._renewed < self.lease_seconds / 3:
            return True
        self._check_restore()
        before, asked_at = self.lease, monotonic_seconds()
        self.lease = self.store.take_lease(self.group.name, self.shard, holder=self.holder, seconds=self.lease_seconds)
        self._renewed = asked_at
        if self.lease is not None and (before is None or self.lease.epoch != before.epoch):
            if not self.lease.returned:
                self.store.take_over(self.shards, shard=self.shard)
            self._mark_at_start()
        if self.lease is not None:
            self._trim_change_log()
        return self.lease is not None

    def _check_restore(self) -> None:
        """Check whether the database was restored, before any decision. Then only observing controllers run."""
        if self.group.name not in _checked:
            restored.detector().check()
            self.configuration.settings(reread=True)
            _checked.add(self.group.name)

    def _mark_at_start(self) -> None:
        """Mark objects due, once per worker: this worker may have been started with other settings."""
        if (name := f"{self.group.name}/{self.shard}") not in _started:
            mark_due_at_start(self.controllers, self.store)
            _started.add(name)

    def _trim_change_log(self) -> None:
        """Drop partitions of the change log that its limits do not keep, if TRIM_SECONDS have passed."""
        now, trimmed_at = monotonic_seconds(), _trimmed_at.get(self.group.name, -TRIM_SECONDS)
        if TRIMMING_CONTROLLER not in self.names or now - trimmed_at < TRIM_SECONDS:
            return
        _trimmed_at[self.group.name] = now
        limits = self.configuration.settings().change_log
        dropped = self.store.trim_log(
            self.store.now(),
            keep=timedelta(seconds=limits.keep_seconds),
            keep_versions=limits.keep_versions,
            keep_bytes=limits.keep_bytes,
        )
        if dropped:
            log.info("dropped %d partitions of the change log that are beyond its limits", dropped)

    def _wait_for_work(self, nudges: Nudges, ends: float) -> None:
        """Wait for a notification, at most until the first row that the last look found can be claimed.

        What is notified of controllers that collect changes is looked at when they have collected.
        """
        now = monotonic_seconds()
        collecting = {name: until - now for name, until in self._collects_until.items() if until > now}
        longest = min(LONGEST_WAIT, self.lease_seconds / 3)  # the lease is renewed between two waits
        left = min([longest, *collecting.values(), *([] if self._until_due is None else [self._until_due])])
        seconds = min(max(left, 0.001), max(ends - now, 0.05))
        close_old_connections()  # the other threads of this process use the session meanwhile
        if collecting:
            self._collect(nudges, seconds, frozenset(collecting))
        else:
            nudges.wait(seconds, self.names)

    def _collect(self, nudges: Nudges, seconds: float, collecting: frozenset[str]) -> None:
        """Wait until nothing more is notified of controllers that collect changes, or any of another controller.

        At most so many `seconds`.
        """
        heard = monotonic_seconds()
        ends = heard + seconds
        while (now := monotonic_seconds()) < ends:
            if now >= heard + QUIET_SECONDS:
                self._collects_until.clear()
                return
            notified = nudges.next_notified(min(ends, heard + QUIET_SECONDS) - now)
            if notified & self.names - collecting:
                return
            if collecting & {name.removeprefix(LATER) for name in notified}:
                heard = monotonic_seconds()

    def _release(self) -> None:
        try:
            if self.lease is not None:
                self.store.drop_lease(self.lease, holder=self.holder)
        except OperationalError:
            pass  # the lease expires
        close_old_connections()


def next_limit(limit: int, took: float, *, batch: int, lease: float) -> int:
    """Return the size of the next batch, after one of `limit` objects that took `took` seconds.

    A batch that takes longer than the lease is refused and starts again, so it must become smaller: one that took a
    third of the lease is halved, and one that took less than a tenth is doubled, up to `batch`.
    """
    if took > lease / 3:
        return max(1, limit // 2)
    return min(batch, limit * 2) if took < lease / 10 else limit
