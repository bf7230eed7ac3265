"""Beat's schedule: every tick rings at once at the start, then each interval; kept nowhere, logged only in trouble."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from celery.beat import ScheduleEntry, Scheduler, SchedulingError

log = logging.getLogger(__name__)


class Bell(Scheduler):
    """Celery's in-memory scheduler."""

    _away = False

    def setup_schedule(self) -> None:
        super().setup_schedule()
        for entry in self.schedule.values():
            entry.last_run_at -= timedelta(seconds=entry.schedule.seconds)

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        """Send one tick. A broker that does not take it is logged once; workers go on without ticks."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except SchedulingError as error:
            if not self._away:
                log.warning("the broker takes no ticks, workers go on without them: %s", error)
            self._away = True
            return
        if self._away:
            log.warning("the broker takes ticks again")
        self._away = False
