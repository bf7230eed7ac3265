"""What a scheduling decision found: each affinity term tried, the clusters that a filter refused, and the headline.

A decision keeps only arrays (`Explanation`). The refusals and the headline are made from them when they are needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from controlplane.scheduling.cluster_arrays import Counts, Places
from controlplane.scheduling.filters import Refusal, refused
from controlplane.scheduling.placement_plan import Plan
from controlplane.scheduling.question import Question


class Attempt(msgspec.Struct, frozen=True):
    """What was computed under one affinity term. Arrays are over the fleet, `shares` is over `chosen`.

    None: that step was not reached. `failure`: why the term gave no result; "" if it gave the result.
    """

    plan: Plan
    affinity_name: str
    feasible: Places | None
    chosen: Places | None
    capacity: Counts | None
    shares: Counts | None
    failure: str
    joined: str = ""  # how it joined its application: Followed or ForAll; "" if it was placed alone
    reserved: tuple[str, ...] = ()  # preferred clusters, on which an eviction had reserved capacity
    quotas: Mapping[int, str] = {}  # by place: the ResourceQuota that limits `capacity`, as namespace/name
    unmatched: frozenset[int] = frozenset()  # places of clusters without a node that takes the pods


class Explanation(msgspec.Struct, frozen=True):
    """The question of a binding, and an attempt for each affinity term that was tried."""

    question: Question
    attempts: tuple[Attempt, ...]


def refusals(explanation: Explanation, term: int = 0) -> dict[str, Refusal]:
    """Return the refusal of every cluster that is not feasible, by name. `term`: which attempt."""
    attempt = explanation.attempts[term]
    names = attempt.plan.fleet.names
    return {
        names[place]: Refusal(group.filter, group.value)
        for group in refused(attempt.plan, explanation.question)
        for place in group.clusters.nonzero()[0].tolist()
    }


def headline(explanation: Explanation) -> str:
    """Return why no cluster is feasible under the affinity term that was tried first: how many clusters each filter
    refused.

    Example: "0/3 clusters are available: 1 APIEnablement: it does not serve Deployment of apps/v1, 2 TaintToleration:
    taint gpu:NoSchedule is not tolerated".
    """
    attempt = explanation.attempts[0]
    size = attempt.plan.fleet.size
    if not size:
        return "0/0 clusters are available: no cluster exists"
    counts: Counter[str] = Counter()
    for group in refused(attempt.plan, explanation.question):
        counts[f"{group.filter}: {group.value}"] += int(group.clusters.sum())
    parts = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
    return f"0/{size} clusters are available: {parts}"
