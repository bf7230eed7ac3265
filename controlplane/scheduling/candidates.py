"""Candidates: the feasible clusters in order of preference."""

from __future__ import annotations

import msgspec
import numpy as np

from controlplane.scheduling.cluster_arrays import Counts, Places

TARGET_SCORE = 100
"""Score of a cluster that the binding is already on (Karmada's plugin ClusterLocality) [scheduling-scores]."""
RESERVED_SCORE = 50
"""Score of a cluster on which an eviction reserved capacity for the binding: below a target, above other clusters."""


class Candidates(msgspec.Struct, frozen=True):
    """The feasible clusters in order of preference, with score and free capacity of each."""

    places: Places
    scores: Counts
    capacity: Counts  # replicas that fit, including the replicas that the binding already has there


class Unselectable(Exception):
    """The spread constraints cannot be met. The text says which constraint and how many clusters there are."""


def rank(places: Places, scores: Counts, capacity: Counts, tiers: Counts | None) -> Candidates:
    """Return the candidates sorted by tier, descending score, descending free capacity and name.

    `places` must be in the order of the cluster names. `tiers` None: all clusters have the same tier.
    """
    keys = (-capacity, -scores) if tiers is None else (-capacity, -scores, tiers)
    order = np.lexsort(keys)
    return Candidates(places[order], scores[order], capacity[order])
