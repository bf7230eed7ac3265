"""Plan: what follows from a placement and a fleet, computed once for all bindings with this placement."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from controlplane.kinds.cluster import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_EXECUTE, PREFER_NO_SCHEDULE
from controlplane.kinds.policy import AGGREGATED as AGGREGATED_PREFERENCE
from controlplane.kinds.policy import ClusterAffinity, ClusterAffinityTerm, Placement, SpreadConstraint
from controlplane.scheduling.cluster_arrays import Counts, Fleet, Mask

DUPLICATED, STATIC, DYNAMIC, AGGREGATED = "Duplicated", "Static", "Dynamic", "Aggregated"

REFUSING: Final = (NO_SCHEDULE, NO_EXECUTE)
DISCOURAGING: Final = (PREFER_NO_SCHEDULE,)


def division_of(placement: Placement) -> str:
    """Return how replicas are divided. A placement without replicaScheduling duplicates them [replica-division]."""
    strategy = placement.replica_scheduling
    if strategy is None or not placement.divided:
        return DUPLICATED
    if strategy.replica_division_preference == AGGREGATED_PREFERENCE:
        return AGGREGATED
    weights = strategy.weight_preference
    return DYNAMIC if weights is not None and weights.dynamic_weight else STATIC


def spreads(placement: Placement) -> bool:
    """Test whether spread constraints of a placement select clusters."""
    return bool(placement.spread_constraints) and not placement.ignores_spread


def constraint(placement: Placement, field: str) -> SpreadConstraint | None:
    """Return the spread constraint on a field; the last one if there are several. None: there is none."""
    constraints = reversed(placement.spread_constraints)
    return next((constraint for constraint in constraints if constraint.spread_by_field == field), None)


class Plan:
    """One placement, under one of its affinity terms, on one fleet.

    `affinity`: the clusters that the term selects. `answers`: what the filters answered about this plan; it is theirs.
    """

    __slots__ = (
        "_weights",
        "affinity",
        "answers",
        "division",
        "fleet",
        "has_reluctant",
        "placement",
        "reluctant",
        "selects",
        "spread_fields",
        "term",
        "tiers",
    )

    def __init__(self, fleet: Fleet, placement: Placement, term: ClusterAffinity | None, *, workload: bool) -> None:
        self.fleet = fleet
        self.placement = placement
        self.term = term
        self.division = division_of(placement)
        self.selects = spreads(placement)
        self.tiers = self._tiers() if workload else None
        self.affinity = fleet.selected_by(term) if self.tiers is None else self.tiers >= 0
        self.spread_fields = frozenset(rule.spread_by_field for rule in placement.spread_constraints)
        discouraged = fleet.with_untolerated_taint(placement.cluster_tolerations, DISCOURAGING)
        self.reluctant: Mask = discouraged | fleet.with_untolerated_taint((), (PREFER_NO_EXECUTE,))
        self.has_reluctant = bool(self.reluctant.any())
        self.answers: dict[Any, Any] = {}
        self._weights: Counts | None = None

    def _tiers(self) -> Counts | None:
        """Return the tier of each cluster: 0 for the term itself, n for its nth overflow term, -1 if none selects it.

        None: the term has no overflow terms.
        """
        term = self.term
        if not isinstance(term, ClusterAffinityTerm) or not term.overflow_affinities:
            return None
        tiers: Counts = np.full(self.fleet.size, -1, dtype=np.int64)
        terms = (term, *term.overflow_affinities)
        for tier in reversed(range(len(terms))):
            tiers[self.fleet.selected_by(terms[tier])] = tier
        return tiers

    def static_weights(self) -> Counts:
        """Return the static weight of each cluster: the largest weight of the rules that select it; 1 without rules."""
        if self._weights is None:
            strategy = self.placement.replica_scheduling
            preference = None if strategy is None else strategy.weight_preference
            if preference is None:
                self._weights = np.ones(self.fleet.size, dtype=np.int64)
            else:
                self._weights = np.zeros(self.fleet.size, dtype=np.int64)
                for rule in preference.static_weight_list:
                    chosen = self.fleet.selected_by(rule.target_cluster)
                    self._weights[chosen] = np.maximum(self._weights[chosen], rule.weight)
        return self._weights


def plan_of(fleet: Fleet, placement: Placement, place: int, *, workload: bool) -> Plan:
    """Return the plan for the affinity term at position `place`; 0 if the placement has one clusterAffinity or none."""
    term = placement.cluster_affinities[place] if placement.cluster_affinities else placement.cluster_affinity
    return fleet.cached(
        (placement, place, workload), lambda: Plan(fleet.for_plans(), placement, term, workload=workload)
    )
