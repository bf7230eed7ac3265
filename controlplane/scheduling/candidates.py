"""Feasible clusters in the order they are preferred in."""

from __future__ import annotations

import msgspec
import numpy as np

from controlplane.scheduling.cluster_arrays import Counts, Places

TARGET_SCORE = 100
"""What a cluster the binding is on already scores (ClusterLocality)."""
RESERVED_SCORE = 50
"""What a cluster scores on which an eviction reserved room for the binding: less than a target, more than others."""


class Candidates(msgspec.Struct, frozen=True):
    """Feasible clusters in the order they are preferred in, with what is known of each."""

    places: Places
    scores: Counts
    room: Counts  # replicas that fit, those already there included


class Unselectable(Exception):
    """The spread constraints cannot be met; the text says by what and what is there."""


def rank(places: Places, scores: Counts, room: Counts, tiers: Counts) -> Candidates:
    """Return candidates by tier, score descending, room descending, name. `places` come in the order of names."""
    order = np.lexsort((-room, -scores, tiers))
    return Candidates(places[order], scores[order], room[order])
