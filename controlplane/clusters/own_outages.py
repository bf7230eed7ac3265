"""Times in which no worker ran, although members may have been observed: they count for no time limit of a copy.

A copy that is to start within such a limit is made by workers, and its reports reach its binding through them
[outage-of-our-own].
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec.structs import replace

from controlplane.kinds.rows import FleetState, Stop
from controlplane.settings import Settings

NOTED_EVERY = timedelta(seconds=15)  # a later look of the workers is stored
SHORTEST = timedelta(seconds=60)  # a worker that is busy, or restarts, was not away
KEPT = 8  # how many of the latest absences are kept
WHY = "no worker ran"

Gap = tuple[datetime, datetime]
"""A time from its begin to its end."""


def with_look(row: FleetState, settings: Settings, *, now: datetime) -> FleetState:
    """Return the row of the workers after a look at the fleet; the same row if the look need not be stored."""
    last = row.looked_at
    if last is not None and last <= now < last + NOTED_EVERY:
        return row
    away = last is not None and now - last > longest_pause(settings)
    stops = (*row.stops, Stop(last, WHY, now))[-KEPT:] if away and last is not None else row.stops
    return replace(row, looked_at=now, stops=stops)


def longest_pause(settings: Settings) -> timedelta:
    """Return the time between two stored looks from which on the workers count as away."""
    return max(SHORTEST, 2 * NOTED_EVERY + timedelta(seconds=3 * settings.cluster_monitor_period))


def are_away(row: FleetState | None, settings: Settings, *, now: datetime) -> bool:
    """Test whether it is not known yet that a worker looks at the fleet again. None, or without a look: False."""
    if row is None or row.looked_at is None or not settings.runs("fleet"):
        return False
    return now - row.looked_at > longest_pause(settings)


def absences(row: FleetState | None) -> tuple[Gap, ...]:
    """Return the latest times in which no worker ran, and that are over, oldest first."""
    return () if row is None else tuple((stop.since, stop.until) for stop in row.stops if stop.until is not None)


def total(gaps: Iterable[Gap], *, since: datetime) -> timedelta:
    """Return for how long any of these times lasted after a moment."""
    found, covered = timedelta(0), since
    for begin, end in sorted(gaps):
        begin = max(begin, covered)
        if end > begin:
            found, covered = found + (end - begin), end
    return found
