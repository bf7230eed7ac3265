"""Schedules one binding: filter the clusters, score them, select some and divide the replicas [scheduling-outcomes].

The scheduler controller, the refuge check of evictions and dry runs all use these functions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

import numpy as np

from controlplane.apimachinery.meta import Struct
from controlplane.kinds.binding import (
    ResourceBindingSpec,
    ResourceBindingStatus,
    TargetCluster,
    TargetComponent,
    quota_index,
)
from controlplane.scheduling import divide, filters
from controlplane.scheduling.candidates import RESERVED_SCORE, TARGET_SCORE, Candidates, Unselectable, rank
from controlplane.scheduling.cluster_arrays import Counts, Fleet, Places
from controlplane.scheduling.colocation import NO_APPLICATION, Application
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.placement_plan import AGGREGATED, DUPLICATED, STATIC, Plan, plan_of
from controlplane.scheduling.question import ALONE, Neighbours, Question, question_of
from controlplane.scheduling.refusals import Attempt, Explanation, headline
from controlplane.scheduling.select import select
from controlplane.settings import Settings

QUOTA_EXCEEDED: Final = quota_index.REASON  # there is a place, but a quota has no room [federated-quotas]
NO_CLUSTER_FIT, UNSCHEDULABLE, SCHEDULER_ERROR = "NoClusterFit", "Unschedulable", "SchedulerError"

FOLLOWED, FOR_ALL = "Followed", "ForAll"
"""How a binding joined its application: it follows other parts, or it is first, on a cluster with capacity for all
parts."""

_LAST_TIER: Final = 10**6
"""Added to the tier of clusters that are used last, below every overflow tier [prefer-no-execute]
[prefer-no-schedule]."""
_LIMITS_NAMED: Final = 3  # clusters that a message names with the ResourceQuota that limits them


class Placed(Struct, frozen=True):
    """A complete result. `clusters` are in the order of their names; `affinity_name` names the term that gave the
    result."""

    clusters: tuple[TargetCluster, ...]
    affinity_name: str = ""


class Refused(Struct, frozen=True):
    """No result. Existing copies stay [placement-is-kept].

    `part`: the targets that do fit, if only capacity was missing [refuge-first]. None: another reason.
    """

    reason: str  # NoClusterFit, Unschedulable, SchedulerError, QuotaExceeded
    message: str
    retry: bool
    part: tuple[TargetCluster, ...] | None = None


class Verdict(Struct, frozen=True):
    outcome: Placed | Refused
    explanation: Explanation


class _Failure(Struct, frozen=True):
    """Why one affinity term gave no result. The fields are those of `Refused`."""

    reason: str
    message: str
    part: tuple[TargetCluster, ...] | None = None


class _Failed(Exception):
    """Carries a failure to `answer`. It is never stored: its traceback would keep all callers and what they hold."""

    def __init__(self, reason: str, message: str, part: tuple[TargetCluster, ...] | None = None) -> None:
        super().__init__(message)
        self.failure = _Failure(reason, message, part)


def schedule(
    spec: ResourceBindingSpec,
    status: ResourceBindingStatus,
    fleet: Fleet,
    *,
    settings: Settings,
    ledger: Ledger | None = None,
    neighbours: Neighbours = ALONE,
    application: Application = NO_APPLICATION,
    unavailable: Collection[str] = (),
    left: Collection[str] = (),
    hint: tuple[TargetCluster, ...] | None = None,
) -> Verdict:
    """Return the placement of a binding, or the reason why there is none.

    `ledger`: capacity that is reserved and that no report counts yet; it is not changed here. `unavailable`: clusters
    that count as unavailable. `left`: as in `question_of`. `hint`: the targets that an eviction reserved; see `answer`.
    Raises ValueError if the binding has no placement or requests something that is not a quantity.
    """
    question = question_of(spec, status, settings=settings, neighbours=neighbours, application=application, left=left)
    seen = fleet.without(unavailable) if unavailable else fleet
    return answer(question, seen, ledger if ledger is not None else Ledger(fleet), settings=settings, hint=hint)


def answer(
    question: Question,
    fleet: Fleet,
    ledger: Ledger,
    *,
    settings: Settings,
    hint: tuple[TargetCluster, ...] | None = None,
) -> Verdict:
    """Return the verdict on a question: the result of the first affinity term that gives one, else the first failure.

    The terms from `first_term` on are tried, then those before it: the one that is in use may be the last, and the
    first ones may have recovered [affinity-groups].
    `hint`: the targets that an eviction reserved for this binding. They are preferred to other feasible clusters. If a
    term gives no result with the hint, the term is tried again without it.
    """
    terms = question.placement.cluster_affinities
    reserved = {} if question.fresh else {target.name: target.replicas for target in hint or ()}
    attempts: list[Attempt] = []
    first: _Failure | None = None
    count = max(1, len(terms))
    for place in ((question.first_term + step) % count for step in range(count)):
        plan = plan_of(fleet, question.placement, place, workload=question.workload)
        name = terms[place].affinity_name if terms else ""
        for preferred in (reserved, {}) if reserved else ({},):
            trial = _Trial(question, plan, ledger, settings, preferred)
            try:
                clusters = trial.run()
            except _Failed as error:
                failure = error.failure
                continue
            attempts.append(trial.attempt(name, ""))
            return Verdict(Placed(clusters, name), Explanation(question, tuple(attempts)))
        attempts.append(trial.attempt(name, failure.message))
        first = first or failure
    assert first is not None, "a placement has at least one affinity term to try"
    explanation = Explanation(question, tuple(attempts))
    message = headline(explanation) if first.reason == NO_CLUSTER_FIT else first.message
    return Verdict(Refused(first.reason, message, first.reason != NO_CLUSTER_FIT, first.part), explanation)


class _Trial:
    """One question under one affinity term. It keeps the intermediate results for the explanation."""

    __slots__ = (
        "capacity",
        "chosen",
        "feasible",
        "joined",
        "ledger",
        "picked",
        "plan",
        "question",
        "quotas",
        "reserved",
        "settings",
        "shares",
        "unmatched",
    )

    def __init__(
        self, question: Question, plan: Plan, ledger: Ledger, settings: Settings, reserved: Mapping[str, int]
    ) -> None:
        self.question = question
        self.plan = plan
        self.ledger = ledger
        self.settings = settings
        self.feasible: Places | None = None
        self.chosen: Places | None = None
        self.picked: Places | None = None  # the chosen clusters in the order of selection
        self.capacity: Counts | None = None
        self.quotas: Mapping[int, str] = {}  # by place: the ResourceQuota that limits the capacity
        self.unmatched: frozenset[int] = frozenset()  # places of clusters without a node that takes the pods
        self.shares: Counts | None = None
        self.joined = ""
        self.reserved = reserved

    def _held(self) -> Counts:
        """Return how many replicas the binding has on each cluster of the fleet."""
        return _on_each(self.question.targets, self.plan.fleet)

    def attempt(self, name: str, failure: str) -> Attempt:
        return Attempt(
            self.plan,
            name,
            self.feasible,
            self.chosen,
            self.capacity,
            self.shares,
            failure,
            self.joined,
            tuple(sorted(self.reserved)),
            self.quotas,
            self.unmatched,
        )

    def run(self) -> tuple[TargetCluster, ...]:
        """Filter, score, select, divide. Raises _Failed."""
        feasible = self.feasible = filters.feasible(self.plan, self.question)
        if not len(feasible):
            raise _Failed(NO_CLUSTER_FIT, "no cluster is feasible")
        if self.question.application is not NO_APPLICATION:
            for how, places, capacity in self._preferred(feasible):
                try:
                    targets = self._within(places, capacity)
                except _Failed:
                    self.chosen = self.shares = None
                else:
                    self.joined = how
                    return targets
        return self._within(feasible)

    def _within(self, feasible: Places, capacity: Counts | None = None) -> tuple[TargetCluster, ...]:
        """Select and divide among these clusters. Raises _Failed."""
        try:
            self.picked = self._select(feasible, capacity) if self.plan.selects else None
        except Unselectable as failure:
            raise _Failed(SCHEDULER_ERROR, f"{failure}{self._limits(feasible)}") from None
        chosen = feasible if self.picked is None else self.picked if len(self.picked) == 1 else np.sort(self.picked)
        if not len(chosen):
            message = "spreadConstraints: maxGroups 0 selects no cluster; set it to at least 1 or remove the constraint"
            raise _Failed(SCHEDULER_ERROR, message)
        self.chosen = chosen
        return self._assign(chosen)

    # Score and select

    def _free(self) -> Counts:
        """Return how many more replicas (or sets of components) fit on each cluster of the fleet.

        Without replicas all clusters are equal, and no capacity is explained.
        """
        if not self.question.replicas and not self.question.bundled:
            return np.zeros(self.plan.fleet.size, dtype=np.int64)
        if self.capacity is None:
            self.capacity = self.ledger.free(self.question.asked)
            self.quotas = self.ledger.limiting_quotas(self.question.asked)
            self.unmatched = self.plan.fleet.without_matching_node(self.question.asked)
        return self.capacity

    def _tiers(self, places: Places) -> Counts | None:
        """Return the tier of each of these clusters; lower tiers are used first. None: all clusters have the same
        tier."""
        plan = self.plan
        if plan.tiers is None and not plan.has_reluctant:
            return None
        reluctant = plan.reluctant[places]
        if plan.tiers is None and not reluctant.any():
            return None
        tiers = np.zeros(len(places), dtype=np.int64) if plan.tiers is None else plan.tiers[places].copy()
        there = plan.fleet.places(name for name, _ in self.question.targets)
        tiers[reluctant & ~np.isin(places, there)] += _LAST_TIER
        return tiers

    def _preferred(self, feasible: Places) -> Iterator[tuple[str, Places, Counts | None]]:
        """Yield sets of clusters to try first, so that all parts of an application end on one cluster.

        First each cluster that other parts are on, if it has enough free capacity. Then, for the first part of an
        application, all clusters with capacity for all parts. A binding that already has targets is not moved, unless
        `Application.moves` is set. Clusters with a taint that discourages new copies are left out. The first value of
        each item is FOLLOWED or FOR_ALL.
        """
        question, fleet = self.question, self.plan.fleet
        application = question.application
        there = np.isin(feasible, fleet.places(name for name, _ in question.targets))
        if there.any() and not application.moves:
            return
        open_ = feasible[~self.plan.reluctant[feasible] | there]
        for place in fleet.places(application.near):
            if place in open_ and self._free()[place] >= question.needed:
                yield FOLLOWED, np.array([place]), None
        if application.whole.parts and not there.any():
            capacity = self.ledger.free(application.whole)
            fits = capacity > 0
            for kind in application.kinds:
                fits &= fleet.enables(*kind)
            yield FOR_ALL, open_[fits[open_]], None if question.workload else capacity

    def _rank(self, places: Places, capacity: Counts | None = None) -> Candidates:
        index = self.plan.fleet.index
        there = [index[name] for name, _ in self.question.targets if name in index]
        scores: Counts | None = None
        if there or self.reserved:
            scores = np.zeros(self.plan.fleet.size, dtype=np.int64)
            scores[self.plan.fleet.places(self.reserved)] = RESERVED_SCORE
            scores[there] = TARGET_SCORE
        if capacity is None:
            capacity = self._free()
            if there:
                capacity = capacity + self._held()
        return rank(places, scores, capacity, self._tiers(places))

    def _select(self, places: Places, capacity: Counts | None) -> Places:
        question = self.question
        return select(self.plan, self._rank(places, capacity), replicas=question.replicas, needed=question.needed)

    # Divide

    def _assign(self, chosen: Places) -> tuple[TargetCluster, ...]:
        question = self.question
        names = self.plan.fleet.names
        if question.bundled:
            parts = tuple(TargetComponent(name, replicas) for name, replicas in question.components)
            return tuple(TargetCluster(names[place], components=parts) for place in chosen.tolist())
        if not question.workload:
            return tuple(TargetCluster(names[place]) for place in chosen.tolist())
        shares = self.shares = self._shares(chosen)
        return self._targets(chosen, shares)

    def _targets(self, chosen: Places, shares: Counts) -> tuple[TargetCluster, ...]:
        names, empty = self.plan.fleet.names, self.settings.enable_empty_workload_propagation
        pairs = zip(chosen.tolist(), shares.tolist(), strict=True)
        return tuple([TargetCluster(names[place], count) for place, count in pairs if count or empty])

    def _shares(self, chosen: Places) -> Counts:
        question, plan = self.question, self.plan
        if plan.division == DUPLICATED:
            return np.full(len(chosen), question.replicas, dtype=np.int64)
        if plan.division == STATIC:
            weights = plan.static_weights()[chosen]
            return divide.by_static_weight(question.replicas, weights, larger_name_first=question.larger_name_first)
        order = self._order(chosen) if plan.division == AGGREGATED else np.arange(len(chosen))
        free, held = self._free()[chosen], self._held()[chosen]
        given = divide.Shares(plan.division, free, held, order, question.fresh, question.larger_name_first)
        if self.reserved:
            grown = _on_each(self.reserved.items(), plan.fleet)[chosen] - held
            with suppress(divide.NotEnoughCapacity):
                return divide.by_free_capacity(question.replicas, given.at_most(grown), self._tiers(chosen))
        try:
            return divide.by_free_capacity(question.replicas, given, self._tiers(chosen))
        except divide.NotEnoughCapacity as failure:
            part = self._targets(chosen, failure.part)
            raise _Failed(UNSCHEDULABLE, f"{failure}{self._limits(chosen)}", part) from None

    def _limits(self, places: Places) -> str:
        """Return what limits these clusters besides free capacity, to be added to a message; "": nothing does."""
        names = self.plan.fleet.names
        limits = [f"{names[place]} ({self.quotas[place]})" for place in places.tolist() if place in self.quotas]
        nodeless = [names[place] for place in places.tolist() if place in self.unmatched]
        return (f"; ResourceQuotas limit {_first_of(limits)}" if limits else "") + (
            f"; node selector, node affinity and tolerations select no node of {_first_of(nodeless)}"
            if nodeless
            else ""
        )

    def _order(self, chosen: Places) -> Places:
        """Return the order in which an aggregated division fills the selected clusters, as positions in `chosen`.

        That is the order of selection (the best cluster of each region first) or, without a selection, the order of
        preference. If replicas are removed, it is the order of the binding's targets, so that the result does not
        depend on reports of free capacity.
        """
        question = self.question
        if question.fresh or int(self._held()[chosen].sum()) <= question.replicas:
            return np.searchsorted(chosen, self._rank(chosen).places if self.picked is None else self.picked)
        listed = [place for place in self.plan.fleet.places(name for name, _ in question.targets) if place in chosen]
        first = np.searchsorted(chosen, np.array(listed, dtype=np.intp))
        return np.concatenate((first, np.setdiff1d(np.arange(len(chosen)), first)))


def _on_each(targets: Iterable[tuple[str, int]], fleet: Fleet) -> Counts:
    """Return the replicas of these targets on each cluster of the fleet. Clusters outside the fleet are ignored."""
    found: Counts = np.zeros(fleet.size, dtype=np.int64)
    for name, replicas in targets:
        place = fleet.index.get(name)
        if place is not None:
            found[place] = replicas
    return found


def _first_of(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - _LIMITS_NAMED} more" if len(names) > _LIMITS_NAMED else ""
    return f"{', '.join(names[:_LIMITS_NAMED])}{more}"
