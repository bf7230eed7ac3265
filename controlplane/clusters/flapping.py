"""Flapping: a member whose answers change between ready and not ready faster than Ready does [flapping-cluster].

The debounce hides these changes from Ready. They are counted before the debounce, in the row of the observation, with
the store's clock. Time without observations does not count. All times are multiples of the longer one of
`cluster_failure_threshold` and `cluster_success_threshold` (30 s by default). Slower changes are not flapping, because
Ready follows them. If both settings are 0, Ready follows every answer and nothing flaps.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, condition
from controlplane.kinds.cluster import FLAPPING, Cluster
from controlplane.kinds.rows import Observation
from controlplane.settings import Settings

TURNS: Final = 6
"""How many changes within the window make a cluster flap."""
WINDOW_THRESHOLDS: Final = 20
CALM_THRESHOLDS: Final = 10
"""The window (600 s) and the calm time after which flapping ends (300 s), as multiples of the threshold."""
KEPT: Final = 60
"""How many changes are stored for each cluster: the latest ones."""
REPORTED_COUNTS: Final = (1, 3, 6, 12, 24, 48)
"""Counts that the condition reports, so that a cluster is not written at each change. A metric has the exact count."""


class Flapping(msgspec.Struct, frozen=True):
    """The condition to publish, and when the passage of time alone may change it. None: nothing to publish; never."""

    condition: Condition | None = None
    wake_at: datetime | None = None


_NO_CONDITION: Final = Flapping()


def turned(row: Observation, *moments: datetime) -> Observation:
    """Return the observation after its answers changed between ready and not ready at these moments."""
    return replace(row, turns=row.turns + len(moments), turned_at=tuple(sorted((*row.turned_at, *moments)))[-KEPT:])


def window(settings: Settings) -> timedelta:
    """Return the length of the window in which changes are counted."""
    return WINDOW_THRESHOLDS * _threshold(settings)


def calm(settings: Settings) -> timedelta:
    """Return how long the answers must not have changed until a cluster counts as calm."""
    return CALM_THRESHOLDS * _threshold(settings)


def _threshold(settings: Settings) -> timedelta:
    return timedelta(seconds=max(settings.cluster_failure_threshold, settings.cluster_success_threshold))


def settle(cluster: Cluster, row: Observation | None, settings: Settings, *, until: datetime) -> Flapping:
    """Return the condition Flapping to publish. `until`: until when the cluster is observed.

    Flapping begins with TURNS changes within the window. It ends when nothing has changed for `calm`, so flapping that
    only slows down goes on. A cluster that never flapped has no such condition.
    """
    published = condition(cluster.status.conditions, FLAPPING)
    if published is None and (row is None or len(row.turned_at) < TURNS):
        return _NO_CONDITION
    earliest = until - window(settings)
    recent = () if row is None else tuple([moment for moment in row.turned_at if moment > earliest])
    last = max(recent, default=None)
    ends = None if last is None else last + calm(settings)
    begun = len(recent) >= TURNS or cluster.flapping
    if begun and ends is not None and until < ends:
        return Flapping(Condition(FLAPPING, "True", "AnswersChange", _message(len(recent), settings)), ends)
    if published is None or published.status != "True":
        return Flapping(published)
    message = f"its answers have not changed between ready and not ready for {calm(settings).total_seconds():g} s"
    return Flapping(Condition(FLAPPING, "False", "Calm", message))


def _message(count: int, settings: Settings) -> str:
    least = max(reported for reported in REPORTED_COUNTS if reported <= count)
    return (
        f"its answers changed between ready and not ready {least} times or more within "
        f"{window(settings).total_seconds():g} s; taints of policies that do not name the condition {FLAPPING} evict "
        f"nothing until its answers have not changed for {calm(settings).total_seconds():g} s"
    )
