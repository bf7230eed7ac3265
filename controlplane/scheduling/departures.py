"""Departures: the clusters that a binding has left because of a taint, while that taint is still there [judged-once].

For the filter TaintToleration a toleration with an expired tolerationSeconds still tolerates the taint. An eviction
task reminds the scheduler of the departure until it is cleared. Then the origin of the binding does.
"""

from __future__ import annotations

from controlplane.kinds.binding import Binding
from controlplane.kinds.binding.origin import departures
from controlplane.kinds.cluster import EVICTING_EFFECTS
from controlplane.scheduling.cluster_arrays import Fleet


def left_for_taints(binding: Binding, fleet: Fleet) -> tuple[str, ...]:
    """Return the clusters that the binding has left, and that have an evicting taint since before it left."""
    places = ((at, fleet.index.get(name)) for name, at in departures(binding).items())
    clusters = ((at, fleet.clusters[place]) for at, place in places if place is not None)
    return tuple(
        sorted(
            cluster.metadata.name
            for at, cluster in clusters
            if any(
                taint.effect in EVICTING_EFFECTS and taint.time_added is not None and taint.time_added <= at
                for taint in cluster.spec.taints
            )
        )
    )
