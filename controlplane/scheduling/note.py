"""The stored note of a decision: for each cluster the first filter that refused it, its capacity and its share.

A note is compact. Clusters are positions in the list of the fleet's names, which is stored once per fleet. What
bindings with equal questions share is encoded once. `placement_explanation` turns a note into words when it is read.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np

from controlplane.apimachinery.as_written import plain
from controlplane.apimachinery.meta import Struct, to_seconds
from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.rows import FleetNames, PlacementNote
from controlplane.scheduling import filters
from controlplane.scheduling.cluster_arrays import Fleet, Mask, Places
from controlplane.scheduling.placement_plan import STATIC, Plan
from controlplane.scheduling.question import Question
from controlplane.scheduling.refusals import Attempt
from controlplane.scheduling.schedule import Placed, Verdict

CAPACITIES_KEPT: Final = 128
"""How many clusters a note stores the free capacity of: the chosen ones first, then those with most free capacity."""
TARGETS_KEPT: Final = 100
"""How many clusters the summary of a decision lists. The binding itself lists all."""
MESSAGE_KEPT: Final = 1024


class Summary(Struct, frozen=True):
    """A decision in short. The next decision about the same binding stores it as the previous one."""

    at: datetime | None = None
    trigger: str = ""  # why the binding was scheduled
    outcome: str = ""  # Placed, NoClusterFit, Unschedulable, SchedulerError
    message: str = ""
    affinity_name: str = ""
    clusters: tuple[TargetCluster, ...] = ()
    more_clusters: int = 0  # number of clusters that `clusters` leaves out


class Term(Struct, frozen=True):
    """What was computed under one affinity term. Masks are base64 of bits over the fleet's names; "": an empty mask."""

    affinity_name: str = ""
    failure: str = ""  # why the term gave no result; "" if it gave the result
    refused: tuple[tuple[str, str, str], ...] = ()  # filter, reason, mask of the clusters that it refused first
    chosen: str = ""
    shares: tuple[int, ...] = ()  # replicas of the chosen clusters in order; a single number if all are equal
    weights: tuple[int, ...] = ()  # of the chosen clusters in order; only for static weights
    seen: tuple[int, ...] = ()  # positions of the clusters whose free capacity is stored
    room: tuple[int, ...] = ()  # their free capacity in replicas
    quotas: tuple[tuple[int, str], ...] = ()  # positions of those that a ResourceQuota limits, and namespace/name of it
    nodeless: tuple[int, ...] = ()  # positions of those without a node that takes the pods


class Detail(Struct, frozen=True):
    """All the reasons of a decision."""

    replicas: int = 0
    workload: bool = False
    division: str = ""
    fresh: bool = False
    held: tuple[tuple[str, int], ...] = ()  # targets before the decision, with replicas
    terms: tuple[Term, ...] = ()
    joined: str = ""  # how it joined its application: Followed or ForAll; "" if it was placed alone
    near: tuple[str, ...] = ()  # clusters of the other parts of its application
    pods: int = 0  # of all parts of its application
    reserved: tuple[str, ...] = ()  # preferred clusters, on which an eviction had reserved capacity


PLACED: Final = "Placed"


def summary_of(verdict: Verdict, *, trigger: str, now: datetime) -> Summary:
    """Return the summary of a verdict."""
    outcome = verdict.outcome
    if isinstance(outcome, Placed):
        clusters = outcome.clusters
        return Summary(
            at=to_seconds(now),
            trigger=trigger,
            outcome=PLACED,
            affinity_name=outcome.affinity_name,
            clusters=clusters[:TARGETS_KEPT],
            more_clusters=max(0, len(clusters) - TARGETS_KEPT),
        )
    return Summary(at=to_seconds(now), trigger=trigger, outcome=outcome.reason, message=outcome.message[:MESSAGE_KEPT])


def detail_of(verdict: Verdict) -> Detail:
    """Return what a note keeps of a verdict, so that pages can explain the placement later."""
    explanation = verdict.explanation
    question = explanation.question
    return Detail(
        replicas=question.replicas,
        workload=question.workload,
        division=explanation.attempts[-1].plan.division if question.workload else "",
        fresh=question.fresh,
        held=question.targets,
        terms=tuple(_term(attempt, question) for attempt in explanation.attempts),
        joined=explanation.attempts[-1].joined,
        near=question.application.near,
        pods=question.application.whole.pods,
        reserved=explanation.attempts[-1].reserved,
    )


class Notes:
    """Creates the notes of one batch of decisions on one fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._details: dict[int, tuple[Verdict, str]] = {}

    @cached_property
    def names(self) -> FleetNames:
        """The names of the fleet's clusters; notes refer to them by position."""
        return names_of(self.fleet)

    def note(
        self, binding: Binding, verdict: Verdict, *, trigger: str, before: PlacementNote | None, now: datetime
    ) -> PlacementNote:
        """Return the note of a decision about a binding. `before`: the note of the previous decision; None: there is
        none."""
        return PlacementNote(
            key=str(binding.ref),
            decision=_text(summary_of(verdict, trigger=trigger, now=now)),
            detail=self._detail(verdict),
            previous="" if before is None else before.decision,
            fleet=self.names.key,
        )

    def _detail(self, verdict: Verdict) -> str:
        known = self._details.get(id(verdict))
        if known is None:  # bindings with equal questions may share one verdict
            known = self._details[id(verdict)] = (verdict, _text(detail_of(verdict)))
        return known[1]


def names_of(fleet: Fleet) -> FleetNames:
    """Return the row with a fleet's names. Its key is the digest of all names."""
    text = _text(fleet.names)
    return FleetNames(key=hashlib.sha256(text.encode()).hexdigest()[:32], names=text)


_encoder = msgspec.json.Encoder(enc_hook=plain)


def _text(value: Any) -> str:
    return _encoder.encode(value).decode()


def _term(attempt: Attempt, question: Question) -> Term:
    chosen = attempt.chosen if not attempt.failure else None
    seen = _seen(attempt, question)
    assert attempt.capacity is not None or not len(seen), "only capacity that was computed is stored"
    return Term(
        affinity_name=attempt.affinity_name,
        failure=attempt.failure,
        refused=_refused(attempt, question),
        chosen="" if chosen is None else _bits_at(chosen, attempt.plan.fleet.size),
        shares=_shares(attempt) if chosen is not None else (),
        weights=_weights(attempt.plan, chosen) if chosen is not None and question.workload else (),
        seen=tuple(seen.tolist()),
        room=() if attempt.capacity is None else tuple(attempt.capacity[seen].tolist()),
        quotas=tuple((place, attempt.quotas[place]) for place in seen.tolist() if place in attempt.quotas)
        if attempt.quotas
        else (),
        nodeless=tuple(place for place in seen.tolist() if place in attempt.unmatched) if attempt.unmatched else (),
    )


def _shares(attempt: Attempt) -> tuple[int, ...]:
    if attempt.shares is None:
        return ()
    shares: list[int] = attempt.shares.tolist()
    return tuple(shares[:1] if len(set(shares)) == 1 else shares)


def _weights(plan: Plan, chosen: Places) -> tuple[int, ...]:
    if plan.division != STATIC or len(chosen) > CAPACITIES_KEPT:
        return ()
    return tuple(plan.static_weights()[chosen].tolist())


def _seen(attempt: Attempt, question: Question) -> Places:
    """Return the positions of the clusters whose free capacity is stored: the feasible ones, at most CAPACITIES_KEPT.

    If there are more, the chosen clusters are kept first, then those with most free capacity. Positions are sorted.
    Empty for an object without replicas.
    """
    feasible, capacity = attempt.feasible, attempt.capacity
    if feasible is None or capacity is None or not question.workload:
        return np.empty(0, dtype=np.intp)
    if len(feasible) <= CAPACITIES_KEPT:
        return feasible
    chosen = attempt.chosen[:CAPACITIES_KEPT] if attempt.chosen is not None else feasible[:0]
    most_capacity = feasible[np.argpartition(capacity[feasible], -CAPACITIES_KEPT)[-CAPACITIES_KEPT:]]
    others = most_capacity[~np.isin(most_capacity, chosen)][: CAPACITIES_KEPT - len(chosen)]
    return np.sort(np.concatenate((chosen, others)))


def _bits(mask: Mask) -> str:
    return b64encode(np.packbits(mask).tobytes()).decode()


def _bits_at(places: Places, size: int) -> str:
    """Return the text of a mask of `size` clusters that has only these places."""
    packed = bytearray(-(-size // 8))
    for place in places.tolist():
        packed[place >> 3] |= 0x80 >> (place & 7)
    return b64encode(packed).decode()


Refusals = tuple[tuple[str, str, str], ...]


def _refused(attempt: Attempt, question: Question) -> Refusals:
    """Return the clusters that each filter refused first, by filter and reason."""
    plan = attempt.plan
    key = filters.shared_key(plan, question)
    if key is None:
        return _encoded(filters.refused(plan, question))
    known: Refusals | None = plan.answers.get(("note", key))
    if known is None:
        known = plan.answers["note", key] = _encoded(filters.refused(plan, question))
    return known


def _encoded(groups: Iterable[filters.RefusedGroup]) -> Refusals:
    return tuple((group.filter, group.value, _bits(group.clusters)) for group in groups)
