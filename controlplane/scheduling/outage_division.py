"""How divided replicas are added and removed while targets are lost, and not left yet [replica-division].

Replicas that are added on a lost target do not start, and those that are removed elsewhere instead of there had run.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from controlplane.kinds.binding import TargetCluster
from controlplane.scheduling import divide
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.half_evicted import grows, without_growth
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.placement_plan import AGGREGATED, DYNAMIC, division_of, spreads
from controlplane.scheduling.question import Question
from controlplane.scheduling.schedule import Placed, Verdict, answer
from controlplane.settings import Settings


def sparing_lost(
    question: Question, verdict: Verdict, lost: tuple[str, ...], fleet: Fleet, ledger: Ledger, *, settings: Settings
) -> Verdict:
    """Return a verdict that adds no replicas on lost targets (`lost_targets`), and removes replicas there first.

    Static weights say themselves how many replicas each cluster gets. For a reschedule see `divided_again`.
    """
    outcome, divided = verdict.outcome, division_of(question.placement) in (DYNAMIC, AGGREGATED)
    if not divided or question.bundled or not isinstance(outcome, Placed):
        return verdict
    if sum([replicas for _, replicas in question.targets]) > question.replicas:
        return _removed_there(question, verdict, outcome, lost, fleet, ledger, settings)
    return _elsewhere(question, verdict, outcome, lost, fleet, ledger, settings) or verdict


def divided_again(
    question: Question,
    verdict: Verdict,
    lost: tuple[str, ...],
    fleet: Fleet,
    ledger: Ledger,
    *,
    settings: Settings,
    steady: Question,
) -> Verdict:
    """Return a verdict on a reschedule that moves no replicas to lost targets: what is there stays, and the others are
    divided again.

    If they do not fit where they are allowed, replicas stay where they are. `steady`: the question without the request.
    """
    if not isinstance(verdict.outcome, Placed):
        return without_growth(question, verdict, lost, fleet, ledger, settings=settings, hint=None)
    found = _elsewhere(question, verdict, verdict.outcome, lost, fleet, ledger, settings)
    if found is not None:
        return found
    stays = answer(steady, fleet, ledger, settings=settings)
    stays = sparing_lost(steady, stays, lost, fleet, ledger, settings=settings)
    return Verdict(stays.outcome, replace(stays.explanation, question=question))


def _elsewhere(
    question: Question,
    verdict: Verdict,
    outcome: Placed,
    lost: tuple[str, ...],
    fleet: Fleet,
    ledger: Ledger,
    settings: Settings,
) -> Verdict | None:
    """Return a verdict that adds no replicas on lost targets. None: they do not all fit on other clusters.

    Another affinity term, or clusters beside those that a spread constraint has selected, are not used for it.
    """
    if not spreads(question.placement):
        found = without_growth(question, verdict, lost, fleet, ledger, settings=settings, hint=None)
        return None if _placed(found, outcome.affinity_name) is None else found
    if not grows(question, outcome, lost):
        return verdict
    chosen = verdict.explanation.attempts[-1].chosen
    selected = set() if chosen is None else {fleet.names[place] for place in chosen.tolist()}
    asked = replace(question, placement=replace(question.placement, spread_constraints=()))
    within = fleet.without(set(fleet.names) - selected)
    found = without_growth(asked, verdict, lost, within, ledger, settings=settings, hint=None)
    placed = _placed(found, outcome.affinity_name)
    if placed is None or not selected.issuperset([target.name for target in placed.clusters]):
        return None
    return replace(verdict, outcome=placed)


def _placed(found: Verdict, term: str) -> Placed | None:
    """Return the result of a verdict if it is one under this affinity term."""
    outcome = found.outcome
    return outcome if isinstance(outcome, Placed) and outcome.affinity_name == term else None


def _removed_there(
    question: Question,
    verdict: Verdict,
    outcome: Placed,
    lost: tuple[str, ...],
    fleet: Fleet,
    ledger: Ledger,
    settings: Settings,
) -> Verdict:
    """Return a verdict that removes replicas from lost targets first.

    The given one, if all targets are lost, or one of them is not allowed any more. A spread constraint counts clusters:
    under it, each target keeps a replica if there are enough.
    """
    counted, attempt = spreads(question.placement), verdict.explanation.attempts[-1]
    held, allowed = dict(question.targets), attempt.chosen if counted else attempt.feasible
    running = {name: replicas for name, replicas in held.items() if name not in lost}
    if not running or allowed is None or not {fleet.names[place] for place in allowed.tolist()}.issuperset(held):
        return verdict
    rest = question.replicas - sum(running.values())
    kept, idle = dict[str, int](), {name: held[name] for name in lost}
    if counted:
        kept = _each_with_one(question, idle, running)
    elif rest > 0:
        kept = running | _divided(question, rest, idle)
    if kept:
        clusters = tuple([TargetCluster(name, kept[name]) for name in sorted(kept) if kept[name]])
        return replace(verdict, outcome=replace(outcome, clusters=clusters))
    without = fleet.cached(("without", lost), lambda: fleet.without(lost))
    asked = replace(question, targets=tuple(running.items()))
    found = answer(asked, without, ledger, settings=settings)
    if not isinstance(found.outcome, Placed) or any(target.name not in running for target in found.outcome.clusters):
        return verdict
    return Verdict(found.outcome, replace(found.explanation, question=question))


def _each_with_one(question: Question, idle: dict[str, int], running: dict[str, int]) -> dict[str, int]:
    """Return fewer replicas on all targets, so that each has at least one, and those that run (`running`) stay as far
    as possible. Empty: there are too few. `idle`: those on lost targets."""
    if question.replicas < len(idle) + len(running) or not all((*idle.values(), *running.values())):
        return {}
    works = min(sum(running.values()), question.replicas - len(idle))
    return _more_than_one(question, question.replicas - works, idle) | _more_than_one(question, works, running)


def _more_than_one(question: Question, replicas: int, held: dict[str, int]) -> dict[str, int]:
    rest = _divided(question, replicas - len(held), {name: count - 1 for name, count in held.items()})
    return {name: count + 1 for name, count in rest.items()}


def _divided(question: Question, replicas: int, held: dict[str, int]) -> dict[str, int]:
    """Return these replicas, divided by what targets hold now."""
    weights = np.fromiter(held.values(), dtype=np.int64, count=len(held))
    shares = divide.by_static_weight(replicas, weights, larger_name_first=question.larger_name_first)
    return dict(zip(held, shares.tolist(), strict=True))
