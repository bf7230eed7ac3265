"""A half-evicted binding: it has left one lost cluster, and is still to be evicted from others [refuge-first].

Each eviction needs a token of its own, so this is the usual state between two of them. The targets on the other lost
clusters stay until their own evictions, but replicas of the first cluster are no use there. Neither are those that a
reschedule takes from copies that work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from controlplane.clusters.tolerations import wait_seconds
from controlplane.kinds.binding import TAINT_UNTOLERATED, Binding, TargetCluster
from controlplane.kinds.cluster import EVICTING_EFFECTS, Cluster
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.placement_plan import DUPLICATED, division_of
from controlplane.scheduling.question import Question, reschedule_asked
from controlplane.scheduling.schedule import Placed, Refused, Verdict, answer
from controlplane.settings import Settings


def targets_to_leave(binding: Binding, left: Collection[str], fleet: Fleet) -> tuple[str, ...]:
    """Return the targets on lost clusters that a half-evicted binding is still to be evicted from, sorted by name.

    (): it has left no lost cluster yet. `left`: the clusters that it has left, see `left_for_taints`. The taints
    of the targets decide, and not what evictions have reserved: a reservation expires, and a refusal ends it.
    If a reschedule is requested, those that do not answer count as well.
    """
    if not left and all(task.reason != TAINT_UNTOLERATED for task in binding.spec.graceful_eviction_tasks):
        return ()
    if reschedule_asked(binding.spec, binding.status):
        return lost_targets(binding, fleet)
    return tuple(sorted(target.name for target in binding.spec.clusters if _evicts(binding, target.name, fleet)))


def lost_targets(binding: Binding, fleet: Fleet) -> tuple[str, ...]:
    """Return the targets that do not answer, or that the binding is to be evicted from, sorted by name."""
    troubled = fleet.cached("troubled", lambda: _troubled(fleet))
    names = [target.name for target in binding.spec.clusters if target.name in troubled]
    return tuple(sorted([name for name in names if not troubled[name].answers or _evicts(binding, name, fleet)]))


def _troubled(fleet: Fleet) -> dict[str, Cluster]:
    """Return the clusters that do not answer, or have a taint that may evict, by name."""
    clusters = (cluster for cluster in fleet.clusters if not cluster.answers or cluster.has_taint(*EVICTING_EFFECTS))
    return {cluster.metadata.name: cluster for cluster in clusters}


def _evicts(binding: Binding, name: str, fleet: Fleet) -> bool:
    """Test whether a cluster has a taint that evicts the binding, at once or after some time."""
    place = fleet.index.get(name)
    taints = () if place is None else fleet.clusters[place].spec.taints
    evicting = [taint for taint in taints if taint.effect in EVICTING_EFFECTS]
    return any(wait_seconds(binding.spec, taint, evicting) is not None for taint in evicting)


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
    regions than a constraint allows, until the next eviction. `hint`: as in `answer`. If the targets hold more replicas
    than are wanted, they keep those that the verdict would move between them.
    """
    staying = tuple([TargetCluster(name, replicas) for name, replicas in question.targets if name in leaving])
    others = question.replicas - sum([target.replicas for target in staying])
    if not grows(question, verdict.outcome, leaving):
        return verdict
    if others < 0:
        return replace(verdict, outcome=_without_exchange(verdict.outcome, staying))
    targets = tuple([target for target in question.targets if target[0] not in leaving])
    without = fleet.cached(("without", leaving), lambda: fleet.without(leaving))
    found = answer(replace(question, targets=targets, replicas=others), without, ledger, settings=settings, hint=hint)
    return Verdict(_with(found.outcome, staying), replace(found.explanation, question=question))


def grows(question: Question, outcome: Placed | Refused, leaving: tuple[str, ...]) -> bool:
    """Test whether a result, or the part that fits, adds divided replicas on these targets."""
    if question.bundled:
        return False
    if division_of(question.placement) == DUPLICATED:
        return False
    held = dict(question.targets)
    return any(target.name in leaving and target.replicas > held[target.name] for target in _targets(outcome))


def _without_exchange(outcome: Placed | Refused, staying: Iterable[TargetCluster]) -> Placed | Refused:
    """Return the outcome with no more replicas on any of these targets than it has now. Those that would lose most keep
    the others, so that the sum is the same.

    Example: member2 has 1 and member3 has 5 of 4 wanted replicas. 2 and 2 becomes 1 and 3.
    """
    held = {target.name: target.replicas for target in staying}
    found = {target.name: target.replicas for target in _targets(outcome)}
    kept = {name: min(replicas, held.get(name, replicas)) for name, replicas in found.items()}
    excess = sum(found.values()) - sum(kept.values())
    for name in sorted(held, key=lambda name: (kept.get(name, 0) - held[name], name)):
        back = min(excess, held[name] - kept.get(name, 0))
        kept[name] = kept.get(name, 0) + back
        excess -= back
    clusters = tuple(TargetCluster(name, kept[name]) for name in sorted(kept) if kept[name] or name in found)
    return replace(outcome, clusters=clusters) if isinstance(outcome, Placed) else replace(outcome, part=clusters)


def _targets(outcome: Placed | Refused) -> tuple[TargetCluster, ...]:
    """Return the targets of a result, or of the part that fits."""
    return outcome.clusters if isinstance(outcome, Placed) else outcome.part or ()


def _with(outcome: Placed | Refused, staying: Iterable[TargetCluster]) -> Placed | Refused:
    """Return the outcome with these targets added to the result, or to the part that fits."""
    if isinstance(outcome, Placed):
        return replace(outcome, clusters=_merged(outcome.clusters, staying))
    return outcome if outcome.part is None else replace(outcome, part=_merged(outcome.part, staying))


def _merged(some: Iterable[TargetCluster], others: Iterable[TargetCluster]) -> tuple[TargetCluster, ...]:
    return tuple(sorted([*some, *others], key=lambda target: target.name))
