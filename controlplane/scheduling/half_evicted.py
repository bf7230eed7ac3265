"""A half-evicted binding: it has left one lost cluster, and is still to be evicted from others [refuge-first].

Each eviction needs a token of its own, so this is the usual state between two of them. The targets on the other lost
clusters stay until their own evictions, but replicas of the first cluster are no use there.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from controlplane.kinds.binding import TargetCluster
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.placement_plan import DUPLICATED, division_of
from controlplane.scheduling.question import Question
from controlplane.scheduling.schedule import Placed, Refused, Verdict, answer
from controlplane.settings import Settings


def without_growth(
    question: Question,
    verdict: Verdict,
    leaving: tuple[str, ...],
    fleet: Fleet,
    ledger: Ledger,
    *,
    settings: Settings,
    hint: tuple[TargetCluster, ...] | None,
) -> Verdict:
    """Return a verdict on divided replicas that adds none on the clusters that are still to be left (`leaving`).

    If the given verdict adds some there, the targets on them are kept as they are, and only the other replicas are
    placed, on the fleet without these clusters. So the result may contain clusters of two affinity terms or of more
    regions than a constraint allows, until the next eviction. `hint`: as in `answer`.
    """
    staying = tuple([TargetCluster(name, replicas) for name, replicas in question.targets if name in leaving])
    others = question.replicas - sum([target.replicas for target in staying])
    if others < 0 or not _grows(question, verdict.outcome, leaving):
        return verdict
    targets = tuple([target for target in question.targets if target[0] not in leaving])
    without = fleet.cached(("without", leaving), lambda: fleet.without(leaving))
    found = answer(replace(question, targets=targets, replicas=others), without, ledger, settings=settings, hint=hint)
    return Verdict(_with(found.outcome, staying), replace(found.explanation, question=question))


def _grows(question: Question, outcome: Placed | Refused, leaving: tuple[str, ...]) -> bool:
    """Test whether a result adds divided replicas on these targets. A reschedule divides all replicas again."""
    if isinstance(outcome, Refused) or question.fresh or question.bundled:
        return False
    if division_of(question.placement) == DUPLICATED:
        return False
    held = dict(question.targets)
    return any(target.name in leaving and target.replicas > held[target.name] for target in outcome.clusters)


def _with(outcome: Placed | Refused, staying: Iterable[TargetCluster]) -> Placed | Refused:
    """Return the outcome with these targets added to the result, or to the part that fits."""
    if isinstance(outcome, Placed):
        return replace(outcome, clusters=_merged(outcome.clusters, staying))
    return outcome if outcome.part is None else replace(outcome, part=_merged(outcome.part, staying))


def _merged(some: Iterable[TargetCluster], others: Iterable[TargetCluster]) -> tuple[TargetCluster, ...]:
    return tuple(sorted([*some, *others], key=lambda target: target.name))
