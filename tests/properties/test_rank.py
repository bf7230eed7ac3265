"""The order of candidates: few are sorted one by one and many with numpy, in the same order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controlplane.scheduling.candidates import TARGET_SCORE, rank
from controlplane.scheduling.cluster_arrays import FEW

clusters = st.lists(
    st.tuples(st.booleans(), st.sampled_from([0, TARGET_SCORE]), st.integers(0, 3), st.integers(0, 1)),
    max_size=3 * FEW,
)


@given(clusters, st.booleans(), st.booleans())
def test_candidates_are_sorted_by_tier_score_capacity_and_name(
    fleet: list[tuple[bool, int, int, int]], scored: bool, tiered: bool
) -> None:
    places = np.array([place for place, (feasible, *_) in enumerate(fleet) if feasible], dtype=np.intp)
    scores = np.array([score if scored else 0 for _, score, _, _ in fleet], dtype=np.int64)
    capacity = np.array([room for _, _, room, _ in fleet], dtype=np.int64)
    tiers = np.array([tier if tiered else 0 for *_, tier in fleet], dtype=np.int64)[places]

    found = rank(places, scores if scored else None, capacity, tiers if tiered else None)

    tier_of = dict(zip(places.tolist(), tiers.tolist(), strict=True))
    order = sorted(places.tolist(), key=lambda place: (tier_of[place], -scores[place], -capacity[place], place))
    assert found.places.tolist() == order
    assert found.scores.tolist() == scores[order].tolist()
    assert found.capacity.tolist() == capacity[order].tolist()
