"""Candidates: the feasible clusters in order of preference."""

from __future__ import annotations

import msgspec
import numpy as np

from controlplane.scheduling.cluster_arrays import FEW, Counts, Places

TARGET_SCORE = 100
"""Score of a cluster that the binding is already on (Karmada's plugin ClusterLocality) [scheduling-scores]."""
RESERVED_SCORE = 50
"""Score of a cluster on which an eviction reserved capacity for the binding: below a target, above other clusters."""


class Candidates(msgspec.Struct, frozen=True):
    """The feasible clusters in order of preference.

    `scores_of_fleet`, `capacity_of_fleet`: by place, of all clusters. `scores_of_fleet` None: all scores are 0.
    """

    places: Places
    scores_of_fleet: Counts | None
    capacity_of_fleet: Counts

    @property
    def scores(self) -> Counts:
        """The score of each candidate."""
        scores = self.scores_of_fleet
        return np.zeros(len(self.places), dtype=np.int64) if scores is None else scores[self.places]

    @property
    def capacity(self) -> Counts:
        """The replicas that fit on each candidate, including the replicas that the binding already has there."""
        return self.capacity_of_fleet[self.places]


class Unselectable(Exception):
    """The spread constraints cannot be met. The text says which constraint and how many clusters there are."""


def rank(places: Places, scores: Counts | None, capacity: Counts, tiers: Counts | None) -> Candidates:
    """Return the candidates sorted by tier, descending score, descending free capacity and name.

    `places` must be in the order of the cluster names. `scores` and `capacity` are of the whole fleet, by place;
    `scores` None: all are 0. `tiers`: of `places`; None: all clusters have the same tier.
    """
    if len(places) <= FEW and tiers is None:
        listed = places.tolist()
        if scores is None:
            order = sorted(listed, key=lambda place: -capacity.item(place))
        else:
            order = sorted(listed, key=lambda place: (-scores.item(place), -capacity.item(place)))
        return Candidates(places if order == listed else np.array(order, dtype=np.intp), scores, capacity)
    keys = [-capacity[places]]
    keys += [] if scores is None else [-scores[places]]
    keys += [] if tiers is None else [tiers]
    return Candidates(places[np.lexsort(keys)], scores, capacity)
