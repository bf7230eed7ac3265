"""Schedules many bindings against one ledger of reserved capacity.

Each placement reserves its capacity before the next binding is scheduled. Questions that do not depend on free capacity
are answered once for all bindings with an equal question. So are refused ones as long as nothing is reserved: bindings
that wait for room ask the same each time a cluster reports. A binding for which an eviction reserved clusters gets an
answer of its own, because its explanation names them. So does a half-evicted binding, and one that is divided again
while targets are lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from controlplane.kinds.binding import ResourceBindingSpec, ResourceBindingStatus, TargetCluster
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.colocation import NO_APPLICATION, Application
from controlplane.scheduling.half_evicted import without_growth
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.outage_division import divided_again, sparing_lost
from controlplane.scheduling.placement_plan import DUPLICATED, STATIC, division_of, spreads
from controlplane.scheduling.question import ALONE, Neighbours, Question, question_of
from controlplane.scheduling.schedule import Placed, Refused, Verdict, answer
from controlplane.settings import Settings


class Item(msgspec.Struct, frozen=True):
    """One binding to schedule. `uncounted`: its reserved replicas by cluster that no report of the cluster counts
    yet. `left`: as in `question_of`. `leaving`: its targets on lost clusters, see `targets_to_leave`.
    `lost`: its targets on lost clusters that it may stay on, see `sparing_lost` and `divided_again`."""

    spec: ResourceBindingSpec
    status: ResourceBindingStatus
    neighbours: Neighbours = ALONE
    application: Application = NO_APPLICATION
    uncounted: dict[str, int] = {}
    hint: tuple[TargetCluster, ...] | None = None
    left: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


class Batch:
    """Schedules bindings one after the other on one fleet, against one ledger."""

    __slots__ = ("_fleet", "_known", "_ledger", "_refused", "_settings")

    def __init__(self, fleet: Fleet, ledger: Ledger, settings: Settings) -> None:
        self._fleet = fleet
        self._ledger = ledger
        self._settings = settings
        self._known: dict[Question, Verdict] = {}  # those that do not depend on free capacity
        self._refused: dict[Question, tuple[int, Verdict]] = {}  # with the changes of the ledger before

    def place(self, item: Item) -> tuple[Question, Verdict]:
        """Return the question of a binding and the verdict on it, and reserve the capacity that the result takes.

        Raises ValueError as `question_of` does.
        """
        question = self._question(item, item.spec)
        alone = item.hint is not None or bool(item.leaving) or (question.fresh and bool(item.lost))
        verdict = None if alone else self._answered(question)
        if verdict is None:
            verdict = self._verdict(item, question)
            if not alone and ignores_capacity(question):
                self._known[question] = verdict
            elif not alone and isinstance(verdict.outcome, Refused):
                self._refused[question] = (self._ledger.changes, verdict)
        if isinstance(verdict.outcome, Placed) and question.workload and verdict.outcome.clusters:
            if question.targets or item.uncounted:
                self._take_difference(question, verdict.outcome.clusters, item.uncounted)
            else:
                self._take_all(question, verdict)
        return question, verdict

    def _question(self, item: Item, spec: ResourceBindingSpec) -> Question:
        return question_of(
            spec,
            item.status,
            settings=self._settings,
            neighbours=item.neighbours,
            application=item.application,
            left=item.left,
        )

    def _verdict(self, item: Item, question: Question) -> Verdict:
        """Return the answer, so that no replicas are added where they would not start if others have room for them."""
        fleet, ledger, settings, hint = self._fleet, self._ledger, self._settings, item.hint
        verdict = answer(question, fleet, ledger, settings=settings, hint=hint)
        if item.leaving:
            return without_growth(question, verdict, item.leaving, fleet, ledger, settings=settings, hint=hint)
        if item.lost and question.fresh:
            steady = self._question(item, replace(item.spec, reschedule_triggered_at=None))
            return divided_again(question, verdict, item.lost, fleet, ledger, settings=settings, steady=steady)
        if item.lost and hint is None:
            return sparing_lost(question, verdict, item.lost, fleet, ledger, settings=settings)
        return verdict

    def _answered(self, question: Question) -> Verdict | None:
        """Return the verdict on an equal question, if it is still the same."""
        known = self._known.get(question)
        if known is None and (refused := self._refused.get(question)) is not None:
            changes, verdict = refused
            return verdict if changes == self._ledger.changes else None
        return known

    def _take_all(self, question: Question, verdict: Verdict) -> None:
        """Reserve all replicas of a result for a binding without targets; without shares 1 on each chosen cluster."""
        attempt = verdict.explanation.attempts[-1]
        assert attempt.chosen is not None, "what is placed was chosen"
        if attempt.shares is None:
            self._ledger.reserve(attempt.chosen, np.ones(len(attempt.chosen), dtype=np.int64), question.asked)
        else:
            self._ledger.reserve(attempt.chosen, attempt.shares, question.asked)

    def _take_difference(
        self, question: Question, clusters: Sequence[TargetCluster], uncounted: dict[str, int], *, times: int = 1
    ) -> None:
        """Reserve the new replicas of a result. Replicas that were reserved before are in the ledger already."""
        wanted = growth(question, clusters, uncounted)
        more = {name: count - uncounted.get(name, 0) for name, count in wanted.items()}
        taken = {name: count for name, count in more.items() if count > 0}
        if taken:
            counts = times * np.fromiter(taken.values(), dtype=np.int64, count=len(taken))
            self._ledger.reserve(self._fleet.places(taken), counts, question.asked)

    def take(self, question: Question, clusters: Sequence[TargetCluster], uncounted: dict[str, int]) -> None:
        """Reserve what the part of a refused result takes, which `place` does not reserve."""
        if question.workload and clusters:
            self._take_difference(question, clusters, uncounted)

    def give_back(self, question: Question, clusters: Sequence[TargetCluster], uncounted: dict[str, int]) -> None:
        """Release what `place` reserved for a result that is not written after all."""
        if question.workload and clusters:
            self._take_difference(question, clusters, uncounted, times=-1)


def ignores_capacity(question: Question) -> bool:
    """Test whether the answer does not depend on free capacity, so that equal questions have equal answers."""
    if spreads(question.placement):
        return False
    return not question.workload or (not question.bundled and division_of(question.placement) in (DUPLICATED, STATIC))


def may_depend_on_capacity(spec: ResourceBindingSpec) -> bool:
    """Test whether a placement may depend on free capacity. False: reserved capacity need not be read for it."""
    placement = spec.placement
    if placement is None:
        return False
    return bool(spec.components) or spreads(placement) or division_of(placement) not in (DUPLICATED, STATIC)


def growth(question: Question, clusters: Sequence[TargetCluster], uncounted: dict[str, int]) -> dict[str, int]:
    """Return by cluster how many replicas (or sets) of a result no report of the cluster counts.

    These are the new replicas, and the replicas that were reserved before and are not counted yet (`uncounted`).
    """
    if question.bundled:
        before = {name for name, _ in question.targets}
        return {target.name: uncounted.get(target.name, 0) if target.name in before else 1 for target in clusters}
    held = dict(question.targets)
    return {
        target.name: max(0, target.replicas - held.get(target.name, 0) + uncounted.get(target.name, 0))
        for target in clusters
    }
