"""The one Celery task: a doorbell. It holds no decision; what is due says what has to be done."""

from __future__ import annotations

import signal
import threading
from types import FrameType

from billiard import current_process
from celery import shared_task
from django.db import OperationalError, close_old_connections

from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.runtime.broker import reachable
from apps.runtime.groups import INTERVAL_SECONDS
from apps.runtime.turn import Turn
from apps.runtime.world import world

MAIN = "MainProcess"
PAUSE_SECONDS = 1.0  # before another turn while nobody can ring
TRIES = 5  # to reach the database before it: of the connections that are kept, several may be broken
_stopping = threading.Event()


def _end_on_sigterm() -> None:
    """Let a pool process that is told to end give its lease back first."""

    def stop(number: int, frame: FrameType | None) -> None:
        _stopping.set()

    if current_process().name != MAIN:  # the pool resets signals after its own hooks, so here
        signal.signal(signal.SIGTERM, stop)


@shared_task(name="lifeboat.tick")
def tick(name: str) -> None:
    """Run one turn of "group/shard"; go on beyond the interval while nobody could ring again, with another turn where
    this one lost its lease or a connection. Without database and broker it ends: they went before their worker does."""
    _end_on_sigterm()
    group, _, shard = name.partition("/")
    while True:
        turn = Turn(group, int(shard), store=store(), world=world(), configuration=configuration())
        turn.run(INTERVAL_SECONDS, go_on=lambda: not reachable(), stopped=_stopping.is_set)
        if reachable() or not any(_database_answers() for _ in range(TRIES) if not _stopping.wait(PAUSE_SECONDS)):
            return


def _database_answers() -> bool:
    try:
        store().now()
    except OperationalError:
        return False
    finally:
        close_old_connections()
    return True
