"""Flapping: a member whose answers change between ready and not ready faster than the debounce lets through (fault 3).

Nothing of that is published as Ready, so it is counted before the debounce, in the row of the observation: each change
by the store's clock, unobserved time taken out like out of every other clock there. All is measured in the longer of
`cluster_failure_threshold` and `cluster_success_threshold` (30 s): what changes no faster than those is no flapping,
Ready follows it. Where both are 0 every answer is published, and nothing flaps.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, condition
from controlplane.kinds.cluster import FLAPPING, READY, Cluster
from controlplane.kinds.rows import Observation
from controlplane.settings import Settings

TURNS: Final = 6
"""So many changes within the window, and a cluster flaps."""
WINDOW_THRESHOLDS: Final = 20
CALM_THRESHOLDS: Final = 10
"""The window (600 s), and how long nothing must have changed for it to be over (300 s), in thresholds."""
KEPT: Final = 60
"""Moments kept of each cluster: the latest."""
TOLD: Final = (1, 3, 6, 12, 24, 48)
"""Counts a condition speaks of, so that a cluster is not written at each change; the exact one is a metric."""


class Flapping(msgspec.Struct, frozen=True):
    """The condition as it shall be published, None where nothing is to be said; when the clock alone may change it."""

    condition: Condition | None = None
    wake_at: datetime | None = None


_NOTHING_SAID: Final = Flapping()


def turned(row: Observation, *moments: datetime) -> Observation:
    """Return the observation after what was observed has changed between ready and not ready at these moments."""
    return replace(row, turns=row.turns + len(moments), turned_at=tuple(sorted((*row.turned_at, *moments)))[-KEPT:])


def window(settings: Settings) -> timedelta:
    """Return the time within which changes are counted."""
    return WINDOW_THRESHOLDS * _threshold(settings)


def calm(settings: Settings) -> timedelta:
    """Return how long nothing must have changed until a cluster no longer flaps."""
    return CALM_THRESHOLDS * _threshold(settings)


def _threshold(settings: Settings) -> timedelta:
    return timedelta(seconds=max(settings.cluster_failure_threshold, settings.cluster_success_threshold))


def settle(cluster: Cluster, row: Observation | None, settings: Settings, *, until: datetime) -> Flapping:
    """Return what is to be published about flapping. `until`: up to when the cluster is observed.

    It begins with TURNS changes within the window and ends once nothing has changed for as long as `calm` says: a
    flapping that only slows down is the same one. A cluster that never flapped says nothing of it.
    """
    published = condition(cluster.status.conditions, FLAPPING)
    if published is None and (row is None or len(row.turned_at) < TURNS):
        return _NOTHING_SAID
    earliest = until - window(settings)
    recent = () if row is None else tuple([one for one in row.turned_at if one > earliest])
    last = max(recent, default=None)
    ends = None if last is None else last + calm(settings)
    begun = len(recent) >= TURNS or cluster.flapping
    if begun and ends is not None and until < ends:
        return Flapping(Condition(FLAPPING, "True", "AnswersChange", _told(len(recent), settings)), ends)
    if published is None or published.status != "True":
        return Flapping(published)
    message = f"its answers have not changed between ready and not ready for {calm(settings).total_seconds():g} s"
    return Flapping(Condition(FLAPPING, "False", "Calm", message))


def _told(count: int, settings: Settings) -> str:
    least = max(one for one in TOLD if one <= count)
    return (
        f"its answers changed between ready and not ready {least} times or more within "
        f"{window(settings).total_seconds():g} s; {READY} says what lasts, and taints of policies about anything else "
        f"evict nothing until nothing has changed for {calm(settings).total_seconds():g} s"
    )
