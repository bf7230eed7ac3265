"""The clusters as arrays for dry runs of pages. What this process has read of unchanged clusters is kept."""

from __future__ import annotations

from controlplane.insight.failure_outlook import Situation
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.settings import Settings

_last: Fleet | None = None  # None: no page has asked yet


def fleet_of(situation: Situation, settings: Settings) -> Fleet:
    """Return the clusters of a situation as arrays: those of the last call if nothing has changed. No query."""
    global _last
    fleet = _last = Fleet.of(situation.clusters, settings=settings, previous=_last)
    return fleet
