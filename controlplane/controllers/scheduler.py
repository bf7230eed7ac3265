"""Scheduler: chooses the clusters of every binding by its placement, and reports why if none fit [scheduling-outcomes].

A placed binding loses a cluster only for a complete new result, or because it asks for fewer replicas
[placement-is-kept]. Divided replicas do not go back by themselves to a cluster that has recovered
[recovered-clusters].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.controllers.reads.binding_groups import applications, workload_groups
from controlplane.controllers.reads.binding_rows import row_of_each
from controlplane.controllers.reads.concerned_bindings import cluster_changed, concerned_bindings
from controlplane.controllers.reads.namespace_quotas import (
    NO_QUOTAS,
    NamespaceQuotas,
    bindings_over_quota,
    namespace_quotas,
    room_in_quota,
)
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, CapacityGuard, Decision, Drop, Event, Guard, Put, QuotaGuard, Save
from controlplane.engine.state import ReservedCapacity, State, Watch
from controlplane.estimate.quota import DENIED, Excess, evicted_replicas, replicas_before
from controlplane.kinds import BINDINGS, CLUSTER, FEDERATED_QUOTA
from controlplane.kinds.binding import EVICTED, Binding, TargetCluster
from controlplane.kinds.binding.colocation_index import placed_with_others
from controlplane.kinds.cluster import EVICTING_EFFECTS, Cluster
from controlplane.kinds.federated_quota import ENFORCEMENT_GATE
from controlplane.kinds.rows import CapacityReservation, FleetNames, PlacementHint, PlacementNote
from controlplane.propagation.bindings import template_of
from controlplane.scheduling import binding_outcome, placement_explanation
from controlplane.scheduling.batch import Batch, Item, growth, ignores_capacity, may_depend_on_capacity
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.colocation import Applications
from controlplane.scheduling.departures import left_for_taints
from controlplane.scheduling.evicted_copies import as_many_copies
from controlplane.scheduling.half_evicted import lost_targets, targets_to_leave
from controlplane.scheduling.ledger import RESERVATION_EXPIRY, live
from controlplane.scheduling.note import Notes, detail_of, summary_of
from controlplane.scheduling.outcome_events import deserves_event, refuge_replaced_events, success_events
from controlplane.scheduling.question import Groups, Question
from controlplane.scheduling.rehearsal import Rehearsal, confirmed
from controlplane.scheduling.reserved_refuge import Reserved, freed
from controlplane.scheduling.retry import retry_delay
from controlplane.scheduling.schedule import QUOTA_EXCEEDED, Placed, Refused, Verdict
from controlplane.scheduling.trigger import RESCHEDULE_ASKED, needs_scheduling
from controlplane.scheduling.unstarted import with_copies_back
from controlplane.scheduling.workload_affinity import WorkloadGroups
from controlplane.settings import Settings


class SchedulerSnapshot(msgspec.Struct, frozen=True):
    """A binding with all that decides where it may be placed.

    All bindings of a batch share `clusters`, `reserved_capacity`, `groups` and `applications`.
    """

    subject: Binding
    clusters: tuple[Cluster, ...]
    reserved_capacity: ReservedCapacity
    groups: Groups  # the workload affinity groups of the bindings, with the clusters they are on
    applications: Mapping[str, Sequence[Binding]]  # by application: the bindings that are parts of it
    note: PlacementNote | None = None  # why the last decision was made
    hint: PlacementHint | None = None  # the clusters that the dry run of an eviction found
    quotas: NamespaceQuotas = NO_QUOTAS  # of the namespaces of the bindings
    rehearsal: Rehearsal | None = None  # of the eviction that the scheduler follows


def _binding_changed(old: Binding | None, new: Binding | None) -> Iterator[Ref]:
    if new is not None and (old is None or old.metadata.generation != new.metadata.generation):
        yield new.ref


class Scheduler(Controller):
    """Key: a binding. Writes its clusters and the condition Scheduled. Reads all clusters."""

    name: ClassVar[str] = "scheduler"
    group: ClassVar[str] = "scheduling"
    keys: ClassVar[tuple[str, ...]] = BINDINGS
    followed_by: ClassVar[tuple[str, ...]] = ("works",)
    watches: ClassVar[tuple[Watch, ...]] = (
        *(Watch(kind, _binding_changed) for kind in BINDINGS),
        Watch(CLUSTER, cluster_changed, fan_out=True),
        Watch(FEDERATED_QUOTA, room_in_quota, fan_out=True),
    )
    owns: ClassVar[Ownership] = Ownership(
        dict.fromkeys(
            BINDINGS,
            (
                "spec.clusters",
                "metadata.annotations",
                "status.conditions",
                "status.scheduler_observed_generation",
                "status.scheduler_observed_affinity_name",
                "status.last_scheduled_time",
            ),
        ),
        rows=(CapacityReservation, PlacementHint, PlacementNote, FleetNames),
    )
    batch: ClassVar[int] = 1000  # every batch reads all clusters and all reserved capacity

    def __init__(self) -> None:
        self._fleet: Fleet | None = None  # a cache: unchanged clusters are not read into arrays again
        # A cache, of the clusters of a batch: the guard on each, and those with an evicting taint.
        self._guards: tuple[Sequence[Cluster], dict[str, Guard], frozenset[str]] = ((), {}, frozenset())

    def load_for(self, state: State, refs: Sequence[Ref], settings: Settings) -> Sequence[SchedulerSnapshot | None]:
        return self.load(state, refs, enforcing=settings.gate(ENFORCEMENT_GATE))

    def load(self, state: State, refs: Sequence[Ref], *, enforcing: bool = True) -> Sequence[SchedulerSnapshot | None]:
        """Return the snapshots. `enforcing`: with the quotas of their namespaces."""
        found: dict[Ref, Binding] = state.get(refs)
        # An eviction that is stored between these two readings wins: a decision about its binding is lost (`_writes`).
        reserved_capacity = state.reserved_capacity(
            within=RESERVATION_EXPIRY,
            bindings=[str(ref) for ref in refs],
            totals=any(may_depend_on_capacity(binding.spec) for binding in found.values()),
        )
        clusters = tuple(state.list(CLUSTER))
        groups = workload_groups(state, found.values())
        parts = applications(state, found.values())
        notes, hints = row_of_each(state, PlacementNote, found), row_of_each(state, PlacementHint, found)
        quotas = namespace_quotas(state, found) if enforcing else NO_QUOTAS
        return [
            SchedulerSnapshot(
                found[ref],
                clusters,
                reserved_capacity,
                groups,
                parts,
                notes.get(str(ref)),
                hints.get(str(ref)),
                quotas,
            )
            if ref in found
            else None
            for ref in refs
        ]

    def decide(self, snapshot: SchedulerSnapshot, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        decided = self.decide_all([snapshot], settings, now=now)[0]
        if isinstance(decided, Exception):
            raise decided
        return decided

    def decide_all(
        self, snapshots: Sequence[SchedulerSnapshot], settings: Settings, *, now: datetime, answer: Any = None
    ) -> list[Decision | Exception]:
        """Return a decision, or the error in its place, for each snapshot in the given order; see `deciding`."""
        return self.deciding(snapshots, settings, now=now)(snapshots)

    def deciding(
        self, snapshots: Sequence[SchedulerSnapshot], settings: Settings, *, now: datetime
    ) -> Callable[[Sequence[SchedulerSnapshot]], list[Decision | Exception]]:
        """Return a function that decides about one part of the snapshots after the other.

        Decisions about a part are made by priority, then in the given order. Each takes its capacity before the next.
        """
        if not snapshots:
            return lambda part: []
        fleet = self._fleet = Fleet.of(snapshots[0].clusters, settings=settings, previous=self._fleet)
        return _BatchScheduler(fleet, snapshots[0], settings, now).decide_all

    def informed(self, snapshot: SchedulerSnapshot, found: Rehearsal | None) -> SchedulerSnapshot:
        """Return the snapshot with the rehearsal of the eviction that is followed."""
        return replace(snapshot, rehearsal=found)

    def rests_on(self, snapshot: SchedulerSnapshot, decision: Decision) -> Sequence[Guard] | None:
        """Return the clusters that a binding is placed on, as guards. None: the placement cannot be a part of another
        controller's write.

        It may rest on other bindings: parts of its application, and members of its workload affinity groups. Or it
        takes a cluster with an evicting taint, and controllers.eviction_queue has to judge the new copy, but passes
        over the writes of evictions [judged-once].
        """
        binding = snapshot.subject
        if placed_with_others(binding):
            return None
        written = [change.new for change in decision.changes if isinstance(change, Put)]
        names = {target.name for new in written if isinstance(new, Binding) for target in new.spec.clusters}
        guards, evicting = self._guards_on(snapshot.clusters)
        if not evicting.isdisjoint(names.difference(target.name for target in binding.spec.clusters)):
            return None
        return tuple([guards[name] for name in sorted(names) if name in guards])

    def _guards_on(self, clusters: Sequence[Cluster]) -> tuple[dict[str, Guard], frozenset[str]]:
        """Return the guard on each cluster, by name, and the names of the clusters with an evicting taint."""
        if self._guards[0] is not clusters:
            guards = {one.metadata.name: Guard(one.ref, one.metadata.generation) for one in clusters}
            evicting = frozenset(one.metadata.name for one in clusters if one.has_taint(*EVICTING_EFFECTS))
            self._guards = clusters, guards, evicting
        return self._guards[1:]

    def fan_out_of(self, origin: Ref) -> str:
        """Return the kind of the change: clusters that change in the same way are expanded together. Quotas are not."""
        return str(origin) if origin.kind == FEDERATED_QUOTA else origin.kind

    def expand_all(
        self, state: State, origins: Sequence[Ref], *, after: str, limit: int
    ) -> tuple[list[Ref], str | None]:
        """Return the bindings that changed clusters concern, or those over a quota that has room again."""
        if origins[0].kind == FEDERATED_QUOTA:
            return bindings_over_quota(state, origins[0], after=after, limit=limit)
        return concerned_bindings(state, origins, after=after, limit=limit)


class _BatchScheduler:
    """Decides the bindings of a batch one after the other. The next binding misses the capacity that one has taken."""

    def __init__(self, fleet: Fleet, shared: SchedulerSnapshot, settings: Settings, now: datetime) -> None:
        self.fleet = fleet
        self.settings = settings
        self.now = now
        self.ledger = binding_outcome.ledger(fleet, shared.reserved_capacity.totals)
        self.reserved_capacity = shared.reserved_capacity
        self.batch = Batch(fleet, self.ledger, settings)
        self.notes = Notes(fleet)
        self._messages: dict[int, tuple[Verdict, str]] = {}  # by the id of the verdict, which is kept with it
        self.groups = WorkloadGroups(shared.groups)
        self.applications = Applications(shared.applications, settings)
        self.quotas = shared.quotas.room() if settings.gate(ENFORCEMENT_GATE) else NO_QUOTAS.room()

    def decide_all(self, snapshots: Sequence[SchedulerSnapshot]) -> list[Decision | Exception]:
        """Return a decision, or the error in its place, for each snapshot. Those of high priority are decided first."""
        decisions: list[Decision | Exception] = [NOTHING] * len(snapshots)
        for index in sorted(range(len(snapshots)), key=lambda index: -snapshots[index].subject.spec.priority):
            try:
                decisions[index] = self.decide(snapshots[index])
            except Exception as error:  # noqa: BLE001  # an error about one binding must not affect the others
                decisions[index] = error
        return decisions

    def decide(self, snapshot: SchedulerSnapshot) -> Decision:
        """Return the decision about one binding.

        Capacity that evictions reserved for the binding counts as free while the clusters are chosen, and what the
        result leaves of it is taken again afterwards.
        """
        binding = snapshot.subject
        spec = binding.spec
        not_ours = spec.placement is None or spec.scheduling_suspended or bool(spec.other_scheduler)
        if not_ours or binding.metadata.deletion_timestamp is not None:
            return NOTHING
        reason = needs_scheduling(binding, self.fleet)
        if reason is None:
            rows = freed(_reservations_of(snapshot), self._reserved(snapshot), spec.clusters, binding)
            changes = _writes(binding_outcome.caught_up(binding, now=self.now), binding, rows)
            return Decision(changes=changes, reason="ResultStands") if changes else NOTHING
        if (decision := self._confirmed(snapshot, reason)) is not None:
            return decision
        living = self._live(snapshot)
        uncounted = {row.cluster: row for row in living if not row.reserved}
        reserved = Reserved(binding, snapshot.hint, [row for row in living if row.reserved])
        binding_outcome.give_back(self.ledger, self.fleet, reserved.reservations)
        item = self._item(reserved, {name: row.replicas for name, row in uncounted.items()})
        question, verdict = self._place(binding, item, reserved.reservations)
        if isinstance(verdict.outcome, Refused):
            return self._refused(snapshot, question, verdict, verdict.outcome, item, reserved, reason)
        outcome = verdict.outcome
        self._show_to_next(binding, outcome)
        new = binding_outcome.placed(binding, outcome, asked_again=reason == RESCHEDULE_ASKED, now=self.now)
        rows, guards = self._taken(binding, question, outcome.clusters, uncounted)
        binding_outcome.give_back(self.ledger, self.fleet, reserved.rest(outcome.clusters), times=-1)
        rows += freed(_reservations_of(snapshot), reserved, outcome.clusters, new)
        wake_at = self.applications.look_again_at(binding, now=self.now)
        limits = self.quotas.guards(binding, new, reserved=reserved.reservations, leaving=item.leaving)
        guarded = Decision(capacity_guards=guards, quota_guards=limits, wake_at=wake_at)
        if new is binding:
            changes = _writes(binding, binding, rows)
            if not rows and wake_at is None:
                return NOTHING
            return replace(guarded, changes=changes, reason=reason)
        events = refuge_replaced_events(binding, reserved.replaced(outcome.clusters, verdict.explanation))
        if deserves_event(binding, new):
            events = (*success_events(binding, outcome), *events)
        changes = _writes(new, binding, (*rows, *self._note(snapshot, verdict, reason)))
        return replace(guarded, changes=changes, events=events, reason=f"Scheduled: {reason}")

    def _confirmed(self, snapshot: SchedulerSnapshot, trigger: str) -> Decision | None:
        """Return the decision that places a binding where the rehearsal of its eviction did; None: it has to be asked.

        The eviction has reserved the capacity and guards it. So the ledger stays as it is.
        """
        binding = snapshot.subject
        if snapshot.rehearsal is None or snapshot.hint is None or placed_with_others(binding):
            return None
        if self.settings.compat.cluster_eviction_filter:
            return None  # then tasks of taints exclude clusters as well (`Question.blocked`), unlike in the rehearsal
        verdict = confirmed(snapshot.rehearsal, binding, self.fleet)
        if verdict is None or not isinstance(verdict.outcome, Placed):
            return None
        question, clusters, living = verdict.explanation.question, verdict.outcome.clusters, self._live(snapshot)
        uncounted = {row.cluster: row for row in living if not row.reserved}
        wanted = growth(question, clusters, {name: row.replicas for name, row in uncounted.items()})
        more = {name: count - (uncounted[name].replicas if name in uncounted else 0) for name, count in wanted.items()}
        reserved = [row for row in living if row.reserved]
        if {row.cluster: row.replicas for row in reserved} != {key: n for key, n in more.items() if n}:
            return None
        new = binding_outcome.placed(binding, verdict.outcome, asked_again=False, now=self.now)
        if self.quotas.take(binding, new, reserved=reserved) is not None:
            return None
        rows = binding_outcome.capacity_reservations(binding, wanted, uncounted, asked=question.asked, now=self.now)
        used = (Drop(row) for row in _reservations_of(snapshot) if row.reserved)
        note = self._note(snapshot, verdict, trigger)
        return Decision(
            changes=_writes(new, binding, (*rows, *used, Drop(snapshot.hint), *note)),
            events=success_events(binding, verdict.outcome) if deserves_event(binding, new) else (),
            quota_guards=self.quotas.guards(binding, new, reserved=reserved),
            reason=f"Scheduled: {trigger}",
        )

    def _item(self, reserved: Reserved, uncounted: dict[str, int]) -> Item:
        """Return a binding as the batch places it. `reserved`: what evictions have reserved for it."""
        binding, fleet = reserved.binding, self.fleet
        left, application = left_for_taints(binding, fleet), self.applications.seen_by(binding, now=self.now)
        return Item(
            replace(binding.spec, clusters=with_copies_back(binding, fleet)),
            *(binding.status, self.groups.seen_by(binding), application),
            uncounted,
            reserved.targets,
            left,
            leaving=targets_to_leave(binding, left, fleet),
            lost=lost_targets(binding, fleet),
        )

    def _place(self, binding: Binding, item: Item, reserved: Sequence[CapacityReservation]) -> tuple[Question, Verdict]:
        """Return the question of a binding and the verdict on it. A result that exceeds a quota is a refusal.

        Its part has the replicas and copies that the binding had before its evictions, which quotas allow. What the
        result takes of quotas is missing to the next bindings of the batch. `reserved`: what evictions have reserved
        for the binding, which is no growth [federated-quotas].
        """
        question, verdict, exceeded = self._within_quotas(binding, item, reserved)
        if exceeded is None:
            return question, verdict
        part, evicted, found = None, evicted_replicas(binding, reserved, item.leaving), verdict.outcome
        if 0 < (before := replicas_before(binding, evicted)) < binding.spec.replicas:
            fewer = replace(item, spec=replace(item.spec, replicas=before))
            _, smaller, too_many = self._within_quotas(binding, fewer, reserved)
            found = smaller.outcome
            if too_many is None and isinstance(found, Refused):
                return question, smaller
            part = found.clusters if too_many is None and isinstance(found, Placed) else None
        if part is None and isinstance(found, Placed):
            part = as_many_copies(binding, found, evicted, bundled=question.bundled)
            after = binding if part is None else binding_outcome.as_seen(binding, part)
            if self.quotas.take(binding, after, reserved=reserved, leaving=item.leaving) is not None:
                part = None
            self.batch.take(question, part or (), item.uncounted)
        refusal = Refused(QUOTA_EXCEEDED, f"{DENIED}{exceeded}", retry=True, part=part)
        return question, replace(verdict, outcome=refusal)

    def _within_quotas(
        self, binding: Binding, item: Item, reserved: Sequence[CapacityReservation]
    ) -> tuple[Question, Verdict, Excess | None]:
        """Return the question of a binding, the verdict on it, and the quota that its result, or the part that fits,
        exceeds. A result takes its capacity and its share of the quotas if there is room for it in both."""
        question, verdict = self.batch.place(item)
        outcome = verdict.outcome
        clusters = self._part(binding, outcome) if isinstance(outcome, Refused) else outcome.clusters
        if clusters is None:
            return question, verdict, None
        after = binding_outcome.as_seen(binding, clusters, complete=isinstance(outcome, Placed))
        exceeded = self.quotas.take(binding, after, reserved=reserved, leaving=item.leaving)
        if exceeded is not None and isinstance(outcome, Placed):
            self.batch.give_back(question, outcome.clusters, item.uncounted)
        return question, verdict, exceeded

    def _taken(
        self,
        binding: Binding,
        question: Question,
        clusters: Sequence[TargetCluster],
        uncounted: Mapping[str, CapacityReservation],
    ) -> tuple[tuple[Save | Drop, ...], tuple[CapacityGuard, ...]]:
        """Return the writes that reserve the capacity that these targets take, and the guards on it."""
        before = {name: row.replicas for name, row in uncounted.items()}
        wanted = growth(question, clusters, before) if question.workload else {}
        guards = self._capacity_guards(
            question, [name for name, count in wanted.items() if count > before.get(name, 0)]
        )
        rows = binding_outcome.capacity_reservations(binding, wanted, uncounted, asked=question.asked, now=self.now)
        return tuple(rows), guards

    def _capacity_guards(self, question: Question, grown: Sequence[str]) -> tuple[CapacityGuard, ...]:
        """Return the guards of a result: what it takes on clusters that got more replicas must still be free."""
        if not grown or ignores_capacity(question):
            return ()
        return self.ledger.capacity_guards(self.fleet.places(grown), question.asked, seen=self.reserved_capacity.seen)

    def _live(self, snapshot: SchedulerSnapshot) -> Sequence[CapacityReservation]:
        """Return the capacity rows of the binding that have not expired."""
        return live(_reservations_of(snapshot), collected_at={}, now=self.reserved_capacity.at or self.now)

    def _reserved(self, snapshot: SchedulerSnapshot) -> Reserved:
        """Return the capacity that evictions have reserved for the binding."""
        return Reserved(snapshot.subject, snapshot.hint, [row for row in self._live(snapshot) if row.reserved])

    def _note(self, snapshot: SchedulerSnapshot, verdict: Verdict, trigger: str) -> tuple[Save, ...]:
        """Return the writes that store why a decision was made, for `explain` and the console."""
        note = self.notes.note(snapshot.subject, verdict, trigger=trigger, before=snapshot.note, now=self.now)
        return Save(note), Save(self.notes.names)

    def _refused(
        self,
        snapshot: SchedulerSnapshot,
        question: Question,
        verdict: Verdict,
        outcome: Refused,
        item: Item,
        reserved: Reserved,
        trigger: str,
    ) -> Decision:
        """Keep the placement and report why no new one fits [placement-is-kept]. Retry later.

        A part that fits is placed, and takes capacity as a whole result does.
        """
        binding = snapshot.subject
        outcome = replace(outcome, message=self._message(verdict, outcome))
        part = outcome.part if outcome.reason == QUOTA_EXCEEDED else self._part(binding, outcome)
        new = binding_outcome.refused(binding, outcome, part=part, now=self.now)
        abouts = (binding, template_of(binding)) if outcome.reason == QUOTA_EXCEEDED else (binding,)
        failed = tuple(Event(about, "ScheduleBindingFailed", outcome.message, warning=True) for about in abouts)
        events = failed if deserves_event(binding, new) else ()
        wake_at = self.now + retry_delay(new, outcome, now=self.now) if outcome.retry else None
        rows: tuple[Save | Drop, ...] = tuple(Drop(row) for row in _reservations_of(snapshot) if row.reserved)
        if new is binding:
            return Decision(changes=_writes(binding, binding, rows), wake_at=wake_at)
        guards: tuple[CapacityGuard, ...] = ()
        limits: tuple[QuotaGuard, ...] = ()
        if part is not None:
            uncounted = {row.cluster: row for row in self._live(snapshot) if not row.reserved}
            if outcome.reason != QUOTA_EXCEEDED:  # else `_place` has taken it
                self.batch.take(question, part, item.uncounted)
            taken, guards = self._taken(binding, question, part, uncounted)
            rows += taken
            limits = self.quotas.guards(binding, new, reserved=reserved.reservations, leaving=item.leaving)
        changes = _writes(new, binding, (*rows, *self._note(snapshot, verdict, trigger)))
        guarded = Decision(capacity_guards=guards, quota_guards=limits, wake_at=wake_at)
        return replace(guarded, changes=changes, events=events, reason=outcome.reason)

    def _message(self, verdict: Verdict, outcome: Refused) -> str:
        """Return a refusal with a sentence for each cluster. Bindings with equal questions may share one verdict."""
        known = self._messages.get(id(verdict))
        if known is None:
            summary = summary_of(verdict, trigger="", now=self.now)
            noted = placement_explanation.NotedDecision(summary, detail_of(verdict), self.fleet.names)
            text = placement_explanation.message(outcome.message, placement_explanation.accounts(noted, {}))
            known = self._messages[id(verdict)] = (verdict, text)
        return known[1]

    def _part(self, binding: Binding, outcome: Refused) -> tuple[TargetCluster, ...] | None:
        """Return the part of the replicas that fits, if their old cluster is not Ready [refuge-first].

        None: nothing more would be placed, no such cluster is the source, or `eviction.partial_refuge` is off.
        """
        if outcome.part is None or not self.settings.eviction.partial_refuge:
            return None
        lost = [
            task.from_cluster
            for task in binding.spec.graceful_eviction_tasks
            if task.reason in EVICTED and not self._ready(task.from_cluster)
        ]
        gained = sum(target.replicas for target in outcome.part) > sum(
            target.replicas for target in binding.spec.clusters
        )
        return outcome.part if lost and gained else None

    def _ready(self, name: str) -> bool:
        index = self.fleet.index.get(name)
        return index is not None and self.fleet.clusters[index].ready == "True"

    def _show_to_next(self, binding: Binding, outcome: Placed) -> None:
        """Add the result to the groups and the application of the binding, for the next bindings of the batch."""
        self.applications.placed(binding, outcome.clusters)
        self.groups.placed(binding, outcome.clusters)


def _reservations_of(snapshot: SchedulerSnapshot) -> Sequence[CapacityReservation]:
    """Return the capacity rows of the binding itself."""
    return snapshot.reserved_capacity.own.get(str(snapshot.subject.ref), ())


def _writes(new: Binding, old: Binding, rows: tuple[Save | Drop, ...]) -> tuple[Put | Save | Drop, ...]:
    """Return the writes of a decision.

    Rows are written only if the spec is still as it was read. Otherwise an eviction that was stored meanwhile keeps
    its reservations, and the binding is decided again.
    """
    if not rows:
        return () if new is old else (Put(new, old),)
    return (Put(new, old, upon=("spec",)), *rows)
