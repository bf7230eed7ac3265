"""The one Celery task: a doorbell. It holds no decision; what is due says what has to be done."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from billiard import current_process
from celery import shared_task
from celery.signals import task_received, worker_process_init, worker_process_shutdown, worker_shutting_down

from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.worker.clock import ticks as clock
from apps.worker.groups import INTERVAL_SECONDS, ticks
from apps.worker.outside_world import world
from apps.worker.tick_times import Rings
from apps.worker.turn import Turn
from apps.worker.watchdog import Watchdog

MAIN = "MainProcess"
TICK = "lifeboat.tick"
LEAVE_SECONDS = 5.0  # for a turn without a tick to give its lease back when its process ends
_stopping = threading.Event()
_rings = Rings(ticks())
_watchdog: Watchdog | None = None  # None: not a process of the pool


def _end_on_sigterm() -> None:
    """Let a pool process that is told to end give its lease back first."""

    def stop(number: int, frame: FrameType | None) -> None:
        _stopping.set()

    if current_process().name != MAIN:  # the pool resets signals after its own hooks, so here
        signal.signal(signal.SIGTERM, stop)


@shared_task(name=TICK)
def tick(name: str) -> None:
    """Run a turn of "group/shard"."""
    _end_on_sigterm()
    run_turn(name)


def run_turn(name: str) -> None:
    """Run a turn of "group/shard" for one interval, and longer until the next tick of that name is received.

    A process outside the pool cannot receive a tick during its turn, so it ends after the interval.
    """
    group, _, shard = name.partition("/")
    turn = Turn(group, int(shard), store=store(), world=world(), configuration=configuration())
    began = clock()

    def unrung() -> bool:
        return _rings.forked and turn.fence is not None and _rings.latest(name) <= began

    turn.run(INTERVAL_SECONDS, go_on=unrung, stopped=lambda: _stopping.is_set() or _rings.ended)


# The worker's main process.


@task_received.connect
def _note_ring(request: Any, **_: object) -> None:
    if request.name == TICK:
        _rings.note(request.args[0], clock())


@worker_shutting_down.connect
def _end_turns(**_: object) -> None:
    """Let every turn give its lease back now: only the main process may have been told to end."""
    _rings.end()


# Each process of its pool.


@worker_process_init.connect
def _watch(**_: object) -> None:
    global _watchdog
    if _rings.forked:
        _watchdog = Watchdog(_rings, store(), run_turn, _stopping)
        _watchdog.start()


@worker_process_shutdown.connect
def _leave(**_: object) -> None:
    _stopping.set()
    if _watchdog is not None:
        _watchdog.join(LEAVE_SECONDS)
