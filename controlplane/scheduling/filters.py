"""The scheduler's filters: which clusters a binding may go to, and why it may not go to the others.

FILTERS is the only list of filters. The decision, the headline of a refusal ("0/2 clusters are available: …"), the
stored note, the explanation of a placement, the admin page and Events are all made from it. A filter is one row of
FILTERS; CONTRIBUTING.md lists its tests. A cluster's facts that filters read are in `cluster_facts`: a filter that
reads another one adds it there.

Several filters may refuse the same cluster. Users see the first of them, so the order of the rows matters.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, NamedTuple

import msgspec
import numpy as np

from controlplane.clusters.tolerations import spelled
from controlplane.kinds.cluster import PREFER_NO_EXECUTE
from controlplane.kinds.policy import ClusterAffinityTerm
from controlplane.scheduling.cluster_arrays import Fleet, Mask, Places
from controlplane.scheduling.placement_plan import REFUSING, Plan
from controlplane.scheduling.question import Question

CLUSTER_AFFINITY: Final = "ClusterAffinity"


class Filter(NamedTuple):
    """One rule that clusters have to pass.

    `mask` returns the clusters that pass, as a mask over the fleet. None: the rule does not concern this binding, so
    every cluster passes. `why` returns the reason for refusing the cluster at an index of the fleet.
    """

    name: str  # the name that users see
    mask: Callable[[Plan, Question], Mask | None]
    why: Callable[[Plan, Question, int], str]
    keeps_targets: bool = False  # the rule is for new copies only: a cluster that the binding is already on passes
    per_binding: bool = False  # `mask` reads more of the question than its API version, kind and `fails_over`
    per_cluster: bool = False  # `why` differs between clusters, and not between bindings of a plan as `mask` does


def _of_fleet(plan: Plan, passing: Callable[[Fleet], Mask]) -> Mask | None:
    """Return the mask of a filter that depends on the fleet alone, computed once per fleet. None: all clusters pass."""

    def make() -> tuple[Mask | None]:
        mask = passing(plan.fleet)
        return (None if mask.all() else mask,)

    return plan.fleet.cached(("filter", passing), make)[0]


def _available(fleet: Fleet) -> Mask:
    return ~fleet.excluded


def _retaining(fleet: Fleet) -> Mask:
    return fleet.retaining


def _accepting(fleet: Fleet) -> Mask:
    return fleet.accepting


def _cluster_affinity(plan: Plan, question: Question, index: int) -> str:
    name = plan.term.affinity_name if isinstance(plan.term, ClusterAffinityTerm) else ""
    return f"clusterAffinity {name}".rstrip() + " does not select it"


def _spread_field(field: str) -> Filter:
    return Filter(
        "SpreadConstraint",
        mask=lambda plan, question: ~plan.fleet.without_field(field) if field in plan.spread_fields else None,
        why=lambda plan, question, index: f"it has no {field}, which a spread constraint needs",
    )


def _not_on(plan: Plan, names: Iterable[str]) -> Mask:
    return ~plan.fleet.mask_of(names)


def _taint(plan: Plan, question: Question, index: int) -> str:
    taint = plan.fleet.first_untolerated_taint(index, plan.placement.cluster_tolerations, REFUSING)
    assert taint is not None, "this filter refuses only clusters with a taint that is not tolerated"
    return f"taint {spelled(taint)} is not tolerated"


def _evicted(plan: Plan, question: Question) -> Mask | None:
    return ~(plan.fleet.mask_of(question.evicted) & plan.fleet.with_evicting_taint()) if question.evicted else None


def _shared_by_group(plan: Plan, question: Question) -> frozenset[str] | None:
    """Return the clusters that all bindings of its workload affinity group share; an empty set if they share none.

    None: the group has no place yet. Copies do not count on clusters that the binding itself has to leave for a taint:
    the first binding of a group that leaves a lost cluster chooses a place, and the others follow [refuge-first].
    """
    together = question.neighbours.together
    if together is None:
        return None
    lost = _lost(plan.fleet, question) if question.evicted else frozenset()
    staying = [names - lost for names in together if not names <= lost]
    return frozenset.intersection(*staying) if staying else None


def _lost(fleet: Fleet, question: Question) -> frozenset[str]:
    """Return the clusters that a binding is evicted from, now or in a dry run."""
    places = np.flatnonzero(fleet.mask_of(question.evicted) & (fleet.with_evicting_taint() | fleet.excluded))
    return frozenset([fleet.names[place] for place in places.tolist()])


def _with_group(plan: Plan, question: Question) -> Mask | None:
    shared = _shared_by_group(plan, question)
    return None if shared is None else plan.fleet.mask_of(shared)


def _affinity_group(plan: Plan, question: Question, index: int) -> str:
    shared = ", ".join(sorted(_shared_by_group(plan, question) or ()))
    if not shared:
        return "the bindings of its workload affinity group have no cluster in common"
    return f"its workload affinity group is on {shared}"


FILTERS: Final = (
    Filter(
        "Leaving",
        mask=lambda plan, question: _of_fleet(plan, _available),
        why=lambda plan, question, index: "it is counted as unavailable",
    ),
    Filter(
        "Terminating",
        mask=lambda plan, question: _of_fleet(plan, _retaining),
        why=lambda plan, question, index: "it is being deleted",
    ),
    Filter(CLUSTER_AFFINITY, mask=lambda plan, question: plan.affinity, why=_cluster_affinity),
    *map(_spread_field, ("provider", "region", "zone")),
    Filter(
        "ClusterEviction",
        mask=lambda plan, question: _not_on(plan, question.blocked) if question.blocked else None,
        why=lambda plan, question, index: "a graceful eviction task removes the binding from it",
        per_binding=True,
    ),
    Filter(
        "Terminating",
        mask=lambda plan, question: _of_fleet(plan, _accepting),
        why=lambda plan, question, index: "it is being deleted",
        keeps_targets=True,
    ),
    Filter(
        "TaintToleration",
        mask=lambda plan, question: ~plan.fleet.with_untolerated_taint(plan.placement.cluster_tolerations, REFUSING),
        why=_taint,
        keeps_targets=True,
        per_cluster=True,
    ),
    Filter(
        "APIEnablement",
        mask=lambda plan, question: plan.fleet.enables(question.api_version, question.kind),
        why=lambda plan, question, index: f"it does not serve {question.kind} of {question.api_version}",
        keeps_targets=True,
    ),
    Filter(
        "ClusterEviction",
        mask=_evicted,
        why=lambda plan, question, index: (
            "the binding was evicted from it because of a taint, and it still has a taint that evicts"
        ),
        keeps_targets=True,
        per_binding=True,
    ),
    Filter(
        "Failover",
        mask=lambda plan, question: ~plan.fleet.with_prefer_no_execute() if question.fails_over else None,
        why=lambda plan, question, index: f"its {PREFER_NO_EXECUTE} taint would evict the binding again",
        keeps_targets=True,
    ),
    Filter(
        "WorkloadAffinity",
        mask=_with_group,
        why=_affinity_group,
        keeps_targets=True,
        per_binding=True,
    ),
    Filter(
        "WorkloadAntiAffinity",
        mask=lambda plan, question: (
            None if question.neighbours.apart is None else _not_on(plan, question.neighbours.apart)
        ),
        why=lambda plan, question, index: "its workload anti-affinity group is on it",
        keeps_targets=True,
        per_binding=True,
    ),
)

FEASIBLE_KEPT: Final = 16  # answers of `feasible` for each plan
_PER_BINDING: Final = tuple(row for row in FILTERS if row.per_binding)


# The decision


class _Shared(NamedTuple):
    """What the filters that are not `per_binding` let pass: computed once per plan, API version, kind, fails_over."""

    masks: tuple[Mask | None, ...]  # of each row of FILTERS; None for rows that are `per_binding`
    new: Mask  # clusters that pass for a new copy
    kept: Mask  # clusters that pass if the binding is already on them
    places: Places  # the clusters of `new`


def feasible(plan: Plan, question: Question) -> Places:
    """Return the clusters that pass all filters, as places of the fleet in ascending order.

    Up to FEASIBLE_KEPT answers are kept with the plan. Bindings that are on the same clusters, and have left the same,
    share one. Bindings with a workload affinity group have answers of their own.
    """
    neighbours = question.neighbours
    if neighbours.together is not None or neighbours.apart is not None:
        return _feasible(plan, question)
    key = _policy_key(question), question.blocked, question.evicted, tuple([name for name, _ in question.targets])
    answers: dict[Hashable, Places] = plan.answers.setdefault("feasible", {})
    known = answers.get(key)
    if known is None:
        if len(answers) >= FEASIBLE_KEPT:
            answers.clear()
        known = answers[key] = _feasible(plan, question)
    return known


def _feasible(plan: Plan, question: Question) -> Places:
    shared = _shared(plan, question)
    own = [(row, mask) for row in _PER_BINDING if (mask := row.mask(plan, question)) is not None]
    if not own and not question.targets:
        return shared.places
    new, kept = shared.new.copy(), shared.kept
    for row, mask in own:
        new &= mask
        if not row.keeps_targets:
            kept = kept & mask
    there = plan.fleet.places(name for name, _ in question.targets)
    new[there] = kept[there]
    return new.nonzero()[0]


def _shared(plan: Plan, question: Question) -> _Shared:
    key = _policy_key(question)
    known: _Shared | None = plan.answers.get(key)
    if known is None:
        masks = tuple([None if row.per_binding else row.mask(plan, question) for row in FILTERS])
        kept = plan.fleet.everything()
        for row, mask in zip(FILTERS, masks, strict=True):
            if mask is not None and not row.keeps_targets:
                kept &= mask
        new = kept.copy()
        for row, mask in zip(FILTERS, masks, strict=True):
            if mask is not None and row.keeps_targets:
                new &= mask
        known = plan.answers[key] = _Shared(masks, new, kept, new.nonzero()[0])
    return known


# The reasons


class Refusal(msgspec.Struct, frozen=True):
    """The first filter that refuses a cluster, and the reason."""

    filter: str
    value: str


class RefusedGroup(NamedTuple):
    """The clusters that one filter refuses for one reason, and that no filter before it refuses."""

    filter: str
    value: str
    clusters: Mask


def refusal(plan: Plan, question: Question, index: int) -> Refusal | None:
    """Return why the cluster at an index of the fleet is not feasible. None: it passes all filters."""
    is_target = any(name == plan.fleet.names[index] for name, _ in question.targets)
    for row in FILTERS:
        mask = None if is_target and row.keeps_targets else row.mask(plan, question)
        if mask is not None and not mask[index]:
            return Refusal(row.name, row.why(plan, question, index))
    return None


def refused(plan: Plan, question: Question) -> tuple[RefusedGroup, ...]:
    """Return all clusters that are not feasible, grouped by filter and reason, in the order of the filters.

    The answer is computed once for all bindings with the same `shared_key`.
    """
    key = shared_key(plan, question)
    if key is None:
        return tuple(_refused(plan, question))
    known: tuple[RefusedGroup, ...] | None = plan.answers.get(("refused", key))
    if known is None:
        known = plan.answers["refused", key] = tuple(_refused(plan, question))
    return known


def shared_key(plan: Plan, question: Question) -> Hashable | None:
    """Return the key under which bindings of one plan share the answer of the filters.

    None: the answer is this binding's own, as the binding has targets or an affinity group. Bindings that leave the
    same clusters share one.
    """
    neighbours = question.neighbours
    if question.targets or neighbours.together is not None or neighbours.apart is not None:
        return None
    return _policy_key(question), question.blocked, question.evicted


def _policy_key(question: Question) -> Hashable:
    """Return what the filters that are not `per_binding` read of a question. Bindings of one policy mostly agree."""
    return question.api_version, question.kind, question.fails_over


def _refused(plan: Plan, question: Question) -> Iterator[RefusedGroup]:
    passed = plan.fleet.everything()
    not_targets = _not_on(plan, (name for name, _ in question.targets)) if question.targets else None
    for row, shared in zip(FILTERS, _shared(plan, question).masks, strict=True):
        mask = row.mask(plan, question) if row.per_binding else shared
        if mask is None:
            continue
        refused = passed > mask  # passed so far, and not in the mask
        if row.keeps_targets and not_targets is not None:
            refused &= not_targets
        if refused.any():
            passed ^= refused
            yield from _by_reason(row, plan, question, refused)


def _by_reason(row: Filter, plan: Plan, question: Question, refused: Mask) -> Iterator[RefusedGroup]:
    if not row.per_cluster:
        yield RefusedGroup(row.name, row.why(plan, question, int(refused.argmax())), refused)
        return
    indexes_of: dict[str, list[int]] = {}
    reasons: dict[int, str] = plan.answers.setdefault(("why", row.name, _policy_key(question)), {})
    for index in refused.nonzero()[0].tolist():
        if index not in reasons:
            reasons[index] = row.why(plan, question, index)
        indexes_of.setdefault(reasons[index], []).append(index)
    for why, indexes in indexes_of.items():
        mask: Mask = np.zeros(plan.fleet.size, dtype=np.bool_)
        mask[indexes] = True
        yield RefusedGroup(row.name, why, mask)
