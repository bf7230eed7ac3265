"""A rehearsal: where a dry run has placed a binding without the clusters that it leaves, as its eviction hands it over.

An evicted binding is placed in the write of its eviction (`engine/cascade.py`). The scheduler then answers a question
that was answered just before. It confirms the rehearsal instead, if that was about the same question and its clusters
are still feasible and unchanged. The reserved capacity makes sure that the result fits [refuge-first].
"""

from __future__ import annotations

from msgspec.structs import replace

from controlplane.apimachinery.meta import Struct
from controlplane.scheduling import filters
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.placement_plan import plan_of
from controlplane.scheduling.question import Question
from controlplane.scheduling.refusals import Explanation
from controlplane.scheduling.schedule import Placed, Verdict


class Rehearsal(Struct, frozen=True):
    """The verdict of a dry run. `left`: the clusters without which the binding was placed."""

    left: frozenset[str]
    verdict: Verdict


def confirmed(rehearsal: Rehearsal, question: Question, fleet: Fleet) -> Verdict | None:
    """Return the verdict on the question of a binding that has left its clusters; None: the question has to be asked.

    The verdict has the result of the rehearsal, and the explanation of the filters as they are now.
    """
    outcome, explanation = rehearsal.verdict.outcome, rehearsal.verdict.explanation
    if not isinstance(outcome, Placed) or question.fresh or len(explanation.attempts) > 1:
        return None
    (attempt,) = explanation.attempts
    if attempt.plan.fleet.names != fleet.names or not _is_about(rehearsal, question):
        return None
    plan = plan_of(fleet, question.placement, question.first_term, workload=question.workload)
    feasible = filters.feasible(plan, question)
    assert attempt.chosen is not None, "what is placed was chosen"
    chosen, seen = attempt.chosen.tolist(), attempt.plan.fleet.clusters
    if not set(feasible.tolist()).issuperset(chosen):
        return None
    if any(seen[place] is not fleet.clusters[place] and seen[place] != fleet.clusters[place] for place in chosen):
        return None  # for example a report with less free capacity
    reserved = tuple(sorted(target.name for target in outcome.clusters))
    now = replace(attempt, plan=plan, feasible=feasible, reserved=reserved)
    return Verdict(outcome, Explanation(question, (now,)))


def _is_about(rehearsal: Rehearsal, question: Question) -> bool:
    """Test whether a rehearsal was about this question, before the clusters were left."""
    rehearsed, left = rehearsal.verdict.explanation.question, rehearsal.left
    if question.targets != tuple([target for target in rehearsed.targets if target[0] not in left]):
        return False
    if set(question.evicted) != left.union(rehearsed.evicted):
        return False
    return replace(rehearsed, targets=question.targets, evicted=question.evicted) == question
