"""The only Celery task. It starts a turn of one group; which objects are processed follows from the due rows."""

from __future__ import annotations

import gc
import signal
import threading
from types import FrameType
from typing import Any

from billiard import current_process
from celery import shared_task
from celery.signals import (
    beat_init,
    task_received,
    worker_before_create_process,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutting_down,
)

from apps.objects import tracing
from apps.objects.configuration import configuration
from apps.objects.free_memory import keep_returning
from apps.objects.metrics_server import serve_metrics
from apps.objects.outbox import channels
from apps.objects.store import store
from apps.worker import process_pool
from apps.worker.audit_delivery import AuditDelivery
from apps.worker.beat_presence import BeatPresence
from apps.worker.clock import monotonic_seconds
from apps.worker.groups import INTERVAL_SECONDS, tick_names
from apps.worker.leased_thread import LeasedThread
from apps.worker.notices import Sender
from apps.worker.nudges import KeptNudges
from apps.worker.outside_world import world
from apps.worker.process_pool import AsyncPool
from apps.worker.tick_scheduler import TickScheduler
from apps.worker.tick_times import TickTimes
from apps.worker.turn import Turn
from apps.worker.watchdog import Watchdog
from controlplane.controllers.evictions import Evictions

MAIN = "MainProcess"
TICK = "lifeboat.tick"
MAIN_SECONDS = 1.0  # between two signs of the main process
LEAVE_SECONDS = 5.0  # how long a process that ends waits until its turn has returned the lease
_stopping = threading.Event()
_tick_times = TickTimes(tick_names())
_nudges = KeptNudges()
_watchdog: Watchdog | None = None  # None: not a process of the pool
_leased_threads: list[LeasedThread] = []  # [] outside the pool


def _end_on_sigterm() -> None:
    """Make a process of the pool return its lease before it ends on SIGTERM."""

    def stop(number: int, frame: FrameType | None) -> None:
        _stopping.set()

    if current_process().name != MAIN:  # here, because the pool resets signal handlers after its own hooks
        signal.signal(signal.SIGTERM, stop)


@shared_task(name=TICK)
def tick(name: str) -> None:
    """Run a turn of "group/shard"."""
    _end_on_sigterm()
    processed = run_turn(name)
    process_pool.turn_ended(processed, evicting=_tick_times.mass_eviction(monotonic_seconds()))


def run_turn(name: str) -> int:
    """Run a turn of "group/shard" for one interval, and longer until the next tick of that name is received.

    Returns how many objects were processed.
    So a group is still run when ticks stop. A process outside the pool sees no ticks and ends after the interval.
    So does one of a pool that is smaller than the number of groups, or other groups would never be run.
    """
    group, _, shard = name.partition("/")

    def stored(controller: str, decisions: int) -> None:
        if controller == Evictions.name:
            _tick_times.evicted(decisions, monotonic_seconds())

    turn = Turn(group, int(shard), store=store(), world=world(), configuration=configuration(), stored=stored)
    began = monotonic_seconds()

    def no_later_tick() -> bool:
        keeps = _tick_times.forked and _tick_times.one_for_each and turn.lease is not None
        return keeps and _tick_times.latest(name) <= began

    with tracing.span("turn", group=group, shard=int(shard)):
        return turn.run(
            INTERVAL_SECONDS,
            go_on=no_later_tick,
            stopped=lambda: _stopping.is_set() or _tick_times.ended,
            kept=_nudges if _tick_times.forked else None,
        )


@beat_init.connect
def _start_beat(**_: object) -> None:
    serve_metrics()
    tracing.start("beat")
    presence = BeatPresence(store())
    TickScheduler.sends = presence.sends
    presence.start()


# In the main process of the worker.


@worker_before_create_process.connect
def _share_with_pool(sender: AsyncPool, **_: object) -> None:
    """Show the processes of the pool how many they are.

    Keep their garbage collector away from what exists: it writes into objects, and so unshares pages.
    """
    _tick_times.pool_has(sender.size)
    gc.freeze()


@worker_ready.connect
def _begin(**_: object) -> None:
    """Serve the metrics of the whole pool, and show its processes, which were forked before, that the main one runs."""
    serve_metrics()
    threading.Thread(target=_show_that_main_runs, name="main-runs", daemon=True).start()


def _show_that_main_runs() -> None:
    while not _stopping.wait(MAIN_SECONDS):
        _tick_times.main_runs(monotonic_seconds())


@task_received.connect
def _record_tick(request: Any, **_: object) -> None:
    if request.name == TICK:
        _tick_times.record(request.args[0], monotonic_seconds())


@worker_shutting_down.connect
def _end_turns(**_: object) -> None:
    """End all turns, so that leases are returned. Perhaps only the main process has received the signal."""
    _tick_times.end()


# In each process of the pool.


@worker_process_init.connect
def _watch(**_: object) -> None:
    global _watchdog
    tracing.start("worker")
    if not _tick_times.forked:
        return
    keep_returning()
    _watchdog = Watchdog(_tick_times, store(), run_turn, _stopping, nudges=_nudges)
    _watchdog.start()
    for thread in (AuditDelivery, Sender) if channels() else (AuditDelivery,):
        _leased_threads.append(thread(store(), _stopping))
        _leased_threads[-1].start()


@worker_process_shutdown.connect
def _leave(**_: object) -> None:
    _stopping.set()
    if _watchdog is not None:
        _watchdog.join(LEAVE_SECONDS)
    for thread in _leased_threads:
        thread.join(LEAVE_SECONDS)
