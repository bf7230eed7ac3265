"""A rehearsal: where a dry run has placed a binding without the clusters that it leaves, as its eviction hands it over.

An evicted binding is placed in the write of its eviction (`engine/cascade.py`). The scheduler would then answer a
question that was answered just before. It confirms the rehearsal instead, if the binding has changed by its eviction
only, and if the chosen clusters are still feasible and unchanged. The reserved capacity makes sure that the result fits
[refuge-first].
"""

from __future__ import annotations

from msgspec.structs import replace

from controlplane.apimachinery.meta import Struct
from controlplane.kinds.binding import TAINT_UNTOLERATED, Binding, manual_placement
from controlplane.kinds.binding.origin import departures
from controlplane.scheduling import filters
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.placement_plan import plan_of
from controlplane.scheduling.question import Question
from controlplane.scheduling.refusals import Explanation
from controlplane.scheduling.schedule import Placed, Verdict


class Rehearsal(Struct, frozen=True):
    """The verdict of a dry run. `left`: the clusters without which the binding was placed.

    `binding`: the binding before it left them. None: the rehearsal is not handed over yet. Bindings that ask the same
    share one until then.
    """

    left: frozenset[str]
    verdict: Verdict
    binding: Binding | None = None


def confirmed(rehearsal: Rehearsal, binding: Binding, fleet: Fleet) -> Verdict | None:
    """Return the verdict on a binding that has left its clusters; None: the scheduler has to be asked.

    The verdict has the result of the rehearsal, and the explanation of the filters as they are now.
    """
    outcome, explanation = rehearsal.verdict.outcome, rehearsal.verdict.explanation
    if not isinstance(outcome, Placed) or explanation.question.fresh or len(explanation.attempts) > 1:
        return None
    (attempt,) = explanation.attempts
    if attempt.plan.fleet.names != fleet.names or not _has_only_left(rehearsal, binding):
        return None
    question = _question_after(rehearsal)
    plan = plan_of(fleet, question.placement, question.first_term, workload=question.workload)
    feasible = filters.feasible(plan, question)
    assert attempt.chosen is not None, "what is placed was chosen"
    chosen, seen = attempt.chosen.tolist(), attempt.plan.fleet.clusters
    if not set(feasible.tolist()).issuperset(chosen):
        return None
    gone = {} if rehearsal.binding is None else departures(rehearsal.binding)
    earlier = [fleet.index[name] for name in gone if name in fleet.index]
    if any(
        seen[place] is not fleet.clusters[place] and seen[place] != fleet.clusters[place] for place in chosen + earlier
    ):
        return None  # for example a report with less free capacity, or a taint that is gone
    reserved = tuple(sorted([target.name for target in outcome.clusters]))
    now = replace(attempt, plan=plan, feasible=feasible, reserved=reserved)
    return Verdict(outcome, Explanation(question, (now,)))


def _has_only_left(rehearsal: Rehearsal, binding: Binding) -> bool:
    """Test whether a binding is as it was in the rehearsal, but for the clusters that it has left because of taints."""
    if rehearsal.binding is None:
        return False
    spec, status, left = rehearsal.binding.spec, rehearsal.binding.status, rehearsal.left
    tasks = binding.spec.graceful_eviction_tasks[len(spec.graceful_eviction_tasks) :]
    evicted = replace(
        spec,
        clusters=tuple([target for target in spec.clusters if target.name not in left]),
        graceful_eviction_tasks=(*spec.graceful_eviction_tasks, *tasks),
    )
    return (
        {(task.from_cluster, task.reason) for task in tasks} == {(name, TAINT_UNTOLERATED) for name in left}
        and binding.spec == evicted
        and binding.status.scheduler_observed_affinity_name == status.scheduler_observed_affinity_name
        and binding.status.last_scheduled_time == status.last_scheduled_time
        and manual_placement.mark_applies(binding) == manual_placement.mark_applies(rehearsal.binding)
    )


def _question_after(rehearsal: Rehearsal) -> Question:
    """Return the question of the binding once it has left its clusters: that of the rehearsal with this difference.

    Making it from the binding again took a fifth of the scheduler's work for an evicted binding.
    """
    rehearsed, left = rehearsal.verdict.explanation.question, rehearsal.left
    targets = tuple([target for target in rehearsed.targets if target[0] not in left])
    return replace(rehearsed, targets=targets, evicted=tuple(sorted(left.union(rehearsed.evicted))))
