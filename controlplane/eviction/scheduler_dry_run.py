"""Dry runs of the scheduler: where would a binding be placed without some of its clusters?

Evictions and drains run them before they write anything, and readiness to predict what a failure would do
[refuge-first].
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property

from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import UNSCHEDULABLE_TAINT
from controlplane.engine.state import ReservedCapacity
from controlplane.eviction.refuge import DryRunResult, Refuge, Reservation, reserve_refuge
from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.rows import CapacityReservation
from controlplane.scheduling import binding_outcome
from controlplane.scheduling.batch import ignores_capacity
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.colocation import Applications
from controlplane.scheduling.departures import left_for_taints
from controlplane.scheduling.half_evicted import without_growth
from controlplane.scheduling.ledger import Ledger, live
from controlplane.scheduling.question import Groups, Question, question_of
from controlplane.scheduling.rehearsal import Rehearsal
from controlplane.scheduling.schedule import Placed, Refused, Verdict, answer
from controlplane.scheduling.workload_affinity import WorkloadGroups
from controlplane.settings import Settings

NO_PLACEMENT = "the binding has no placement, so the scheduler cannot choose another cluster for it"
NO_RESERVATIONS = ReservedCapacity()
Asking = tuple[frozenset[str], frozenset[str], tuple[str, ...], Question]
"""What a dry run is asked: the clusters that are left, these and others that are not used, the targets that get no more
replicas, and the question."""


class SchedulerDryRun:
    """Dry runs for one binding after the other, at one moment. Capacity that one binding reserves is not free for the
    next.

    `fleet` reads all clusters into arrays; it is called at the first dry run. `applications`: the bindings of each
    application that a binding belongs to. `groups`: its workload affinity groups. `rehearses`: results contain
    rehearsals, for evictions; they take some KB each.
    """

    def __init__(
        self,
        fleet: Callable[[], Fleet],
        settings: Settings,
        *,
        reserved_capacity: ReservedCapacity = NO_RESERVATIONS,
        applications: Mapping[str, Iterable[Binding]],
        groups: Groups,
        rehearses: bool = False,
    ) -> None:
        self._read, self._rehearses = fleet, rehearses
        self._settings = settings
        self._reserved_capacity = reserved_capacity
        self._applications = Applications(applications, settings)
        self._groups = WorkloadGroups(groups)
        self._without: dict[frozenset[str], Fleet] = {}
        self._answers: dict[Asking, DryRunResult] = {}  # until the next reservation
        self._lasting: dict[Asking, DryRunResult] = {}  # those that ignore free capacity
        self._taken: dict[Ref, Reservation] = {}  # the last reservation of each binding; the ledger counts it
        # The last binding and its question: a binding is asked about once for each of its clusters.
        self._asked: tuple[Binding, datetime | None, Question] | None = None

    @cached_property
    def _fleet(self) -> Fleet:
        return self._read()

    @cached_property
    def _ledger(self) -> Ledger:
        return binding_outcome.ledger(self._fleet, self._reserved_capacity.totals)

    def place_without(
        self,
        binding: Binding,
        leaving: Collection[str],
        *,
        lost: bool = True,
        unhealthy: Collection[str] = (),
        now: datetime | None = None,
    ) -> DryRunResult:
        """Return where the scheduler would place a binding if it left these clusters.

        Capacity that is reserved for this binding is free for it, and the clusters with it are preferred. So a second
        eviction of the same binding finds the same refuge. Clusters where copies or replicas would not start are
        avoided, as far as others have room and the scheduler takes these with a hint. `lost`: the clusters are lost, so
        they do not keep its workload affinity group either; False for a Drain and for application failover, which avoid
        clusters that are cordoned as well, also those that the binding is on: these may be emptied too. `unhealthy`:
        its other targets that take no replicas. `now`: see `Applications.seen_by`.
        Raises ValueError if the request of the binding cannot be read.
        """
        if binding.spec.placement is None:
            return DryRunResult(refused=NO_PLACEMENT)
        if binding.spec.other_scheduler:
            return DryRunResult(other=binding.spec.other_scheduler)
        key, idle = frozenset(leaving), self._idle_targets(binding, leaving, unhealthy)
        result = self._place(binding, key, key, idle, lost=lost, now=now)
        if not lost and self._cordoned:
            emptied = self._idle_targets(binding, leaving, self._cordoned.union(unhealthy))
            other = self._place(binding, key, key, emptied, lost=lost, now=now) if emptied != idle else result
            idle, result = (emptied, other) if _spares(binding, other, emptied) else (idle, result)
        avoided = self._without_start(binding)
        if not lost and self._cordoned:
            avoided |= self._cordoned.difference([target.name for target in binding.spec.clusters])
        if not any(item.name in avoided for item in result.clusters):
            return result
        other = self._place(binding, key, key | avoided, idle, lost=lost, now=now)
        as_many = len(other.clusters) >= len(result.clusters) or (binding.workload and binding.spec.placement.divided)
        to = other.clusters if as_many else ()
        if other.refused:
            to = _filled_up(other.part, [item for item in result.clusters if item.name in avoided], result.clusters)
        if not to:
            return result
        hinted = self._place(binding, key, key, idle, to=to, lost=lost, now=now)
        return replace(hinted, steered=True) if hinted.clusters == to else result

    def _place(
        self,
        binding: Binding,
        left: frozenset[str],
        without: frozenset[str],
        idle: tuple[str, ...],
        *,
        to: tuple[TargetCluster, ...] = (),
        lost: bool,
        now: datetime | None,
    ) -> DryRunResult:
        """Return where a binding would be that leaves clusters (`left`). `without`: these, and those to avoid. `idle`:
        its targets that take no replicas if others have room. `to`: the clusters of the hint."""
        if without not in self._without:  # most bindings leave the same clusters, so the others' arrays are shared
            self._without[without] = self._fleet.without(without)
        question, fleet = self._question(binding, now), self._without[without]
        if lost and question.neighbours.together is not None:
            question = replace(question, evicted=tuple(sorted(left.union(question.evicted))))
        reserved = self._reserved(binding)
        answers = self._lasting if ignores_capacity(question) else self._answers
        asking = left, without, idle, question
        result = None if reserved or to else answers.get(asking)
        if result is None:
            binding_outcome.give_back(self._ledger, self._fleet, reserved)
            hint = to or targets_with_reservations(binding, reserved)
            first = verdict = answer(question, fleet, self._ledger, settings=self._settings, hint=hint)
            if idle and isinstance(first.outcome, Placed):
                verdict = self._elsewhere(question, first, idle, fleet, hint)
            binding_outcome.give_back(self._ledger, self._fleet, reserved, times=-1)
            result = self._result(left, question, verdict)
            result = result if verdict is first else replace(result, steered=True)
            if not reserved and not to:
                answers[asking] = result
        return result

    @cached_property
    def _out_of_reach(self) -> frozenset[str]:
        """The clusters that do not answer."""
        return frozenset(cluster.metadata.name for cluster in self._fleet.clusters if not cluster.answers)

    @cached_property
    def _cordoned(self) -> frozenset[str]:
        """The clusters that are cordoned, which some workloads tolerate."""
        return frozenset(
            cluster.metadata.name
            for cluster in self._fleet.clusters
            if any(taint.key == UNSCHEDULABLE_TAINT for taint in cluster.spec.taints)
        )

    def _without_start(self, binding: Binding) -> frozenset[str]:
        """Return the clusters that a binding is not on and where a new copy would not start now (`refuge_from`)."""
        away = self._out_of_reach | _not_sent_to(binding)
        return away.difference([target.name for target in binding.spec.clusters]) if away else away

    def _idle_targets(self, binding: Binding, leaving: Collection[str], others: Collection[str]) -> tuple[str, ...]:
        """Return the targets that stay and on which more replicas would not start now (`refuge_from`), and those among
        `others`, which are to get none for another reason."""
        spec, away = binding.spec, self._out_of_reach.union(others) if others else self._out_of_reach
        if not away and spec.suspension is None:
            return ()
        idle = [item.name for item in spec.clusters if item.name in away or spec.dispatching_suspended(item.name)]
        return tuple(sorted(name for name in idle if name not in leaving))

    def _elsewhere(
        self, question: Question, verdict: Verdict, idle: tuple[str, ...], fleet: Fleet, hint: tuple[TargetCluster, ...]
    ) -> Verdict:
        """Return a verdict that adds no replicas on idle targets, if all fit on other clusters; else the given one.

        The scheduler has to give the same answer with a hint of these clusters. It does not with static weights, or
        where only an affinity term or a region without these clusters has room.
        """
        settings, ledger = self._settings, self._ledger
        found = without_growth(question, verdict, idle, fleet, ledger, settings=settings, hint=hint).outcome
        if not isinstance(found, Placed) or found == verdict.outcome:
            return verdict
        hinted = answer(question, fleet, ledger, settings=settings, hint=found.clusters)
        same = isinstance(hinted.outcome, Placed) and hinted.outcome.clusters == found.clusters
        return hinted if same else verdict

    def _result(self, left: frozenset[str], question: Question, verdict: Verdict) -> DryRunResult:
        outcome = verdict.outcome
        if isinstance(outcome, Refused):
            return DryRunResult(refused=outcome.message, part=outcome.part or (), asked=question.asked)
        rehearsal = Rehearsal(left, verdict) if self._rehearses else None
        return DryRunResult(outcome.clusters, asked=question.asked, rehearsal=rehearsal)

    def _question(self, binding: Binding, now: datetime | None) -> Question:
        if self._asked is None or self._asked[0] is not binding or self._asked[1] != now:
            question = question_of(
                binding.spec,
                binding.status,
                settings=self._settings,
                neighbours=self._groups.seen_by(binding),
                application=self._applications.seen_by(binding, now=now),
                left=left_for_taints(binding, self._fleet),
            )
            self._asked = binding, now, question
        return self._asked[2]

    def place_or_refuse(
        self,
        binding: Binding,
        leaving: Collection[str],
        *,
        lost: bool = True,
        unhealthy: Collection[str] = (),
        now: datetime | None = None,
    ) -> DryRunResult:
        """Return the result of `place_without`, and a refusal if the request of the binding cannot be read.

        So one malformed binding does not stop the evictions of all others.
        """
        try:
            return self.place_without(binding, leaving, lost=lost, unhealthy=unhealthy, now=now)
        except ValueError as error:
            return DryRunResult(refused=f"the scheduler cannot read what it requests: {error}")

    def _reserved(self, binding: Binding) -> Sequence[CapacityReservation]:
        """Return the capacity that is reserved for a binding: by an earlier dry run here, else by a stored reservation
        that the scheduler has not used yet."""
        ref, at = binding.ref, self._reserved_capacity.at
        if (taken := self._taken.get(ref)) is not None:
            return taken.reservations
        own = [item for item in self._reserved_capacity.own.get(str(ref), ()) if item.reserved]
        return live(own, collected_at={}, now=at) if own and at is not None else []

    def reserve(self, binding: Binding, refuge: Refuge, *, now: datetime) -> Reservation:
        """Reserve the capacity that a binding's refuge needs.

        The reservation replaces an earlier one for the same binding, because a refuge names all clusters of the
        binding.
        """
        self._answers.clear()
        self._asked = None  # its neighbours and its application may have moved
        self._applications.placed(binding, refuge.clusters)
        self._groups.placed(binding, refuge.clusters)
        binding_outcome.give_back(self._ledger, self._fleet, self._reserved(binding))
        ledger, seen = self._ledger, self._reserved_capacity.seen
        reservation = self._taken[binding.ref] = reserve_refuge(
            ledger, self._fleet, binding, refuge, seen=seen, now=now
        )
        return reservation


def _spares(binding: Binding, found: DryRunResult, names: Collection[str]) -> bool:
    """Test whether a result adds no replicas on these targets of a binding."""
    held = {target.name: target.replicas for target in binding.spec.clusters if target.name in names}
    return all(item.replicas <= held.get(item.name, item.replicas) for item in found.clusters)


def _not_sent_to(binding: Binding) -> frozenset[str]:
    """Return the single clusters that dispatching is suspended to."""
    suspension = binding.spec.suspension
    withheld = None if suspension is None else suspension.dispatching_on_clusters
    return frozenset() if withheld is None else frozenset(withheld.cluster_names)


def _filled_up(
    part: tuple[TargetCluster, ...], avoided: Iterable[TargetCluster], whole: Iterable[TargetCluster]
) -> tuple[TargetCluster, ...]:
    """Return the part of the divided replicas that starts, with the others on clusters where they wait. (): no part
    fits, or it leaves more than go to these (`avoided`). `whole`: where all replicas would be."""
    missing = sum(item.replicas for item in whole) - sum(item.replicas for item in part)
    others = list[TargetCluster]()
    for item in avoided if part else ():
        if (count := min(missing, item.replicas)) > 0:
            others.append(replace(item, replicas=count))
            missing -= count
    return tuple(sorted([*part, *others], key=lambda item: item.name)) if part and not missing else ()


def targets_with_reservations(binding: Binding, reserved: Iterable[CapacityReservation]) -> tuple[TargetCluster, ...]:
    """Return the targets that a binding would have on the clusters with its reserved capacity."""
    held = {cluster.name: cluster.replicas for cluster in binding.spec.clusters}
    return tuple(TargetCluster(item.cluster, held.get(item.cluster, 0) + item.replicas) for item in reserved)
