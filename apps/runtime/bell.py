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
        """Send one tick; a broker that is away is told once, workers go on without it."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except SchedulingError as error:
            if not self._away:
                log.warning("the broker is away, workers go on by themselves: %s", error)
            self._away = True
            return
        if self._away:
            log.warning("the broker is back")
        self._away = False
