"""The scheduler of Celery beat: sends every tick once at the start, then at each interval. Nothing is stored.

The list of ticks (`beat_schedule`) is in `config/celery.py`. If several beats run, a single beat sends. With two ticks
at a time, two processes would work for the same group, and one of them would only wait for the lease.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar

from celery.beat import ScheduleEntry, Scheduler, SchedulingError

from apps.objects.instruments import TICKS

log = logging.getLogger(__name__)


class TickScheduler(Scheduler):
    """Celery's scheduler in memory, which also sends every tick when beat starts."""

    _broker_away = False
    sends: ClassVar[Callable[[], bool]] = staticmethod(lambda: True)  # of several beats, whether this one sends

    def setup_schedule(self) -> None:
        super().setup_schedule()
        for entry in self.schedule.values():
            entry.last_run_at -= timedelta(seconds=entry.schedule.seconds)

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        """Send one tick, unless another beat does.

        A broker that refuses it is logged once per outage, because workers also run without ticks.
        """
        if not type(self).sends():
            return
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except SchedulingError as error:
            TICKS.labels("refused").inc()
            if not self._broker_away:
                log.warning("the broker accepts no ticks; workers run without them: %s", error)
            self._broker_away = True
            return
        TICKS.labels("sent").inc()
        if self._broker_away:
            log.warning("the broker accepts ticks again")
        self._broker_away = False
